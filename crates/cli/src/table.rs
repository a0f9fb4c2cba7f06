//! Tables: coloured and fitted to the width of a terminal, plain in a pipe.

mod requested;
mod rows;

pub(crate) use rows::{
    InNamespace, JobWithNamespace, deleted_with, ephemeral, event_message, last_use, state_reason, workers,
};

use std::io::IsTerminal as _;

use comfy_table::{Cell, Color, ColumnConstraint, ContentArrangement, Table, presets};
use muster_core::time::Timestamp;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_proto::wkt;

use crate::output::harmless;

/// Width of the gap between two columns.
const GAP: u16 = 2;

/// Smallest width to which the last column is cut. In a narrower terminal, lines are left for the terminal to wrap.
const MIN_LAST_WIDTH: u16 = 20;

/// An object that is shown as one line of a table.
pub(crate) trait Listed {
    /// Titles of the columns.
    fn titles(wide: bool) -> Vec<&'static str>;
    /// Returns the cells of the line, one per column.
    fn line(&self, wide: bool, now: Timestamp) -> Vec<String>;
    /// Returns the name that `-o name` prints.
    fn called(&self) -> &str;
    /// Returns the state, which is coloured where it is a cell.
    fn state(&self) -> &str;
}

/// Renders a table with its titles.
pub(crate) fn render<T: Listed>(items: &[T], wide: bool) -> String {
    let mut table = bare();
    table.set_header(T::titles(wide));
    fill(&mut table, items, wide);
    finish(table)
}

/// A table whose lines are printed one by one; columns widen with their content.
#[derive(Debug, Default)]
pub(crate) struct StreamedTable {
    widths: Vec<usize>,
}

impl StreamedTable {
    /// Makes the columns wide enough for these objects, which are printed below the titles.
    pub(crate) fn make_room<T: Listed>(&mut self, items: &[T], wide: bool) {
        let now = SystemClock.now();
        for item in items {
            self.widen(&item.line(wide, now));
        }
    }

    /// Renders the titles.
    pub(crate) fn titles<T: Listed>(&mut self, wide: bool) -> String {
        self.line(&T::titles(wide))
    }

    /// Renders the line of one object.
    pub(crate) fn row<T: Listed>(&mut self, item: &T, wide: bool) -> String {
        self.line(&item.line(wide, SystemClock.now()))
    }

    fn widen<S: AsRef<str>>(&mut self, texts: &[S]) {
        self.widths.resize(texts.len(), 0);
        for (text, width) in texts.iter().map(AsRef::as_ref).zip(&mut self.widths) {
            *width = (*width).max(text.chars().count() + usize::from(GAP));
        }
    }

    fn line<S: AsRef<str>>(&mut self, texts: &[S]) -> String {
        self.widen(texts);
        let mut line = String::new();
        for (text, width) in texts.iter().map(AsRef::as_ref).zip(&self.widths) {
            line.push_str(text);
            line.extend(std::iter::repeat_n(' ', *width - text.chars().count()));
        }
        format!("{}\n", line.trim_end())
    }
}

/// Renders names and values of one object; empty values are left out.
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

/// Wraps the last column, which has the sentences, if the terminal leaves room; the others are not wrapped.
fn fit(table: &mut Table) {
    let widths = table.column_max_content_widths();
    let Some((_, others)) = widths.split_last() else { return };
    let taken = others.iter().map(|width| width + GAP).sum::<u16>();
    if table.width().is_some_and(|width| width >= taken.saturating_add(MIN_LAST_WIDTH + GAP)) {
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

/// Formats how long ago a time was, in one unit.
pub(crate) fn age(at: Option<wkt::Timestamp>, now: Timestamp) -> String {
    let Some(at) = at else { return String::new() };
    in_one_unit(now.since(Timestamp::from_micros(at.micros())).secs())
}

/// Formats how long until a time, in one unit; `None` if it is past.
pub(crate) fn left(at: wkt::Timestamp, now: Timestamp) -> Option<String> {
    let left = Timestamp::from_micros(at.micros()).since(now);
    (left.micros() > 0).then(|| in_one_unit(left.secs()))
}

/// Formats a time as the API's JSON does.
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
    use muster_proto::v1alpha2::{Action, Cluster};

    use super::*;

    #[test]
    fn a_cluster_of_a_job_shows_the_job_and_one_of_an_app_the_app() {
        let shown = |job: &str, app: &str| {
            let (ephemeral, job, app) = (!app.is_empty(), job.to_owned(), app.to_owned());
            super::ephemeral(&Cluster { ephemeral, job, app, ..Cluster::default() })
        };
        assert_eq!(shown("once", ""), "job/once");
        assert_eq!(shown("", "deploy/bob"), "deploy/bob");
        assert_eq!(shown("", ""), "<shared>");
    }

    #[test]
    fn an_action_shows_the_name_of_its_cluster_or_node() {
        let line = |name: &str| {
            let action = Action { id: "7".to_owned(), target_name: name.to_owned(), ..Action::default() };
            action.line(false, Timestamp::from_micros(0))[..2].join(" ")
        };
        assert_eq!((line("fred-1").as_str(), line("").as_str()), ("7 fred-1", "7 <missing>"));
    }

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
    fn titles_of_a_streamed_table_are_as_wide_as_the_lines_below_them() {
        let node = |name: &str| muster_proto::v1alpha2::Node {
            name: name.to_owned(),
            role: "worker".to_owned(),
            ..muster_proto::v1alpha2::Node::default()
        };
        let nodes = [node("w"), node("fred-worker-1")];
        let mut lines = StreamedTable::default();
        lines.make_room(&nodes, false);
        let titles = lines.titles::<muster_proto::v1alpha2::Node>(false);
        for node in &nodes {
            assert_eq!(lines.row(node, false).rfind("worker"), titles.find("ROLE"), "{titles}");
        }
    }

    #[test]
    fn empty_pairs_are_left_out() {
        let shown =
            pairs(&[("id", "1".to_owned()), ("reason", String::new()), ("status", "READY".to_owned())]);
        assert_eq!(shown, "id      1\nstatus  READY\n");
    }
}
