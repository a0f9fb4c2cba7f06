//! Names that Kubernetes accepts as a label of a domain name.

/// The largest length of such a name.
pub const LONGEST_DNS_LABEL: usize = 63;

/// Returns true for lower-case letters, digits and hyphens that begin and end with a letter or digit.
pub fn is_dns_label(name: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.first().is_some_and(is_end)
        && bytes.last().is_some_and(is_end)
        && bytes.iter().all(|byte| is_end(byte) || *byte == b'-')
        && bytes.len() <= LONGEST_DNS_LABEL
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a", true)]
    #[case("1-b", true)]
    #[case(&"a".repeat(63), true)]
    #[case(&"a".repeat(64), false)]
    #[case("", false)]
    #[case("-a", false)]
    #[case("a-", false)]
    #[case("A", false)]
    #[case("a.b", false)]
    #[case("ä", false)]
    fn a_label_has_lower_case_letters_digits_and_hyphens(#[case] name: &str, #[case] expected: bool) {
        assert_eq!(is_dns_label(name), expected);
    }
}
