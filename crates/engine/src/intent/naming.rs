//! Names, indexes and first rows of new members.

use std::collections::HashSet;
use std::fmt::Write as _;

use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::node::{HEAD_INDEX, Node, NodeRole};
use muster_core::time::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::ids::new_id;

/// The cluster setting that holds the format of node names.
const FORMAT: &str = "node.name.format";

/// The format for clusters without that setting.
const DEFAULT_FORMAT: &str = "node-$8R";

/// The longest name of a node, in bytes.
const LONGEST_NAME: usize = 255;

/// The longest suffix with a number, in bytes.
const NUMBER_LENGTH: usize = 11;

/// Returns the reason why a cluster's settings cannot name its nodes; none if they can.
pub(crate) fn refusal(config: &Map<String, Value>) -> Option<String> {
    let format = match config.get(FORMAT)? {
        Value::String(format) => format,
        Value::Null => return None,
        other => return Some(format!("{FORMAT} is {other}: must be a text, such as '{DEFAULT_FORMAT}'")),
    };
    let length = expand_whole(format, u32::MAX, Uuid::nil()).len();
    (length > LONGEST_NAME).then(|| {
        format!(
            "{FORMAT} results in names of {length} bytes: must be at most {LONGEST_NAME}; use a shorter format"
        )
    })
}

/// Returns the format of a cluster's node names. Formats that were stored before a limit existed are cut off.
fn format(cluster: &Cluster) -> &str {
    let format = cluster.config.get(FORMAT).and_then(Value::as_str).unwrap_or(DEFAULT_FORMAT);
    &format[..format.floor_char_boundary(LONGEST_NAME)]
}

/// Creates the row of a worker.
pub(crate) fn worker(cluster: &Cluster, group: &str, index: u32, now: Timestamp) -> Node {
    let id = new_id();
    let name = expand(format(cluster), index, Uuid::new_v4());
    Node { group: Some(group.to_owned()), index: i64::from(index), name, ..member(cluster, id, now) }
}

/// Creates workers of a group, with the next indexes of their cluster. Workers of a framework get the smallest numbers
/// that none of these members has.
pub(crate) fn new_workers(
    cluster: &mut Cluster,
    members: &[Node],
    group: &str,
    count: u32,
    now: Timestamp,
) -> Vec<Node> {
    let workers = placeholders(cluster, group, count, now);
    if cluster.framework.is_none() || cluster.config.contains_key(FORMAT) {
        return workers;
    }
    let taken: HashSet<&str> = members.iter().map(|node| node.name.as_str()).collect();
    let names = (1_u32..).map(|number| numbered_name(cluster, group, number));
    let free = names.filter(|name| !taken.contains(name.as_str()));
    workers.into_iter().zip(free).map(|(worker, name)| Node { name, ..worker }).collect()
}

/// Creates workers of a group, named by the cluster's format, with the next indexes of their cluster.
pub(crate) fn placeholders(cluster: &mut Cluster, group: &str, count: u32, now: Timestamp) -> Vec<Node> {
    let first = cluster.next_index;
    cluster.next_index = first.saturating_add(count);
    (first..cluster.next_index).map(|index| worker(cluster, group, index, now)).collect()
}

/// Returns the name of a worker by its number: in its cluster, or in its group where there are several groups.
fn numbered_name(cluster: &Cluster, group: &str, number: u32) -> String {
    let among = if cluster.groups.len() > 1 { group } else { "worker" };
    let mut name = format!("{}-{among}", cluster.object_name);
    name.truncate(name.floor_char_boundary(LONGEST_NAME - NUMBER_LENGTH));
    format!("{name}-{number}")
}

/// Draws the default name of an orphan.
pub(crate) fn default_name() -> String {
    expand(DEFAULT_FORMAT, 0, Uuid::new_v4())
}

/// Makes a requested node a candidate of a cluster, named as if it got the next index.
pub(crate) fn candidate(cluster: &Cluster, node: Node) -> Node {
    let name = generated_name(cluster, &node, cluster.next_index);
    Node { cluster_id: Some(cluster.id), name, ..node }
}

/// Gives a requested member its group, index and final name.
pub(crate) fn with_place_and_name(cluster: &Cluster, node: Node, group: &str, index: u32) -> Node {
    let name = generated_name(cluster, &node, index);
    Node { name, ..with_place(cluster, node, group, index) }
}

/// Gives an existing node its group and index in a cluster; the node keeps its name.
pub(crate) fn with_place(cluster: &Cluster, node: Node, group: &str, index: u32) -> Node {
    Node {
        cluster_id: Some(cluster.id),
        group: Some(group.to_owned()),
        index: i64::from(index),
        incarnation: cluster.incarnation,
        ..node
    }
}

