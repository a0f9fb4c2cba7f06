//! What is done to single nodes, members and others.

mod anew;
mod check;
mod create;
mod delete;
mod operate;
mod recover;
mod update;

use muster_core::action::Target;
use muster_core::ids::NodeId;
use muster_core::node::Node;

use crate::work::{Stop, Work};

pub(super) use check::{check, check_all};
pub(super) use create::{create, turn_away};
pub(super) use delete::delete;
pub(super) use operate::{operate, operate_all};
pub(super) use recover::{recover, recover_all};
pub(super) use update::update;

/// The node that the action is about, as it is now.
fn target(work: &Work) -> Result<Node, Stop> {
    let gone = || Stop::Failed("its node is not there any more".to_owned());
    work.node(target_id(work)?).cloned().ok_or_else(gone)
}

fn target_id(work: &Work) -> Result<NodeId, Stop> {
    match work.action.target {
        Target::Node(id) => Ok(id),
        Target::Cluster(_) => Err(Stop::Failed("its target is no node".to_owned())),
    }
}
