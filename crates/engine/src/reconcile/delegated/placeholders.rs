//! Rows of members that an operator has not created yet.

use muster_core::node::{Node, NodeRole};
use muster_core::time::Timestamp;

use crate::intent::naming;
use crate::reconcile::delegated::mirror;
use crate::reconcile::delegated::plan::{Write, WriteGoal};
use crate::run::RunSubject;

/// Adds a row for each requested member that was not observed yet, so that the member has an id.
pub(super) fn add_placeholders(subject: &mut RunSubject, goal: &WriteGoal, now: Timestamp) {
    let creates = goal.write == Write::Create;
    let mut new = Vec::new();
    let has_no_head = || subject.nodes.iter().all(|node| node.role != NodeRole::Head);
    if creates && subject.cluster.has_head && has_no_head() {
        new.push(naming::head(&subject.cluster, now));
    }
    for group in subject.cluster.groups.clone() {
        let asked = goal.wanted.iter().any(|wanted| wanted.group == group.name && wanted.desired.is_some());
        if !(creates || asked) {
            continue;
        }
        let own = |node: &&Node| {
            node.group.as_ref() == Some(&group.name) && (mirror::stays(node) || mirror::is_placeholder(node))
        };
        let present = u32::try_from(subject.nodes.iter().filter(own).count()).unwrap_or(u32::MAX);
        let missing = group.desired.saturating_sub(present);
        new.extend(naming::placeholders(&mut subject.cluster, &group.name, missing, now));
    }
    subject.nodes.add_new(new);
}
