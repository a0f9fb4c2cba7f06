//! New members: their names, places and first rows.

use std::fmt::Write as _;

use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::node::{HEAD_INDEX, Node, NodeRole};
use muster_core::time::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::ids::new_id;

/// The cluster setting that holds the format of node names.
const FORMAT: &str = "node.name.format";

/// The default format.
const DEFAULT_FORMAT: &str = "node-$8R";

/// A new worker.
pub(crate) fn worker(cluster: &Cluster, group: &str, index: u32, now: Timestamp) -> Node {
    let format = cluster.config.get(FORMAT).and_then(Value::as_str).unwrap_or(DEFAULT_FORMAT);
    let id = new_id();
    let name = expand(format, index, Uuid::new_v4());
    Node { group: Some(group.to_owned()), index: i64::from(index), name, ..member(cluster, id, now) }
}

/// New workers of a group, with the next indexes of their cluster.
pub(crate) fn new_workers(cluster: &mut Cluster, group: &str, count: u32, now: Timestamp) -> Vec<Node> {
    let first = cluster.next_index;
    cluster.next_index = first.saturating_add(count);
    (first..cluster.next_index).map(|index| worker(cluster, group, index, now)).collect()
}

/// The default name of an orphan.
pub(crate) fn default_name() -> String {
    expand(DEFAULT_FORMAT, 0, Uuid::new_v4())
}

/// A requested member before it has its place: named as if it got the next index.
pub(crate) fn candidate(cluster: &Cluster, node: Node) -> Node {
    let name = generated_name(cluster, &node, cluster.next_index);
    Node { cluster_id: Some(cluster.id), name, ..node }
}

/// A requested member with its place and its final name.
pub(crate) fn with_place_and_name(cluster: &Cluster, node: Node, group: &str, index: u32) -> Node {
    let name = generated_name(cluster, &node, index);
    Node { name, ..with_place(cluster, node, group, index) }
}

/// An existing node with its place in a cluster; it keeps its name.
pub(crate) fn with_place(cluster: &Cluster, node: Node, group: &str, index: u32) -> Node {
    Node {
        cluster_id: Some(cluster.id),
        group: Some(group.to_owned()),
        index: i64::from(index),
        incarnation: cluster.incarnation,
        ..node
    }
}

/// The random letters are derived from the node's id: they stay the same whatever place it gets.
fn generated_name(cluster: &Cluster, node: &Node, index: u32) -> String {
    let format = cluster.config.get(FORMAT).and_then(Value::as_str).unwrap_or(DEFAULT_FORMAT);
    expand(format, index, Uuid::new_v5(&Uuid::NAMESPACE_OID, node.id.as_uuid().as_bytes()))
}

/// A new head.
pub(crate) fn head(cluster: &Cluster, now: Timestamp) -> Node {
    let name = format!("{}-head", cluster.object_name);
    Node { role: NodeRole::Head, index: HEAD_INDEX, name, ..member(cluster, new_id(), now) }
}

fn member(cluster: &Cluster, id: Uuid, now: Timestamp) -> Node {
    let (id, instance) = (NodeId::from_uuid(id), cluster.instance.clone());
    Node {
        cluster_id: Some(cluster.id),
        user: cluster.user.clone(),
        incarnation: cluster.incarnation,
        ..Node::new(id, &cluster.project, instance, cluster.profile_id, now)
    }
}

/// Fills a format in: `$nR` random letters and digits, `$nr` the same in lower case, `$nI` the index with zeros.
fn expand(format: &str, index: u32, random: Uuid) -> String {
    let mut name = String::with_capacity(format.len() + 8);
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('$') {
        name.push_str(before);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let width: Option<usize> = after[..digits].parse().ok().filter(|width| (1..=32).contains(width));
        match after[digits..].chars().next() {
            Some('R') => name.push_str(&letters(random, width.unwrap_or(8))),
            Some('r') => name.push_str(&letters(random, width.unwrap_or(8)).to_lowercase()),
            Some('I') => {
                let width = width.unwrap_or(1);
                let _ = write!(name, "{index:0width$}");
            }
            _ => {
                name.push('$');
                rest = after;
                continue;
            }
        }
        rest = &after[digits + 1..];
    }
    name + rest
}

/// Random characters, the first of them a letter.
fn letters(random: Uuid, count: usize) -> String {
    const ALPHABET: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    let mut number = random.as_u128();
    let mut draw = |from: usize| {
        let drawn = usize::try_from(number % from as u128).unwrap_or(0);
        number = (number / from as u128) ^ number.rotate_left(41);
        char::from(ALPHABET[drawn])
    };
    (0..count).map(|place| draw(if place == 0 { 52 } else { 62 })).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const RANDOM: Uuid = Uuid::from_u128(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);

    #[rstest]
    #[case("n-$3I", "n-007")]
    #[case("$I", "7")]
    #[case("plain", "plain")]
    #[case("a$b", "a$b")]
    #[case("end$", "end$")]
    fn a_format_is_filled_in(#[case] format: &str, #[case] name: &str) {
        assert_eq!(expand(format, 7, RANDOM), name);
    }

    #[test]
    fn random_parts_have_their_width_and_begin_with_a_letter() {
        let name = expand("node-$8R", 1, RANDOM);
        let random = name.strip_prefix("node-").unwrap();
        assert_eq!(random.len(), 8);
        assert!(random.starts_with(|first: char| first.is_ascii_alphabetic()), "{random}");
        let lower = expand("$4r", 1, RANDOM);
        assert!(lower.len() == 4 && lower == lower.to_lowercase(), "{lower}");
    }

    #[test]
    fn names_differ() {
        let names: std::collections::HashSet<String> =
            (0..1000).map(|_| expand("$8R", 1, Uuid::new_v4())).collect();
        assert_eq!(names.len(), 1000);
    }
}
