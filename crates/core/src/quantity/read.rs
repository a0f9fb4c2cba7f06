//! The grammar of amounts.

use std::fmt;

use serde::de::{Error, Visitor};

use super::InvalidQuantity;

/// The largest number of decimals; with more, an amount that fits its type could overflow the arithmetic.
const MOST_DECIMALS: usize = 18;

const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
const DECIMAL: [(&str, i32); 9] =
    [("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// A measured resource: its name, the examples in errors, and the number of decimals that are kept.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    pub(super) of: &'static str,
    pub(super) expected: &'static str,
    pub(super) decimals: i32,
}

/// `digits` × 2^`twos` × 10^`tens`.
struct Amount {
    digits: String,
    twos: u32,
    tens: i32,
}

/// Reads an amount in the smallest unit of the resource, rounded up.
pub(super) fn read(given: &str, measure: &Measure) -> Result<u64, InvalidQuantity> {
    let Measure { of, expected, decimals } = *measure;
    let amount =
        parse(given).ok_or_else(|| InvalidQuantity::Malformed { given: given.to_owned(), of, expected })?;
    scale(&amount, decimals).ok_or_else(|| InvalidQuantity::TooLarge { given: given.to_owned(), of })
}

fn parse(given: &str) -> Option<Amount> {
    let unsigned = given.strip_prefix('+').unwrap_or(given);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction_that_counts = fraction.trim_end_matches('0');
    if whole.len() + fraction.len() == 0
        || fraction.contains('.')
        || fraction_that_counts.len() > MOST_DECIMALS
    {
        return None;
    }
    let (twos, tens) = power(suffix)?;
    let tens = tens.checked_sub(i32::try_from(fraction_that_counts.len()).ok()?)?;
    Some(Amount { digits: format!("{whole}{fraction_that_counts}"), twos, tens })
}

/// The powers of two and of ten that a suffix stands for.
fn power(suffix: &str) -> Option<(u32, i32)> {
    if suffix.is_empty() {
        return Some((0, 0));
    }
    if let Some((_, twos)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((*twos, 0));
    }
    if let Some((_, tens)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((0, *tens));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    Some((0, exponent.parse::<i16>().ok()?.into()))
}

/// The amount in units of 10^-`decimals`, rounded up; none if it does not fit.
fn scale(amount: &Amount, decimals: i32) -> Option<u64> {
    let digits = amount.digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    let number = digits.parse::<u128>().ok()?.checked_mul(1 << amount.twos)?;
    let tens = amount.tens + decimals;
    let factor = 10_u128.checked_pow(tens.unsigned_abs());
    let scaled = match (tens < 0, factor) {
        (false, factor) => number.checked_mul(factor?)?,
        (true, Some(factor)) => number.div_ceil(factor),
        // No number is as large as that power of ten: the result is less than one, rounded up.
        (true, None) => 1,
    };
    u64::try_from(scaled).ok()
}

impl Visitor<'_> for Measure {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an amount of {}: {}", self.of, self.expected)
    }

    fn visit_str<E: Error>(self, given: &str) -> Result<u64, E> {
        read(given, &self).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, given: u64) -> Result<u64, E> {
        self.visit_str(&given.to_string())
    }

    fn visit_i64<E: Error>(self, given: i64) -> Result<u64, E> {
        self.visit_str(&given.to_string())
    }

    fn visit_f64<E: Error>(self, given: f64) -> Result<u64, E> {
        self.visit_str(&given.to_string())
    }
}
