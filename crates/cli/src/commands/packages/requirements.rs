//! Reads the packages of a file in the format of pip, as people and lock files (pip-compile, uv, poetry) write it.

use std::path::Path;

use crate::failure::{Exit, Failure};

/// The mark that some editors put at the beginning of a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The option of a package that is accepted: pip checks what it downloads.
const HASH_OPTION: &str = "--hash=";

/// Reads the packages of a file.
pub(super) fn read(file: &Path) -> Result<Vec<String>, Failure> {
    let wrong = |why: String| Failure::new(Exit::Usage, format!("--requirements {}: {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(wrong)
}

fn parse(text: &str) -> Result<Vec<String>, String> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let lines = join_continued(text).into_iter().filter(|(_, line)| !line.is_empty());
    lines
        .map(|(number, line)| check(&line).map(|()| line).map_err(|why| format!("line {number}: {why}")))
        .collect()
}

fn check(line: &str) -> Result<(), String> {
    let is_refused = |(index, part): &(usize, &str)| {
        part.starts_with('-') && (*index == 0 || !part.starts_with(HASH_OPTION))
    };
    match line.split(' ').enumerate().find(is_refused) {
        Some((0, _)) => Err(format!("'{line}' is not supported: write one package per line")),
        Some((_, option)) => Err(format!("option '{option}' is not supported: only --hash is")),
        None => Ok(()),
    }
}

/// Joins each line that ends with a backslash with the next one. Returns lines without comments, with one space between
/// words and the double quotes of markers replaced, and the number at which each began.
fn join_continued(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let (number, mut joined) = open.take().unwrap_or((index + 1, String::new()));
        let line = without_comment(line).trim_end();
        let continued = line.strip_suffix('\\');
        joined.push_str(continued.unwrap_or(line));
        if continued.is_some() {
            open = Some((number, joined));
        } else {
            lines.push((number, normalize(&joined)));
        }
    }
    lines.extend(open.map(|(number, joined)| (number, normalize(&joined))));
    lines
}

/// Removes a comment, which begins at the start of a line or after a space.
fn without_comment(line: &str) -> &str {
    let is_comment = |(at, _): &(usize, &str)| *at == 0 || line[..*at].ends_with(char::is_whitespace);
    line.match_indices('#').find(is_comment).map_or(line, |(at, _)| &line[..at])
}

fn normalize(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ").replace('"', "'")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("# mine\n\npandas>=2  # tables\n numpy\t# fast\nurl @ https://example.test/a#b\n",
        &["pandas>=2", "numpy", "url @ https://example.test/a#b"])]
    #[case::byte_order_mark("\u{feff}six\r\nattrs\r\n", &["six", "attrs"])]
    #[case::marker("tabulate>=0.9 ; python_version > \"3.8\"\n", &["tabulate>=0.9 ; python_version > '3.8'"])]
    #[case::pip_compile(
        "six==1.16.0 \\\n    --hash=sha256:ab \\\n    --hash=sha256:cd\n    # via -r requirements.in\nattrs==1\n",
        &["six==1.16.0 --hash=sha256:ab --hash=sha256:cd", "attrs==1"]
    )]
    #[case::poetry(
        "six==1.16.0 ; python_version >= \"3.8\" and python_version < \"4.0\" \\\n    --hash=sha256:ab\n",
        &["six==1.16.0 ; python_version >= '3.8' and python_version < '4.0' --hash=sha256:ab"]
    )]
    #[case::the_last_line_is_continued("six \\", &["six"])]
    #[case::a_comment_is_not_continued("six # why \\\nattrs", &["six", "attrs"])]
    fn files_of_people_and_tools_are_read(#[case] text: &str, #[case] expected: &[&str]) {
        assert_eq!(parse(text).unwrap(), expected);
    }

    #[rstest]
    #[case("six\n-r other.txt\n", "line 2: '-r other.txt' is not supported: write one package per line")]
    #[case(
        "a \\\n  --hash=sha256:ab\n--hash=x",
        "line 3: '--hash=x' is not supported: write one package per line"
    )]
    #[case("six --no-binary=six", "line 1: option '--no-binary=six' is not supported: only --hash is")]
    fn other_options_are_refused(#[case] text: &str, #[case] why: &str) {
        assert_eq!(parse(text).unwrap_err(), why);
    }
}
