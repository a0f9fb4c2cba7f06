//! Validation of labels, annotations and names by the rules of Kubernetes.

use std::collections::BTreeMap;

/// The length limit of a key's name, and of a label's value.
const MAX_NAME_LENGTH: usize = 63;

/// The length limit of a key's prefix.
const MAX_PREFIX_LENGTH: usize = 253;

/// The limit of all annotations of an object together, in bytes.
const MAX_ANNOTATION_BYTES: usize = 256 << 10;

/// Refuses labels and annotations that no object can have. The message names the key.
pub(crate) fn check_metadata(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Result<(), String> {
    for (key, value) in labels {
        check_key("label", key, key)?;
        if !value.is_empty() && !is_name(value) {
            return Err(format!(
                "label '{key}' cannot be '{value}': a value must be empty, or have {NAME_RULE}"
            ));
        }
    }
    for key in annotations.keys() {
        // Kubernetes accepts capitals in the prefix of an annotation.
        check_key("annotation", key, &key.to_ascii_lowercase())?;
    }
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > MAX_ANNOTATION_BYTES {
        let longest = annotations.iter().max_by_key(|(_, value)| value.len());
        let longest = longest.map(|(key, _)| key.as_str()).unwrap_or_default();
        return Err(format!(
            "annotations have {size} bytes together: the limit is {MAX_ANNOTATION_BYTES}; shorten '{longest}', the longest"
        ));
    }
    Ok(())
}

/// Refuses a name that no object can have.
pub(crate) fn check_name(what: &str, name: Option<&str>) -> Result<(), String> {
    match name.filter(|name| !is_domain(name)) {
        Some(name) => Err(format!(
            "{what} '{name}' cannot exist: a name must have lowercase letters, digits, '-' and '.', and begin and end \
             with a letter or digit"
        )),
        None => Ok(()),
    }
}

/// The rule for names, for messages.
const NAME_RULE: &str =
    "at most 63 letters, digits, '-', '_' and '.', and begin and end with a letter or digit";

fn check_key(what: &str, key: &str, form: &str) -> Result<(), String> {
    let (prefix, name) = form.split_once('/').map_or((None, form), |(prefix, name)| (Some(prefix), name));
    if prefix.is_none_or(is_domain) && is_name(name) {
        return Ok(());
    }
    Err(format!("{what} '{key}' is invalid: a key must have {NAME_RULE}, after an optional domain and '/'"))
}

fn is_name(text: &str) -> bool {
    let ends = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
    let inner = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    text.len() <= MAX_NAME_LENGTH
        && ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(inner)
}

fn is_domain(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let part = |part: &str| {
        part.starts_with(plain) && part.ends_with(plain) && part.chars().all(|l| plain(l) || l == '-')
    };
    text.len() <= MAX_PREFIX_LENGTH && text.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(None, true)]
    #[case::plain(Some("robot-1.test"), true)]
    #[case::capitals(Some("Robot"), false)]
    #[case::blank(Some("a b"), false)]
    #[case::path(Some("../a"), false)]
    fn names_are_those_of_objects(#[case] name: Option<&str>, #[case] possible: bool) {
        assert_eq!(check_name("service account", name).is_ok(), possible, "{name:?}");
    }

    fn one(key: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), value.to_owned())])
    }

    #[rstest]
    #[case("team", "blue", "")]
    #[case("example.org/Team_1", "", "")]
    #[case("a b", "x", "label 'a b' is invalid")]
    #[case("", "x", "label '' is invalid")]
    #[case("Example.org/team", "x", "label 'Example.org/team' is invalid")]
    #[case("example.org/a/b", "x", "label 'example.org/a/b' is invalid")]
    #[case("/team", "x", "label '/team' is invalid")]
    #[case("team", "-blue", "label 'team' cannot be '-blue'")]
    #[case("team", "blue green", "label 'team' cannot be 'blue green'")]
    fn a_label_is_accepted_if_kubernetes_would_accept_it(
        #[case] key: &str,
        #[case] value: &str,
        #[case] why: &str,
    ) {
        let refused = check_metadata(&one(key, value), &BTreeMap::new()).err().unwrap_or_default();
        assert!(refused.starts_with(why) && refused.is_empty() == why.is_empty(), "{refused}");
    }

    #[rstest]
    #[case("Example.org/note", "any thing\nat all", "")]
    #[case("a b", "x", "annotation 'a b' is invalid")]
    #[case("note", &"x".repeat(MAX_ANNOTATION_BYTES), "annotations have 262148 bytes together")]
    fn an_annotation_may_have_any_value_under_a_valid_key(
        #[case] key: &str,
        #[case] value: &str,
        #[case] why: &str,
    ) {
        let refused = check_metadata(&BTreeMap::new(), &one(key, value)).err().unwrap_or_default();
        assert!(refused.starts_with(why) && refused.is_empty() == why.is_empty(), "{refused}");
    }

    #[test]
    fn keys_and_values_have_at_most_63_characters() {
        let (fits, longer) = ("x".repeat(63), "x".repeat(64));
        assert!(check_metadata(&one(&fits, &fits), &BTreeMap::new()).is_ok());
        assert!(check_metadata(&one(&longer, "x"), &BTreeMap::new()).is_err());
        assert!(check_metadata(&one("x", &longer), &BTreeMap::new()).is_err());
    }
}
