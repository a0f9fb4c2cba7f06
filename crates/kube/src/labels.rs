//! Labels, annotations and names as Kubernetes takes them.

use std::collections::BTreeMap;

/// The longest name of a key, and the longest value of a label.
const LONGEST: usize = 63;

/// The longest prefix of a key.
const LONGEST_PREFIX: usize = 253;

/// What all annotations of an object may be together, in bytes.
const ALL_ANNOTATIONS: usize = 256 << 10;

/// Refuses what an object could not carry; the sentence names the key.
pub(crate) fn check(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Result<(), String> {
    for (key, value) in labels {
        check_key("label", key, key)?;
        if !value.is_empty() && !is_name(value) {
            return Err(format!("label '{key}' cannot be '{value}': a value is empty, or has {NAME}"));
        }
    }
    for key in annotations.keys() {
        // Kubernetes does not mind capitals in the prefix of an annotation.
        check_key("annotation", key, &key.to_ascii_lowercase())?;
    }
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > ALL_ANNOTATIONS {
        let longest = annotations.iter().max_by_key(|(_, value)| value.len());
        let longest = longest.map(|(key, _)| key.as_str()).unwrap_or_default();
        return Err(format!(
            "annotations have {size} bytes together, and may have {ALL_ANNOTATIONS}: '{longest}' is the longest"
        ));
    }
    Ok(())
}

/// Refuses a name that no object could have.
pub(crate) fn check_name(what: &str, name: Option<&String>) -> Result<(), String> {
    match name.filter(|name| !is_domain(name)) {
        Some(name) => Err(format!(
            "there is no {what} '{name}': names have small letters, digits, '-' and '.', and begin and end with a \
             letter or digit"
        )),
        None => Ok(()),
    }
}

/// What a name is made of, in words.
const NAME: &str = "at most 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit";

fn check_key(what: &str, key: &str, form: &str) -> Result<(), String> {
    let (prefix, name) = form.split_once('/').map_or((None, form), |(prefix, name)| (Some(prefix), name));
    if prefix.is_none_or(is_domain) && is_name(name) {
        return Ok(());
    }
    Err(format!("{what} '{key}' is not possible: a key has {NAME}, after a domain and '/' if any"))
}

fn is_name(text: &str) -> bool {
    let ends = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
    let inner = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    text.len() <= LONGEST
        && ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(inner)
}

fn is_domain(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let part = |part: &str| {
        part.starts_with(plain) && part.ends_with(plain) && part.chars().all(|l| plain(l) || l == '-')
    };
    text.len() <= LONGEST_PREFIX && text.split('.').all(part)
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
    fn names_are_those_of_objects(#[case] name: Option<&str>, #[case] possible: bool) {
        let name = name.map(str::to_owned);
        assert_eq!(check_name("service account", name.as_ref()).is_ok(), possible, "{name:?}");
    }

    fn one(key: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), value.to_owned())])
    }

    #[rstest]
    #[case("team", "blue", "")]
    #[case("example.org/Team_1", "", "")]
    #[case("a b", "x", "label 'a b' is not possible")]
    #[case("", "x", "label '' is not possible")]
    #[case("Example.org/team", "x", "label 'Example.org/team' is not possible")]
    #[case("example.org/a/b", "x", "label 'example.org/a/b' is not possible")]
    #[case("/team", "x", "label '/team' is not possible")]
    #[case("team", "-blue", "label 'team' cannot be '-blue'")]
    #[case("team", "blue green", "label 'team' cannot be 'blue green'")]
    fn a_label_is_taken_if_kubernetes_would(#[case] key: &str, #[case] value: &str, #[case] why: &str) {
        let refused = check(&one(key, value), &BTreeMap::new()).err().unwrap_or_default();
        assert!(refused.starts_with(why) && refused.is_empty() == why.is_empty(), "{refused}");
    }

    #[rstest]
    #[case("Example.org/note", "any thing\nat all", "")]
    #[case("a b", "x", "annotation 'a b' is not possible")]
    #[case("note", &"x".repeat(ALL_ANNOTATIONS), "annotations have 262148 bytes together")]
    fn an_annotation_may_say_anything_under_a_proper_key(
        #[case] key: &str,
        #[case] value: &str,
        #[case] why: &str,
    ) {
        let refused = check(&BTreeMap::new(), &one(key, value)).err().unwrap_or_default();
        assert!(refused.starts_with(why) && refused.is_empty() == why.is_empty(), "{refused}");
    }

    #[test]
    fn the_longest_are_63_characters() {
        let (fits, longer) = ("x".repeat(63), "x".repeat(64));
        assert!(check(&one(&fits, &fits), &BTreeMap::new()).is_ok());
        assert!(check(&one(&longer, "x"), &BTreeMap::new()).is_err());
        assert!(check(&one("x", &longer), &BTreeMap::new()).is_err());
    }
}
