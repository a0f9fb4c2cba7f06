//! Amounts of resources, and moments in the form of the API server.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use muster_core::quantity::{Cpu, Memory};
use muster_core::time::Timestamp;

/// The resource cpu, which is counted in thousandths.
pub const CPU: &str = "cpu";

/// The resource memory.
pub const MEMORY: &str = "memory";

/// Amounts by resource: thousandths of cpu, and whole units of everything else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Amounts(BTreeMap<String, u64>);

impl Amounts {
    /// Reads what pods and nodes say. What cannot be read counts as nothing: the API server accepts no such object.
    pub fn read<'a>(amounts: impl IntoIterator<Item = (&'a String, &'a Quantity)>) -> Self {
        let read = |(resource, Quantity(text)): (&'a String, &'a Quantity)| {
            Some((resource.clone(), parse(resource, text)?))
        };
        Self(amounts.into_iter().filter_map(read).collect())
    }

    /// The amount of a resource; none is zero.
    pub fn get(&self, resource: &str) -> u64 {
        self.0.get(resource).copied().unwrap_or(0)
    }

    /// Each resource and its amount.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(resource, amount)| (resource.as_str(), *amount))
    }

    /// Sets an amount.
    pub fn set(&mut self, resource: &str, amount: u64) {
        self.0.insert(resource.to_owned(), amount);
    }

    /// Adds other amounts.
    pub fn add(&mut self, other: &Self) {
        for (resource, amount) in &other.0 {
            let sum = self.0.entry(resource.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    /// Raises each amount to that of the other.
    pub fn raise_to(&mut self, other: &Self) {
        for (resource, amount) in &other.0 {
            let most = self.0.entry(resource.clone()).or_default();
            *most = (*most).max(*amount);
        }
    }

    /// The excess over other amounts, resource by resource.
    #[must_use]
    pub fn above(&self, other: &Self) -> Self {
        let above = |(resource, amount): (&String, &u64)| {
            let excess = amount.saturating_sub(other.get(resource));
            (excess > 0).then(|| (resource.clone(), excess))
        };
        Self(self.0.iter().filter_map(above).collect())
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(|amount| *amount == 0)
    }
}

/// The amount that a text stands for; none if it stands for no amount, or for one below zero.
pub fn parse(resource: &str, text: &str) -> Option<u64> {
    match resource {
        CPU => text.parse::<Cpu>().ok().map(Cpu::millis),
        // Whole units, whatever they are.
        _ => text.parse::<Memory>().ok().map(Memory::bytes),
    }
}

/// An amount for people.
pub fn shown(resource: &str, amount: u64) -> String {
    match resource {
        CPU => Cpu::from_millis(amount).to_string(),
        _ => Memory::from_bytes(amount).to_string(),
    }
}

/// A quantity as it is written by us: `6` for `6000m`. What cannot be read stays as it is.
pub fn normalised(resource: &str, Quantity(text): &Quantity) -> Quantity {
    let written = parse(resource, text).map(|amount| match resource {
        CPU | MEMORY => shown(resource, amount),
        // Counted, and not measured.
        _ => amount.to_string(),
    });
    Quantity(written.unwrap_or_else(|| text.clone()))
}

/// A moment in the form of the API server's types; what is out of its range is cut.
pub fn jiff_time(at: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(at.micros()).unwrap_or(if at.micros() < 0 {
        jiff::Timestamp::MIN
    } else {
        jiff::Timestamp::MAX
    })
}

/// The reverse.
pub fn core_time(at: jiff::Timestamp) -> Timestamp {
    Timestamp::from_micros(at.as_microsecond())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(CPU, "40000m", Some(40_000))]
    #[case(CPU, "40", Some(40_000))]
    #[case(MEMORY, "128Gi", Some(128 << 30))]
    #[case("nvidia.com/gpu", "2", Some(2))]
    #[case(CPU, "-1", None)]
    #[case(MEMORY, "much", None)]
    fn amounts_are_compared_as_quantities(
        #[case] resource: &str,
        #[case] text: &str,
        #[case] expected: Option<u64>,
    ) {
        assert_eq!(parse(resource, text), expected);
    }

    #[rstest]
    #[case(CPU, "6000m", "6")]
    #[case(CPU, "1500m", "1500m")]
    #[case(MEMORY, "49152Mi", "48Gi")]
    #[case("nvidia.com/gpu", "2000m", "2")]
    #[case("nvidia.com/gpu", "1024", "1024")]
    #[case(MEMORY, "much", "much")]
    fn amounts_have_one_form(#[case] resource: &str, #[case] text: &str, #[case] expected: &str) {
        assert_eq!(normalised(resource, &Quantity(text.to_owned())).0, expected);
    }

    #[test]
    fn the_ends_of_time_are_cut() {
        for micros in [i64::MIN, 0, 1_700_000_000_123_456, i64::MAX] {
            let at = Timestamp::from_micros(micros);
            let back = core_time(jiff_time(at));
            assert!(back == at || micros.unsigned_abs() > 1 << 60, "{micros}: {back:?}");
        }
    }
}
