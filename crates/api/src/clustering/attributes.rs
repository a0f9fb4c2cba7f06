//! Collects one attribute of every worker of a cluster.

use std::collections::HashMap;

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::js_path_process;
use muster_core::node::{Node, NodeRole};
use serde_json::{Value, json};

use super::call::ClusteringCall;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::show;

/// The longest path that is accepted, in bytes.
const LONGEST: usize = 1024;

/// Lists the value at a path for each worker; workers without a value are omitted.
pub(super) async fn collect(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let given = call.path(1).trim();
    if given.is_empty() || given == "None" {
        return Err(SenlinError::bad("Required path attribute is missing"));
    }
    let path = parse(given)?;
    let cluster = call.cluster(call.path(0)).await?;
    let nodes = call.service().members(&cluster).await?;
    let names = call.service().profile_names(&nodes).await?;
    let workers: Vec<Node> = nodes.into_iter().filter(|node| node.role == NodeRole::Worker).collect();
    let mut details = HashMap::new();
    if given.contains("details") {
        details = call.service().details_of(&cluster, &workers).await?;
    }
    let shown = workers.iter().map(|node| {
        let name = names.get(&node.profile_id).map(String::as_str);
        let mut shown = show::node(node, name, call.version);
        if let Some(details) = details.remove(&node.id) {
            shown["details"] = Value::Object(details);
        }
        shown
    });
    let shown: Vec<Value> = shown.collect();
    let found = shown.iter().filter_map(|node| Some(json!({"id": node["id"], "value": first(&path, node)?})));
    Ok(Reply::of("cluster_attributes", found.collect::<Vec<_>>()))
}

fn first(path: &JpQuery, node: &Value) -> Option<Value> {
    let found = js_path_process(path, node).ok()?;
    found.into_iter().next().map(|one| one.val().clone())
}

/// Parses a path. Clients omit the root, and do not quote names that a JSON path requires in quotes.
fn parse(given: &str) -> Result<JpQuery, SenlinError> {
    let invalid = |why: &str| SenlinError::bad(format!("Invalid attribute path - {why}"));
    if given.len() > LONGEST {
        return Err(invalid(&format!("it is longer than {LONGEST} characters")));
    }
    // Filters and several recursive descents can make a short path expensive to evaluate.
    if given.contains('?') || given.matches("..").count() > 1 {
        return Err(invalid("filters, and more than one '..', are not supported"));
    }
    if let Some(letter) =
        outside_brackets(given).find(|letter| !is_plain(*letter) && !".*$".contains(*letter))
    {
        return Err(invalid(&format!("unexpected '{letter}'")));
    }
    let whole = if given.starts_with('$') { given.to_owned() } else { format!("$.{given}") };
    parse_json_path(&quoted(&whole)).map_err(|error| {
        let error = error.to_string();
        invalid(error.lines().last().map_or("", |line| line.trim_start_matches([' ', '='])))
    })
}

fn is_plain(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '@')
}

fn outside_brackets(path: &str) -> impl Iterator<Item = char> {
    let (before, rest) = path.split_once('[').unwrap_or((path, ""));
    let after = rest.split('[').map(|part| part.split_once(']').map_or("", |(_, after)| after));
    before.chars().chain(after.flat_map(str::chars))
}

/// Quotes names with characters that a JSON path requires in quotes.
fn quoted(path: &str) -> String {
    let (mut out, mut rest) = (String::new(), path);
    while let Some(start) = rest.find(['.', '[']) {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        if from.starts_with('[') {
            // Names in brackets are quoted already.
            let end = from.find(']').map_or(from.len(), |end| end + 1);
            let (inside, after) = from.split_at(end);
            out.push_str(inside);
            rest = after;
            continue;
        }
        let name = &from[1..];
        let end = name.find(|letter| !is_plain(letter)).unwrap_or(name.len());
        let (name, after) = name.split_at(end);
        if name.contains(['-', '@']) {
            let dots = if out.ends_with('.') { "." } else { "" };
            out.extend([dots, "['", name, "']"]);
        } else {
            out.push('.');
            out.push_str(name);
        }
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("name", json!("n"))]
    #[case("$.name", json!("n"))]
    #[case("metadata.a-b", json!(1))]
    #[case("metadata['a-b']", json!(1))]
    #[case("details.addresses.private[0].addr", json!("127.0.0.1"))]
    #[case("details.addresses.*[0].addr", json!("127.0.0.1"))]
    #[case("details..addr", json!("127.0.0.1"))]
    fn the_first_that_a_path_finds(#[case] path: &str, #[case] value: Value) {
        let node = json!({
            "name": "n",
            "metadata": {"a-b": 1},
            "details": {"addresses": {"private": [{"addr": "127.0.0.1"}, {"addr": "127.0.0.2"}]}},
        });
        assert_eq!(first(&parse(path).unwrap(), &node), Some(value));
    }

    #[test]
    fn a_path_that_finds_nothing_has_no_value() {
        assert_eq!(first(&parse("metadata.x").unwrap(), &json!({"metadata": {}})), None);
    }

    #[rstest]
    #[case("a b")]
    #[case("[")]
    #[case("..")]
    #[case("a[?(@.b)]")]
    #[case("a..*..*")]
    fn an_invalid_path_is_refused(#[case] path: &str) {
        let error = parse(path).unwrap_err();
        assert!(error.message.starts_with("Invalid attribute path - "), "{}", error.message);
    }
}
