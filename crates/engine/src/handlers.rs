//! What each kind of action does, once it has its lock and the policies agreed.

mod deletion;
mod hooks;
mod membership;
mod node;
pub(crate) mod policies;
pub(crate) mod resize;
mod rolling;
mod scale;
pub(crate) mod update;

use std::collections::HashSet;

use muster_core::action::{Action, ActionKind};
use muster_core::ids::NodeId;
use serde_json::Value;

pub(crate) use deletion::Deletion;

use crate::delegated;
use crate::members::Aim;
use crate::work::{Stop, Work};

/// The kinds that this engine executes, up to which version of their inputs.
pub(crate) const KNOWN: &[(ActionKind, u32)] = &[
    (ActionKind::ClusterCreate, 1),
    (ActionKind::ClusterDelete, 1),
    (ActionKind::ClusterResize, 1),
    (ActionKind::ClusterScaleOut, 1),
    (ActionKind::ClusterScaleIn, 1),
    (ActionKind::ClusterUpdate, 1),
    (ActionKind::ClusterCheck, 1),
    (ActionKind::ClusterRecover, 1),
    (ActionKind::ClusterAddNodes, 1),
    (ActionKind::ClusterDelNodes, 1),
    (ActionKind::ClusterReplaceNodes, 1),
    (ActionKind::ClusterOperation, 1),
    (ActionKind::NodeCreate, 1),
    (ActionKind::NodeDelete, 1),
    (ActionKind::NodeUpdate, 1),
    (ActionKind::NodeCheck, 1),
    (ActionKind::NodeRecover, 1),
    (ActionKind::NodeOperation, 1),
    (ActionKind::ClusterAttachPolicy, 1),
    (ActionKind::ClusterDetachPolicy, 1),
    (ActionKind::ClusterUpdatePolicy, 1),
];

/// Whether the cluster is gone once this has succeeded.
pub(crate) fn deletes(action: &Action) -> bool {
    action.kind == ActionKind::ClusterDelete
}

/// Takes back what holds only if all of it was done.
pub(crate) fn give_back(work: &mut Work) {
    if work.action.kind == ActionKind::ClusterUpdate {
        rolling::give_back(work);
    }
}

/// What policies do not allow leaves nothing half-made.
pub(crate) fn refused(work: &mut Work, why: &str) {
    if work.action.kind == ActionKind::NodeCreate {
        node::turn_away(work, why);
    }
}

/// Does it, and says how it went.
pub(crate) async fn run(work: &mut Work) -> Result<String, Stop> {
    if policies::is_about_policies(work.action.kind) {
        return policies::run(work).await;
    }
    if deletes(&work.action) {
        policies::detach_all(work).await?;
    }
    if work.is_delegated() {
        delegated::run(work).await?;
    } else {
        run_individual(work).await?;
    }
    Ok(done(&work.action))
}

async fn run_individual(work: &mut Work) -> Result<(), Stop> {
    match work.action.kind {
        ActionKind::ClusterCreate => create(work).await,
        ActionKind::ClusterDelete => delete(work).await,
        ActionKind::ClusterResize | ActionKind::ClusterScaleOut | ActionKind::ClusterScaleIn => {
            resize::run(work).await
        }
        ActionKind::ClusterUpdate => update::run(work).await,
        ActionKind::ClusterCheck => node::check_all(work).await,
        ActionKind::ClusterRecover => node::recover_all(work).await,
        ActionKind::ClusterAddNodes => membership::add(work).await,
        ActionKind::ClusterDelNodes => membership::remove(work).await,
        ActionKind::ClusterReplaceNodes => membership::replace(work).await,
        ActionKind::ClusterOperation => node::operate_all(work).await,
        ActionKind::NodeCreate => node::create(work).await,
        ActionKind::NodeDelete => node::delete(work).await,
        ActionKind::NodeUpdate => node::update(work).await,
        ActionKind::NodeCheck => node::check(work).await,
        ActionKind::NodeRecover => node::recover(work).await,
        ActionKind::NodeOperation => node::operate(work).await,
        kind => Err(Stop::Failed(format!("Unsupported action: {kind}."))),
    }
}

fn done(action: &Action) -> String {
    let operation = || action.inputs.get("operation").and_then(Value::as_str).unwrap_or_default();
    let words = match action.kind {
        ActionKind::ClusterCreate => "Cluster creation succeeded.",
        ActionKind::ClusterDelete => "Cluster deletion succeeded.",
        ActionKind::ClusterResize => "Cluster resize succeeded.",
        ActionKind::ClusterScaleOut | ActionKind::ClusterScaleIn => "Cluster scaling succeeded.",
        ActionKind::ClusterUpdate => "Cluster update completed.",
        ActionKind::ClusterCheck => "Cluster checking completed.",
        ActionKind::ClusterRecover => "Cluster recovery succeeded.",
        ActionKind::ClusterAddNodes => "Completed adding nodes.",
        ActionKind::ClusterDelNodes => "Completed deleting nodes.",
        ActionKind::ClusterReplaceNodes => "Completed replacing nodes.",
        ActionKind::ClusterOperation => return format!("Cluster operation '{}' completed.", operation()),
        ActionKind::NodeCreate => "Node created successfully.",
        ActionKind::NodeDelete => "Node deleted successfully.",
        ActionKind::NodeUpdate => "Node updated successfully.",
        ActionKind::NodeCheck => "Node check succeeded.",
        ActionKind::NodeOperation => return format!("Node operation '{}' succeeded.", operation()),
        _ => "Node recovered successfully.",
    };
    words.to_owned()
}

pub(crate) fn provider_failed(error: crate::provider::ProviderError) -> Stop {
    if error.transient { Stop::NotNow(error.message) } else { Stop::Failed(error.message) }
}

async fn create(work: &mut Work) -> Result<(), Stop> {
    work.call_provider(work.provider.create(work.call())).await?.map_err(provider_failed)?;
    work.reach(&Aim { start: true, ..Aim::default() }).await
}

async fn delete(work: &mut Work) -> Result<(), Stop> {
    let leaving: HashSet<NodeId> = work.nodes.iter().map(|node| node.id).collect();
    deletion::note(work, &leaving);
    work.reach(&Aim { leaving, ..Aim::default() }).await?;
    work.call_provider(work.provider.delete(work.call())).await?.map_err(provider_failed)
}

/// Restarts a head, and with it those workers that cannot find a new one; or brings one node back.
async fn restart(work: &mut Work) -> Result<(), Stop> {
    use muster_core::action::Target;
    use muster_core::node::NodeRole;
    let Target::Node(id) = work.action.target else {
        return Err(Stop::Failed("its target is no node".to_owned()));
    };
    let role = work.node(id).map(|node| node.role);
    let role = role.ok_or_else(|| Stop::Failed("its node is not there any more".to_owned()))?;
    // Once the intent is committed the head's new incarnation says what is old; a take-over does not restart it again.
    let begun = work.action.applied_at.is_some();
    if role == NodeRole::Head && !begun {
        work.cluster.incarnation += 1;
        work.cluster.generation += 1;
    }
    work.reach(&Aim { start: true, new_intent: !begun, ..Aim::default() }).await
}
