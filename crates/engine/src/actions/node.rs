//! Actions on single nodes, members or orphans.

pub(crate) mod check;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod operate;
pub(crate) mod recover;
pub(crate) mod recreate;
pub(crate) mod update;

use muster_core::action::Target;
use muster_core::ids::NodeId;
use muster_core::node::Node;

use crate::run::{ActionRun, Stop};

pub(crate) use crate::actions::node::check::{check, check_all};
pub(crate) use crate::actions::node::create::{create, reject_candidate};
pub(crate) use crate::actions::node::delete::delete;
pub(crate) use crate::actions::node::operate::{operate, operate_all};
pub(crate) use crate::actions::node::recover::{recover, recover_all};
pub(crate) use crate::actions::node::update::update;

/// The node that the action is about, as it is now.
fn target(run: &ActionRun) -> Result<Node, Stop> {
    let gone = || Stop::Failed("its node is not there any more".to_owned());
    run.node(target_id(run)?).cloned().ok_or_else(gone)
}

fn target_id(run: &ActionRun) -> Result<NodeId, Stop> {
    match run.action.target {
        Target::Node(id) => Ok(id),
        Target::Cluster(_) | Target::Unknown(_) => Err(Stop::Failed("its target is no node".to_owned())),
    }
}
