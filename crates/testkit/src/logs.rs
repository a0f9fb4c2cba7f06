//! Reading the ends of logs.

use std::fs;
use std::path::Path;

/// The last `lines` lines of a log, indented, or why they cannot be read.
pub(crate) fn tail(log: &Path, lines: usize) -> String {
    match fs::read(log) {
        Ok(bytes) => last_lines(&String::from_utf8_lossy(&bytes), lines),
        Err(error) => format!("  (cannot read {}: {error})", log.display()),
    }
}

/// The last `lines` lines of a text, indented.
pub(crate) fn last_lines(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    if all.is_empty() {
        return "  (nothing was written)".to_owned();
    }
    let from = all.len().saturating_sub(lines);
    all[from..].iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_end_of_the_text() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "  b\n  c");
        assert_eq!(last_lines("a\n", 2), "  a");
        assert_eq!(last_lines("", 2), "  (nothing was written)");
    }
}
