//! What each kind of action does, once it has its lock and the policies agreed.

pub(crate) mod deletion;
pub(crate) mod hooks;
pub(crate) mod membership;
pub(crate) mod node;
pub(crate) mod policies;
pub(crate) mod resize;
pub(crate) mod rolling;
pub(crate) mod update;

use std::collections::HashSet;

use muster_core::action::{Action, ActionKind};
use muster_core::ids::NodeId;
use serde_json::Value;

pub(crate) use crate::actions::deletion::Deletion;

use crate::reconcile::delegated;
use crate::reconcile::individual::Aim;
use crate::run::{ActionRun, Stop};

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
pub(crate) fn give_back(run: &mut ActionRun) {
    if run.action.kind == ActionKind::ClusterUpdate {
        rolling::give_back(run);
    }
}

/// What policies do not allow leaves nothing half-made.
pub(crate) fn refused(run: &mut ActionRun, why: &str) {
    if run.action.kind == ActionKind::NodeCreate {
        node::turn_away(run, why);
    }
}

/// Does it, and says how it went.
pub(crate) async fn run(run: &mut ActionRun) -> Result<String, Stop> {
    if policies::is_about_policies(run.action.kind) {
        return policies::run(run).await;
    }
    if deletes(&run.action) {
        policies::detach_all(run).await?;
    }
    if run.is_delegated() {
        delegated::reconcile(run).await?;
    } else {
        run_individual(run).await?;
    }
    Ok(done(&run.action))
}

async fn run_individual(run: &mut ActionRun) -> Result<(), Stop> {
    match run.action.kind {
        ActionKind::ClusterCreate => create(run).await,
        ActionKind::ClusterDelete => delete(run).await,
        ActionKind::ClusterResize | ActionKind::ClusterScaleOut | ActionKind::ClusterScaleIn => {
            resize::run(run).await
        }
        ActionKind::ClusterUpdate => update::run(run).await,
        ActionKind::ClusterCheck => node::check_all(run).await,
        ActionKind::ClusterRecover => node::recover_all(run).await,
        ActionKind::ClusterAddNodes => membership::add(run).await,
        ActionKind::ClusterDelNodes => membership::remove(run).await,
        ActionKind::ClusterReplaceNodes => membership::replace(run).await,
        ActionKind::ClusterOperation => node::operate_all(run).await,
        ActionKind::NodeCreate => node::create(run).await,
        ActionKind::NodeDelete => node::delete(run).await,
        ActionKind::NodeUpdate => node::update(run).await,
        ActionKind::NodeCheck => node::check(run).await,
        ActionKind::NodeRecover => node::recover(run).await,
        ActionKind::NodeOperation => node::operate(run).await,
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

async fn create(run: &mut ActionRun) -> Result<(), Stop> {
    run.call_provider(run.provider.create(run.call())).await??;
    run.reach(&Aim { start: true, ..Aim::default() }).await
}

async fn delete(run: &mut ActionRun) -> Result<(), Stop> {
    let leaving: HashSet<NodeId> = run.nodes.iter().map(|node| node.id).collect();
    deletion::note(run, &leaving);
    run.reach(&Aim { leaving, ..Aim::default() }).await?;
    run.call_provider(run.provider.delete(run.call())).await?.map_err(Stop::from)
}

/// Restarts a head, and with it those workers that cannot find a new one; or brings one node back.
async fn restart(run: &mut ActionRun) -> Result<(), Stop> {
    use muster_core::action::Target;
    use muster_core::node::NodeRole;
    let Target::Node(id) = run.action.target else {
        return Err(Stop::Failed("its target is no node".to_owned()));
    };
    let role = run.node(id).map(|node| node.role);
    let role = role.ok_or_else(|| Stop::Failed("its node is not there any more".to_owned()))?;
    // Once the intent is committed the head's new incarnation says what is old; a take-over does not restart it again.
    let begun = run.action.applied_at.is_some();
    if role == NodeRole::Head && !begun {
        run.cluster.incarnation += 1;
        run.cluster.generation += 1;
    }
    run.reach(&Aim { start: true, new_intent: !begun, ..Aim::default() }).await
}
