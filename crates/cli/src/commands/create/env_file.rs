//! Files of environment variables, one KEY=VALUE per line.
//!
//! Values are taken literally, as container runtimes take them: a password may contain `$`, `#` and backslashes. The
//! libraries for `.env` files substitute variables and remove escapes.

/// Parses the text of a file. Empty lines and lines that begin with `#` are skipped, `export` before a name and quotes
/// around a value are removed.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let given = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    given.map(|(number, line)| variable(line).map_err(|why| format!("line {number} {why}"))).collect()
}

fn variable(line: &str) -> Result<(String, String), String> {
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let is_name =
        |name: &str| !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control());
    // The line is not repeated, since it may contain a secret.
    let Some((name, value)) = line.split_once('=').map(|(name, value)| (name.trim_end(), value.trim_start()))
    else {
        return Err("is not KEY=VALUE".to_owned());
    };
    if !is_name(name) {
        return Err("is not KEY=VALUE: the name before '=' must not be empty or contain spaces".to_owned());
    }
    Ok((name.to_owned(), unquoted(value).map_err(|why| format!("({name}) {why}"))?.to_owned()))
}

/// Removes quotes around a value.
fn unquoted(value: &str) -> Result<&str, &'static str> {
    let Some(quote) = value.chars().next().filter(|first| matches!(first, '"' | '\'')) else {
        return Ok(value);
    };
    let content = value.get(1..).and_then(|rest| rest.strip_suffix(quote));
    content.ok_or("begins with a quote that is not closed at the end of the line")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("A=1", "1")]
    #[case("A=", "")]
    #[case("export A = 1 ", "1")]
    #[case("A=pa$w0rd$$x\\n", r"pa$w0rd$$x\n")]
    #[case(r#"A={"a":1}"#, r#"{"a":1}"#)]
    #[case("A=two words # and more", "two words # and more")]
    #[case("A='two words'", "two words")]
    #[case("A=\"x=$y\"", "x=$y")]
    #[case("A=it's", "it's")]
    #[case("\n# a comment\nA=x\r\n", "x")]
    fn a_value_is_taken_literally(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(parse(text), Ok(vec![("A".to_owned(), expected.to_owned())]));
    }

    #[rstest]
    #[case("A=1\nsecret", "line 2 is not KEY=VALUE")]
    #[case("=x", "line 1 is not KEY=VALUE: the name")]
    #[case("A B=x", "line 1 is not KEY=VALUE: the name")]
    #[case("A='x", "line 1 (A) begins with a quote that is not closed")]
    #[case("A=\"", "line 1 (A) begins with a quote that is not closed")]
    fn a_wrong_line_is_refused_with_its_number_and_without_its_value(#[case] text: &str, #[case] why: &str) {
        let refused = parse(text).unwrap_err();
        assert!(refused.starts_with(why) && !refused.contains("secret"), "{refused}");
    }
}
