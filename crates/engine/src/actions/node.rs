//! Actions on single nodes, members or orphans.

pub(crate) mod check;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod operate;
pub(crate) mod recover;
pub(crate) mod recreate;
pub(crate) mod update;

use muster_core::ids::NodeId;
use muster_core::node::Node;

use crate::run::{RunSubject, Stop};

pub(crate) use crate::actions::node::check::{check, check_all};
pub(crate) use crate::actions::node::create::{create, reject_candidate};
pub(crate) use crate::actions::node::delete::delete;
pub(crate) use crate::actions::node::operate::{operate, operate_all};
pub(crate) use crate::actions::node::recover::{recover, recover_all};
pub(crate) use crate::actions::node::update::update;

/// Returns the target node of the action in its current state.
pub(crate) fn target(subject: &RunSubject) -> Result<Node, Stop> {
    let gone = || Stop::Failed("its node was deleted".to_owned());
    subject.node(target_id(subject)?).cloned().ok_or_else(gone)
}

fn target_id(subject: &RunSubject) -> Result<NodeId, Stop> {
    let target = subject.target.as_ref().map(|node| node.id);
    target.ok_or_else(|| Stop::Failed("its target is not a node".to_owned()))
}