/// Generates a node's name. The random letters are derived from the node's id: they stay the same for every index.
fn generated_name(cluster: &Cluster, node: &Node, index: u32) -> String {
    expand(format(cluster), index, Uuid::new_v5(&Uuid::NAMESPACE_OID, node.id.as_uuid().as_bytes()))
}

/// Creates the row of a head.
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

/// Expands a format: `$nR` random letters and digits, `$nr` the same in lower case, `$nI` the index with zeros.
fn expand(format: &str, index: u32, random: Uuid) -> String {
    let mut name = expand_whole(format, index, random);
    name.truncate(name.floor_char_boundary(LONGEST_NAME));
    name.shrink_to_fit();
    name
}

fn expand_whole(format: &str, index: u32, random: Uuid) -> String {
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

/// Returns random characters, the first of them a letter.
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
    use muster_core::cluster::{Framework, WorkerGroup};
    use muster_core::sample;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const RANDOM: Uuid = Uuid::from_u128(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);

    #[rstest]
    #[case::none(json!({}), None)]
    #[case::usual(json!({FORMAT: "n-$3I"}), None)]
    #[case::longest(json!({FORMAT: "x".repeat(255)}), None)]
    #[case::too_long(json!({FORMAT: "x".repeat(256)}), Some("node.name.format results in names of 256 bytes"))]
    #[case::in_bytes(json!({FORMAT: "集".repeat(86)}), Some("node.name.format results in names of 258 bytes"))]
    #[case::once_filled_in(json!({FORMAT: "$32R".repeat(8)}), Some("node.name.format results in names of 256 bytes"))]
    #[case::no_text(json!({FORMAT: 7}), Some("node.name.format is 7: must be a text"))]
    fn a_format_is_refused_if_names_would_be_too_long(#[case] config: Value, #[case] why: Option<&str>) {
        let refused = refusal(config.as_object().unwrap());
        assert_eq!(refused.is_some(), why.is_some(), "{refused:?}");
        assert!(refused.unwrap_or_default().starts_with(why.unwrap_or_default()));
    }

    #[test]
    fn a_stored_format_that_is_too_long_gives_names_that_are_not() {
        let mut cluster = sample::cluster(1, 0, None);
        cluster.config = Map::from_iter([(FORMAT.to_owned(), json!("$32R".repeat(25_000)))]);
        let name = worker(&cluster, "default", 7, Timestamp::default()).name;
        assert_eq!((name.len(), name.capacity() < 300), (255, true));
    }

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

    #[rstest]
    #[case::first(&[], 2, &["cluster-worker-1", "cluster-worker-2"])]
    #[case::more(&["cluster-worker-1"], 2, &["cluster-worker-2", "cluster-worker-3"])]
    #[case::freed(&["cluster-worker-2", "cluster-worker-4"], 3, &["cluster-worker-1", "cluster-worker-3", "cluster-worker-5"])]
    fn workers_of_a_framework_have_the_smallest_free_numbers(
        #[case] present: &[&str],
        #[case] count: u32,
        #[case] expected: &[&str],
    ) {
        let mut cluster = Cluster { framework: Some(Framework::Dask), ..sample::cluster(1, 0, None) };
        "cluster".clone_into(&mut cluster.object_name);
        let member = |name: &&str| Node { name: (*name).to_owned(), ..sample::node(1) };
        let present: Vec<Node> = present.iter().map(member).collect();
        let next = cluster.next_index;
        let new = new_workers(&mut cluster, &present, "default", count, Timestamp::default());
        let names: Vec<&str> = new.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, expected);
        assert_eq!(new[0].index, i64::from(next), "an index is not used twice");
    }

    #[test]
    fn workers_of_several_groups_are_numbered_in_each() {
        let mut cluster = Cluster { framework: Some(Framework::Ray), ..sample::cluster(1, 0, None) };
        "fred".clone_into(&mut cluster.object_name);
        cluster.groups.push(WorkerGroup { name: "fast".to_owned(), ..cluster.groups[0].clone() });
        let slow = new_workers(&mut cluster, &[], "slow", 1, Timestamp::default());
        let fast = new_workers(&mut cluster, &slow, "fast", 1, Timestamp::default());
        assert_eq!([&slow[0].name, &fast[0].name], ["fred-slow-1", "fred-fast-1"]);
    }

    #[test]
    fn a_given_format_names_workers_of_a_framework_too() {
        let mut cluster = Cluster { framework: Some(Framework::Dask), ..sample::cluster(1, 0, None) };
        cluster.config = Map::from_iter([(FORMAT.to_owned(), json!("n-$3I"))]);
        let new = new_workers(&mut cluster, &[], "default", 1, Timestamp::default());
        assert_eq!(new[0].name, format!("n-{:03}", new[0].index));
    }

    #[test]
    fn names_differ() {
        let names: HashSet<String> = (0..1000).map(|_| expand("$8R", 1, Uuid::new_v4())).collect();
        assert_eq!(names.len(), 1000);
    }
}
