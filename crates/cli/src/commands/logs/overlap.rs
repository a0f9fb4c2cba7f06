//! Leaves out lines that are read again when a log is resumed at another server.

/// Number of last bytes that are kept of each log: at most that much of a file of tasks is read again.
const KEPT: usize = 1 << 20;

/// The end of what was printed of one log.
#[derive(Debug, Default)]
pub(super) struct PrintedEnd {
    text: String,
    resumed: Resumed,
}

/// The progress of a resumed log through the lines that were printed before.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Resumed {
    /// All lines are new.
    #[default]
    No,
    /// The next line may have been printed before.
    Begins,
    /// The lines up to this offset were read again.
    Repeated(usize),
}

impl PrintedEnd {
    /// Expects that the next lines are some of the last ones again.
    pub(super) fn resume(&mut self) {
        self.resumed = Resumed::Begins;
    }

    /// Returns the lines of a text that were not printed before.
    pub(super) fn new_lines<'t>(&mut self, text: &'t str) -> &'t str {
        let begins: Vec<usize> = match self.resumed {
            Resumed::No => Vec::new(),
            Resumed::Begins => self.starts().collect(),
            Resumed::Repeated(at) => vec![at],
        };
        let repeated = begins.iter().find_map(|at| self.rest_in(*at, text));
        // If the text does not have all lines up to the last one, it may be a part of them.
        let is_part = |at: &&usize| repeated.is_none() && self.text[**at..].starts_with(text);
        if let Some(at) = begins.iter().find(is_part) {
            self.resumed = Resumed::Repeated(at + text.len());
            return "";
        }
        self.resumed = Resumed::No;
        let new = &text[repeated.unwrap_or_default()..];
        self.keep(new);
        new
    }

    /// Returns the offsets of the lines, the last one first.
    fn starts(&self) -> impl Iterator<Item = usize> {
        let lines = self.text.trim_end_matches('\n').rmatch_indices('\n').map(|(end, _)| end + 1);
        lines.chain([0]).filter(|at| *at < self.text.len())
    }

    /// Returns the length of the lines from an offset if the text begins with all of them.
    fn rest_in(&self, at: usize, text: &str) -> Option<usize> {
        let rest = &self.text[at..];
        text.starts_with(rest).then_some(rest.len())
    }

    fn keep(&mut self, new: &str) {
        self.text.push_str(new);
        if self.text.len() > 2 * KEPT {
            let begin = self.text.len() - KEPT;
            let end = self.text.as_bytes()[begin..].iter().position(|byte| *byte == b'\n');
            self.text.drain(..end.map_or(self.text.len(), |end| begin + end + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is printed of texts that are read after a log with these lines was resumed.
    fn resumed(printed: &[&str], read: &[&str]) -> String {
        let mut end = PrintedEnd::default();
        for text in printed {
            assert_eq!(end.new_lines(text), *text);
        }
        end.resume();
        read.iter().map(|text| end.new_lines(text)).collect()
    }

    #[test]
    fn lines_that_are_read_again_are_left_out() {
        assert_eq!(resumed(&["1\n", "2\n3\n"], &["1\n2\n3\n4\n"]), "4\n");
        assert_eq!(resumed(&["1\n2\n3\n4\n"], &["2\n", "3\n", "4\n5\n", "6\n"]), "5\n6\n");
        assert_eq!(resumed(&["1\n2\n"], &["2\n", "2\n"]), "2\n", "the second one is new");
        assert_eq!(resumed(&["1\n"], &["1\n"]), "");
    }

    #[test]
    fn new_lines_are_printed_also_if_none_is_read_again() {
        assert_eq!(resumed(&["1\n2\n"], &["3\n", "1\n"]), "3\n1\n");
        assert_eq!(resumed(&[], &["1\n"]), "1\n");
        assert_eq!(resumed(&["1\n2\n3\n"], &["2\n", "x\n"]), "x\n");
        assert_eq!(resumed(&["12\n"], &["2\n"]), "2\n", "the end of another line");
    }

    #[test]
    fn only_the_end_of_a_long_log_is_kept() {
        let mut end = PrintedEnd::default();
        let line = format!("{}\n", "ä".repeat(1 << 10));
        for _ in 0..3 << 10 {
            end.new_lines(&line);
        }
        assert!(end.text.len() <= 2 * KEPT + line.len() && end.text.starts_with(&line), "{}", end.text.len());
    }
}
