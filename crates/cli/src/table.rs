//! Tables: coloured and fitted on a terminal, the same without colour in a pipe.

mod rows;

pub(crate) use rows::{ephemeral, workers};

use std::io::IsTerminal as _;

use comfy_table::{Cell, Color, ColumnConstraint, ContentArrangement, Table, presets};
use muster_core::time::Timestamp;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_proto::wkt;

use crate::output::harmless;

/// The room between two columns.
const GAP: u16 = 2;

/// The least room for sentences: in less they are better broken by the terminal.
const LEAST_LAST: u16 = 20;

/// Something that a line of a table tells of.
pub(crate) trait Listed {
    /// The titles of its columns.
    fn titles(wide: bool) -> Vec<&'static str>;
    /// Its line, a text a column.
    fn line(&self, wide: bool, now: Timestamp) -> Vec<String>;
    /// What it is called.
    fn called(&self) -> &str;
    /// How it is, in the word that stands in one of the columns.
    fn state(&self) -> &str;
}

/// A table with its titles.
pub(crate) fn render<T: Listed>(items: &[T], wide: bool) -> String {
    let mut table = bare();
    table.set_header(T::titles(wide));
    fill(&mut table, items, wide);
    finish(table)
}

/// Lines that come one after the other, in columns that widen with what they hold.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    widths: Vec<usize>,
}

impl Lines {
    /// The titles.
    pub(crate) fn titles<T: Listed>(&mut self, wide: bool) -> String {
        self.line(&T::titles(wide))
    }

    /// The line of one thing.
    pub(crate) fn of<T: Listed>(&mut self, item: &T, wide: bool) -> String {
        self.line(&item.line(wide, SystemClock.now()))
    }

    fn line<S: AsRef<str>>(&mut self, texts: &[S]) -> String {
        self.widths.resize(texts.len(), 0);
        let mut line = String::new();
        for (text, width) in texts.iter().map(AsRef::as_ref).zip(&mut self.widths) {
            *width = (*width).max(text.chars().count() + usize::from(GAP));
            line.push_str(text);
            line.extend(std::iter::repeat_n(' ', *width - text.chars().count()));
        }
        format!("{}\n", line.trim_end())
    }
}

/// Names and values, for one thing with many of them; what is empty is left out.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let mut table = bare();
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        table.add_row([*name, &harmless(value)]);
    }
    finish(table)
}

fn bare() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if !std::io::stdout().is_terminal() {
        table.force_no_tty();
    }
    table
}

fn fill<T: Listed>(table: &mut Table, items: &[T], wide: bool) {
    let now = SystemClock.now();
    let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    for item in items {
        let cells = item.line(wide, now).into_iter().map(|text| {
            let colour = if coloured && text == item.state() { colour(&text) } else { None };
            let cell = Cell::new(text);
            match colour {
                Some(colour) => cell.fg(colour),
                None => cell,
            }
        });
        table.add_row(cells.collect::<Vec<_>>());
    }
}

fn finish(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    fit(&mut table);
    format!("{}\n", table.trim_fmt())
}

/// Wraps the last column, the one with sentences, where the terminal leaves it room; the others stay whole.
fn fit(table: &mut Table) {
    let widths = table.column_max_content_widths();
    let Some((_, others)) = widths.split_last() else { return };
    let taken = others.iter().map(|width| width + GAP).sum::<u16>();
    if table.width().is_some_and(|width| width >= taken.saturating_add(LEAST_LAST + GAP)) {
        table.set_constraints(others.iter().map(|_| ColumnConstraint::ContentWidth));
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
}

fn colour(state: &str) -> Option<Color> {
    Some(match state {
        "ACTIVE" | "SUCCEEDED" | "yes" => Color::Green,
        "WARNING" | "WARN" | "CANCELLED" | "SUSPENDED" | "no" => Color::Yellow,
        "ERROR" | "CRITICAL" | "FAILED" => Color::Red,
        "DELETED" | "INFO" | "DEBUG" => return None,
        _ => Color::Cyan,
    })
}

/// How long ago, in one unit: as precise as it matters.
pub(crate) fn age(at: Option<wkt::Timestamp>, now: Timestamp) -> String {
    let Some(at) = at else { return String::new() };
    in_one_unit(now.since(Timestamp::from_micros(at.micros())).secs())
}

/// How long until then, in one unit; nothing once it is past.
pub(crate) fn left(at: wkt::Timestamp, now: Timestamp) -> Option<String> {
    let left = Timestamp::from_micros(at.micros()).since(now);
    (left.micros() > 0).then(|| in_one_unit(left.secs()))
}

/// A moment as the API's JSON writes it.
pub(crate) fn moment(at: wkt::Timestamp) -> String {
    serde_json::to_value(at).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn in_one_unit(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        let now = Timestamp::from_micros(10_000_000_000_000);
        let before = |seconds: i64| Some(wkt::Timestamp::from_micros(now.micros() - seconds * 1_000_000));
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7_199, "119m"),
            (7_200, "2h"),
            (172_800, "2d"),
            (-5, "0s"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(age(before(seconds), now), expected);
        }
        assert_eq!(age(None, now), "");
    }

    #[test]
    fn pairs_stand_in_columns_without_what_is_empty() {
        let shown =
            pairs(&[("id", "1".to_owned()), ("reason", String::new()), ("status", "READY".to_owned())]);
        assert_eq!(shown, "id      1\nstatus  READY\n");
    }
}
