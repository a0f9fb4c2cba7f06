use proptest::prelude::*;
use rstest::rstest;

use super::*;

#[rstest]
#[case("2", 2000)]
#[case("0.5", 500)]
#[case(".5", 500)]
#[case("2.", 2000)]
#[case("500m", 500)]
#[case("+500m", 500)]
#[case("1.0005", 1001)]
#[case("0.0000000001", 1)]
#[case("1e3", 1_000_000)]
#[case("5e-1", 500)]
#[case("1e-999", 1)]
#[case("0e999", 0)]
#[case("1k", 1_000_000)]
#[case("1u", 1)]
#[case("0", 0)]
fn cpu_is_read_in_cores_or_thousandths(#[case] given: &str, #[case] millis: u64) {
    assert_eq!(given.parse::<Cpu>(), Ok(Cpu::from_millis(millis)));
}

#[rstest]
#[case("4Gi", 4 << 30)]
#[case("1.5Ki", 1536)]
#[case("512M", 512_000_000)]
#[case("1k", 1000)]
#[case("17", 17)]
#[case("+17", 17)]
#[case("1e3", 1000)]
#[case("1E3", 1000)]
#[case("1.5e+1", 15)]
#[case("15E", 15_000_000_000_000_000_000)]
#[case("15Ei", 15 << 60)]
#[case("1.000000000000000001Ei", (1 << 60) + 2)]
#[case("128974848000m", 128_974_848)]
#[case("1m", 1)]
#[case("1.00000000000000000000000000000000000000000", 1)]
#[case("18446744073709551615", u64::MAX)]
fn memory_is_read_with_its_suffix(#[case] given: &str, #[case] bytes: u64) {
    assert_eq!(given.parse::<Memory>(), Ok(Memory::from_bytes(bytes)));
}

#[rstest]
#[case("")]
#[case("m")]
#[case("+")]
#[case(".")]
#[case("-1")]
#[case("++1")]
#[case("1e")]
#[case("1e1.5")]
#[case("1K")]
#[case("1mi")]
#[case("two")]
#[case("1.2.3")]
#[case("1 ")]
#[case("0.0000000000000000001")]
fn what_is_no_amount_is_refused_with_the_value(#[case] given: &str) {
    let error = given.parse::<Cpu>().unwrap_err().to_string();
    assert_eq!(
        error,
        format!("'{given}' is not an amount of cpu: must be a number of cores such as 2, 0.5 or 500m")
    );
    assert!(given.parse::<Memory>().unwrap_err().to_string().starts_with(&format!("'{given}' is not")));
}

#[rstest]
#[case("99999999999999999999")]
#[case("18446744073709551615Gi")]
#[case("16Ei")]
#[case("1e20")]
#[case("1e9999")]
#[case("999999999999999999999999999999999999999999")]
fn what_does_not_fit_is_refused(#[case] given: &str) {
    assert_eq!(
        given.parse::<Memory>(),
        Err(InvalidQuantity::TooLarge { given: given.to_owned(), of: "memory" })
    );
}

#[rstest]
#[case("2000m", "2")]
#[case("1.25", "1250m")]
fn cpu_is_written_in_its_shortest_form(#[case] given: &str, #[case] written: &str) {
    assert_eq!(given.parse::<Cpu>().unwrap().to_string(), written);
}

#[rstest]
#[case("4096Mi", "4Gi")]
#[case("2G", "2G")]
#[case("1500000", "1500k")]
#[case("1000000Ki", "1024M")]
#[case("1537", "1537")]
#[case("15Ei", "15Ei")]
#[case("0", "0")]
fn memory_is_written_in_its_shortest_form(#[case] given: &str, #[case] written: &str) {
    assert_eq!(given.parse::<Memory>().unwrap().to_string(), written);
}

#[test]
fn where_two_forms_are_equally_short_the_binary_one_is_written() {
    assert_eq!("1013760k".parse::<Memory>().unwrap().to_string(), "990000Ki");
}

#[rstest]
#[case("2", 2000)]
#[case("0.5", 500)]
#[case("1e3", 1_000_000)]
#[case("\"500m\"", 500)]
fn json_may_hold_a_number_or_a_text(#[case] json: &str, #[case] millis: u64) {
    assert_eq!(serde_json::from_str::<Cpu>(json).unwrap(), Cpu::from_millis(millis));
}

#[rstest]
#[case("-1", "'-1' is not an amount of memory")]
#[case("\"lots\"", "'lots' is not an amount of memory")]
#[case("1e300", "is too large an amount of memory")]
#[case("true", "invalid type: boolean `true`, expected an amount of memory: a size such as 4Gi")]
fn json_that_is_no_amount_is_refused(#[case] json: &str, #[case] sentence: &str) {
    let error = serde_json::from_str::<Memory>(json).unwrap_err().to_string();
    assert!(error.contains(sentence), "{error}");
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same_amount(bytes in any::<u64>(), shift in 0_u32..64, thousands in 0_u32..7) {
        // Round numbers too, which have suffixes.
        for amount in [bytes, bytes << shift, (bytes >> shift).saturating_mul(1000_u64.pow(thousands))] {
            let (cpu, memory) = (Cpu::from_millis(amount), Memory::from_bytes(amount));
            prop_assert_eq!(cpu.to_string().parse(), Ok(cpu));
            prop_assert_eq!(memory.to_string().parse(), Ok(memory));
            let json = serde_json::to_string(&memory).unwrap();
            prop_assert_eq!(serde_json::from_str::<Memory>(&json).unwrap(), memory);
        }
    }
}
