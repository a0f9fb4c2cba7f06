//! Prints lines of several nodes, each with the name of its node.

use std::collections::HashMap;
use std::env;
use std::io::IsTerminal as _;
use std::process::ExitCode;

use muster_proto::v1alpha2::{LogChunk, Node};
use regex::Regex;

use crate::output::{self, harmless};

/// ANSI colours that are readable on light and dark terminals.
const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];

pub(super) struct LogPrinter {
    grep: Option<Regex>,
    has_colour: bool,
    width: usize,
    colours: HashMap<String, u8>,
}

impl LogPrinter {
    pub(super) fn new(grep: Option<Regex>) -> Self {
        let has_colour = std::io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none();
        Self { grep, has_colour, width: 0, colours: HashMap::new() }
    }

    /// Makes the column of names wide enough for these nodes.
    pub(super) fn make_room(&mut self, nodes: &[Node]) {
        self.width = nodes.iter().map(|node| node.name.chars().count()).fold(self.width, usize::max);
    }

    /// Prints lines of a node: with its name before each if `is_named`, and lines of its tasks with the name of their
    /// file. Returns false once the output is closed.
    pub(super) fn print(&mut self, node: &str, is_named: bool, chunk: &LogChunk) -> bool {
        let source = match chunk.source.as_str() {
            "" => is_named.then(|| node.to_owned()),
            file => Some(harmless(&format!("{node}/{file}"))),
        };
        let shown = self.lines(source.as_deref(), &chunk.text);
        shown.is_empty() || output::print(&shown) == ExitCode::SUCCESS
    }

    fn lines(&mut self, source: Option<&str>, text: &str) -> String {
        let front = source.map(|source| self.front(source)).unwrap_or_default();
        let mut shown = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            if self.grep.as_ref().is_some_and(|pattern| !pattern.is_match(line.trim_end_matches('\n'))) {
                continue;
            }
            shown.push_str(&front);
            shown.push_str(line);
            // The next line may come from another source.
            if source.is_some() && !line.ends_with('\n') {
                shown.push('\n');
            }
        }
        shown
    }

    fn front(&mut self, name: &str) -> String {
        let next = COLOURS[self.colours.len() % COLOURS.len()];
        let colour = *self.colours.entry(name.to_owned()).or_insert(next);
        let padded = format!("{name:width$}", width = self.width);
        if self.has_colour { format!("\x1b[{colour}m{padded} |\x1b[0m ") } else { format!("{padded} | ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> Node {
        Node { name: name.to_owned(), ..Node::default() }
    }

    #[test]
    fn lines_of_several_nodes_begin_with_names() {
        let mut printer = LogPrinter { has_colour: false, ..LogPrinter::new(None) };
        let (head, worker) = (node("fred-head"), node("w"));
        printer.make_room(&[head.clone(), worker.clone()]);
        assert_eq!(printer.lines(Some(&head.name), "a\nb\n"), "fred-head | a\nfred-head | b\n");
        assert_eq!(printer.lines(Some(&worker.name), "c"), "w         | c\n");
        assert_eq!(printer.lines(None, "a\nb"), "a\nb");
        printer.has_colour = true;
        assert_eq!(printer.lines(Some(&worker.name), "c\n"), "\u{1b}[33mw         |\u{1b}[0m c\n");
    }

    #[test]
    fn only_lines_that_match_the_pattern_are_printed() {
        let mut printer = LogPrinter::new(Some(Regex::new("^ERR|x$").unwrap()));
        assert_eq!(printer.lines(None, "ERR one\nok\nno ERR\nbox\n"), "ERR one\nbox\n");
        assert_eq!(printer.lines(Some("w"), "nothing\n"), "");
    }
}
