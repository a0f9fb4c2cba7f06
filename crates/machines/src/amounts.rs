//! Amounts of resources, and conversions between the two types of timestamps.

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
    /// Reads the quantities of pods and nodes. Unreadable quantities are skipped: the API server accepts no such
    /// object.
    pub fn read<'a>(amounts: impl IntoIterator<Item = (&'a String, &'a Quantity)>) -> Self {
        let read = |(resource, Quantity(text)): (&'a String, &'a Quantity)| {
            Some((resource.clone(), parse(resource, text)?))
        };
        Self(amounts.into_iter().filter_map(read).collect())
    }

    /// The amount of a resource; zero if there is none.
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

    /// Returns true if every amount is zero.
    pub fn is_empty(&self) -> bool {
        self.0.values().all(|amount| *amount == 0)
    }
}

/// Parses an amount; `None` if the text is not a quantity, or is negative.
pub fn parse(resource: &str, text: &str) -> Option<u64> {
    match resource {
        CPU => text.parse::<Cpu>().ok().map(Cpu::millis),
        // `Memory` also parses the whole units of every other resource.
        _ => text.parse::<Memory>().ok().map(Memory::bytes),
    }
}

/// Formats an amount for messages.
pub fn shown(resource: &str, amount: u64) -> String {
    match resource {
        CPU => Cpu::from_millis(amount).to_string(),
        _ => Memory::from_bytes(amount).to_string(),
    }
}

/// The normal form of a quantity: `6` for `6000m`. An unreadable quantity stays as it is.
pub fn normalised(resource: &str, Quantity(text): &Quantity) -> Quantity {
    let written = parse(resource, text).map(|amount| match resource {
        CPU | MEMORY => shown(resource, amount),
        // Other resources are counted, so that a suffix such as `Ki` would mislead.
        _ => amount.to_string(),
    });
    Quantity(written.unwrap_or_else(|| text.clone()))
}

/// Converts to the timestamp of the Kubernetes types; clamped to the range of that type.
pub fn jiff_time(at: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(at.micros()).unwrap_or(if at.micros() < 0 {
        jiff::Timestamp::MIN
    } else {
        jiff::Timestamp::MAX
    })
}

/// Converts from the timestamp of the Kubernetes types.
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
