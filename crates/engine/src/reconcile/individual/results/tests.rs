use std::collections::HashMap;
use std::sync::Arc;

use muster_core::action::ActionKind;
use muster_core::change::Change;
use muster_core::node::Node;
use muster_core::sample;

use super::*;
use crate::config::Config;
use crate::reconcile::individual::Goal;

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

/// Two starting members with their child actions.
struct Parts {
    nodes: Members,
    children: Children,
    journal: Journal,
}

impl Parts {
    fn new() -> Self {
        let nodes = [1, 2].map(|index| Node { status: NodeStatus::Creating, ..sample::node(index) });
        let cluster = sample::cluster(2, 0, None).id;
        let parent = Arc::new(sample::action(5, ActionKind::ClusterCreate, cluster));
        let mut children = Children::new(&parent, Some(cluster));
        children.begin_all(&Change::JoinNode, &nodes.each_ref().map(|node| node.id), NOW);
        Self { nodes: Members::new(nodes.into()), children, journal: Journal::new(parent) }
    }

    fn record(&mut self, strategy: &mut Individual<'_>, result: Result<Option<String>, ProviderError>) {
        let result = NodeResult { node: id(1), result };
        strategy.record_result(result, &mut self.nodes, &mut self.children, &mut self.journal, NOW);
    }

    fn status(&self, index: u32) -> Option<(NodeStatus, &str)> {
        self.nodes.get(id(index)).map(|node| (node.status, node.status_reason.as_str()))
    }
}

fn id(index: u32) -> NodeId {
    sample::node(index).id
}

fn strategy(goal: &Goal) -> Individual<'_> {
    Individual::new(goal, Config::default().backoff, HashMap::new())
}

#[test]
fn a_started_node_is_active_and_its_child_has_ended() {
    let (goal, mut parts) = (Goal::default(), Parts::new());
    parts.record(&mut strategy(&goal), Ok(Some("p1".to_owned())));
    assert_eq!(parts.status(1).map(|(status, _)| status), Some(NodeStatus::Active));
    assert_eq!(parts.children.open.keys().collect::<Vec<_>>(), [&id(2)]);
    assert!(parts.journal.events.is_empty());
}

#[test]
fn a_node_that_failed_transiently_keeps_its_child_and_is_retried_later() {
    let (goal, mut parts) = (Goal::default(), Parts::new());
    let mut strategy = strategy(&goal);
    parts.record(&mut strategy, Err(ProviderError::transient("Busy", "no answer")));
    assert_eq!(parts.status(1), Some((NodeStatus::Creating, "no answer")));
    assert!(strategy.retry_state.not_before[&id(1)] > NOW);
    assert!(strategy.retry_state.given_up.is_empty() && parts.children.open.contains_key(&id(1)));
    assert!(parts.journal.events.is_empty(), "only what a user has to know is reported");
}

#[test]
fn a_node_that_failed_permanently_is_given_up_and_reported() {
    let (goal, mut parts) = (Goal::default(), Parts::new());
    let mut strategy = strategy(&goal);
    parts.record(&mut strategy, Err(ProviderError::permanent("NoImage", "no such image")));
    assert_eq!(parts.status(1), Some((NodeStatus::Error, "no such image")));
    assert_eq!(strategy.retry_state.given_up, HashMap::from([(id(1), "no such image".to_owned())]));
    assert!(!parts.children.open.contains_key(&id(1)));
    assert_eq!(parts.journal.events.len(), 1);
}

#[test]
fn a_node_is_given_up_after_many_acknowledged_stops() {
    let (goal, mut parts) = (Goal::default(), Parts::new());
    let mut strategy = strategy(&goal);
    let plan = Plan { stop: vec![id(1), id(2)], ..Plan::default() };
    for _ in 0..FUTILE_ATTEMPTS {
        let Parts { nodes, children, journal } = &mut parts;
        assert!(!strategy.give_up_stops(&plan, nodes, children, journal, NOW));
        parts.record(&mut strategy, Ok(None));
    }
    let Parts { nodes, children, journal } = &mut parts;
    assert!(strategy.give_up_stops(&plan, nodes, children, journal, NOW));
    assert_eq!(strategy.retry_state.given_up.keys().collect::<Vec<_>>(), [&id(1)]);
    assert_eq!(parts.status(1).map(|(status, _)| status), Some(NodeStatus::Error));
}

#[test]
fn a_node_whose_child_was_cancelled_is_excluded() {
    let (goal, mut parts) = (Goal::default(), Parts::new());
    let mut strategy = strategy(&goal);
    let child = parts.children.open[&id(2)];
    strategy.exclude(&[(id(2), child)], &mut parts.nodes, &mut parts.children, NOW);
    assert_eq!(parts.status(2), Some((NodeStatus::Error, excluded(child).as_str())));
    assert!(strategy.retry_state.given_up.contains_key(&id(2)));
    assert!(!parts.children.open.contains_key(&id(2)));
}
