//! `muster nodes --watch`: shows the nodes, then every change.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use muster_proto::v1alpha2::{Cluster, ListNodesRequest, Node};
use rustix::termios;
use serde_json::json;

use super::all;
use crate::commands::watch::CLEAR;
use crate::commands::{deleted, find_by_id};
use crate::connect::Client;
use crate::format::{Format, yaml};
use crate::output;
use crate::table::{self, StreamedTable};

/// Interval at which the nodes are listed.
const PERIOD: Duration = Duration::from_secs(1);

/// Shows the nodes of a cluster and their changes, until it is deleted.
pub(super) async fn follow(client: &mut Client, cluster: &Cluster, format: Format) -> Result<ExitCode> {
    let is_table = matches!(format, Format::Table | Format::Wide);
    let redraws = is_table && std::io::stdout().is_terminal();
    let mut lines = StreamedTable::default();
    let mut has_titles = redraws || !is_table;
    let mut known: BTreeMap<String, Node> = BTreeMap::new();
    loop {
        let request = ListNodesRequest { id: cluster.id.clone(), ..ListNodesRequest::default() };
        let nodes = all(client, request).await?;
        let changed = changes(&known, &nodes);
        let mut text = String::new();
        if !std::mem::replace(&mut has_titles, true) {
            lines.make_room(&nodes, format == Format::Wide);
            text = lines.titles::<Node>(format == Format::Wide);
        }
        if redraws && !changed.is_empty() {
            text = format!("{CLEAR}{}", fitted(&table::render(&nodes, format == Format::Wide)));
        } else if !redraws {
            for (kind, node) in &changed {
                let line = match format {
                    Format::Json => format!("{}\n", json!({"type": kind, "node": node})),
                    Format::Yaml => format!("---\n{}", yaml(&json!({"type": kind, "node": node}))?),
                    Format::Name => format!("{}\n", node.name),
                    Format::Table | Format::Wide => lines.row(node, format == Format::Wide),
                };
                text.push_str(&line);
            }
        }
        if !text.is_empty() && output::print(&text) != ExitCode::SUCCESS {
            return Ok(ExitCode::FAILURE);
        }
        if nodes.is_empty() && find_by_id(client, &cluster.id).await?.deleted_at.is_some() {
            deleted::report(&cluster.name);
            return Ok(ExitCode::SUCCESS);
        }
        known = nodes.into_iter().map(|node| (node.id.clone(), node)).collect();
        tokio::time::sleep(PERIOD).await;
    }
}

/// Returns the changes between two lists; nodes that are missing in the second are `DELETED`.
fn changes(before: &BTreeMap<String, Node>, nodes: &[Node]) -> Vec<(&'static str, Node)> {
    let of_node = |node: &Node| match before.get(&node.id) {
        None => Some(("ADDED", node.clone())),
        Some(known) if known != node => Some(("MODIFIED", node.clone())),
        Some(_) => None,
    };
    let gone = before.values().filter(|known| !nodes.iter().any(|node| node.id == known.id));
    let deleted = gone.map(|node| ("DELETED", Node { state: "DELETED".to_owned(), ..node.clone() }));
    nodes.iter().filter_map(of_node).chain(deleted).collect()
}

/// Cuts a table to the height of the terminal of standard output.
pub(in crate::commands) fn fitted(table: &str) -> String {
    let height = termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_row));
    cut(table, height)
}

/// Cuts a table to the height of the terminal; 0 means unknown.
fn cut(table: &str, height: usize) -> String {
    let count = table.lines().count();
    // The cursor needs the last line.
    if height == 0 || count < height {
        return table.to_owned();
    }
    let shown = height.saturating_sub(2).max(1);
    let lines: String = table.split_inclusive('\n').take(shown).collect();
    format!("{lines}… and {} more: -o json lists all\n", count - shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, state: &str) -> Node {
        Node { id: id.to_owned(), state: state.to_owned(), ..Node::default() }
    }

    #[test]
    fn changes_are_added_modified_and_deleted_nodes() {
        let before = [node("a", "ACTIVE"), node("b", "CREATING"), node("c", "ACTIVE")];
        let before = before.into_iter().map(|node| (node.id.clone(), node)).collect();
        let nodes = [node("a", "ACTIVE"), node("b", "ACTIVE"), node("d", "INIT")];
        let changes: Vec<_> =
            changes(&before, &nodes).into_iter().map(|(kind, node)| (kind, node.id, node.state)).collect();
        let expected = [("MODIFIED", "b", "ACTIVE"), ("ADDED", "d", "INIT"), ("DELETED", "c", "DELETED")];
        assert_eq!(changes, expected.map(|(kind, id, state)| (kind, id.to_owned(), state.to_owned())));
    }

    #[test]
    fn a_long_table_is_cut_to_the_terminal() {
        assert_eq!(cut("NAME\na\nb\n", 4), "NAME\na\nb\n");
        assert_eq!(cut("NAME\na\nb\n", 0), "NAME\na\nb\n");
        assert_eq!(cut("NAME\na\nb\nc\n", 4), "NAME\na\n… and 2 more: -o json lists all\n");
    }
}
