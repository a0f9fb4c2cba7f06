//! Executes each kind of action, once the action holds its lock and the policies allow it.

pub(crate) mod garbage;
pub(crate) mod hooks;
pub(crate) mod member_removal;
pub(crate) mod membership;
pub(crate) mod node;
pub(crate) mod policies;
pub(crate) mod resize;
pub(crate) mod rolling;
pub(crate) mod update;

use std::collections::HashSet;

use muster_core::action::ActionKind;
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::event::Level;
use muster_core::ids::NodeId;
use muster_core::node::NodeRole;
use muster_core::restart::ReplacedHead;
use muster_core::time::Timestamp;

use crate::action_data::ActionData;
use crate::events::reason;
use crate::reconcile::delegated;
use crate::reconcile::individual::{self, Goal};
use crate::reconcile::reasons::restart_needed;
use crate::run::{ActionRun, RunSubject, Stop};

/// Returns the kinds of actions that this engine claims, each with the newest version of its inputs that the engine
/// can read.
pub(crate) fn executable_kinds() -> Vec<(ActionKind, u32)> {
    ActionKind::ALL.iter().filter_map(|kind| Some((*kind, version(*kind)?))).collect()
}

/// Returns the newest version of a kind's inputs that this engine can read; none for a kind that is never claimed.
const fn version(kind: ActionKind) -> Option<u32> {
    match kind {
        ActionKind::ClusterCreate
        | ActionKind::ClusterDelete
        | ActionKind::ClusterResize
        | ActionKind::ClusterScaleOut
        | ActionKind::ClusterScaleIn
        | ActionKind::ClusterCheck
        | ActionKind::ClusterRecover
        | ActionKind::ClusterAddNodes
        | ActionKind::ClusterDelNodes
        | ActionKind::ClusterReplaceNodes
        | ActionKind::ClusterOperation
        | ActionKind::ClusterAttachPolicy
        | ActionKind::ClusterDetachPolicy
        | ActionKind::ClusterUpdatePolicy
        | ActionKind::NodeCreate
        | ActionKind::NodeDelete
        | ActionKind::NodeUpdate
        | ActionKind::NodeCheck
        | ActionKind::NodeRecover
        | ActionKind::NodeOperation => Some(1),
        ActionKind::ClusterUpdate => Some(5),
        // Child actions are executed by their parent, and unknown kinds by an engine of a newer version.
        ActionKind::NodeJoin | ActionKind::NodeLeave | ActionKind::Unknown(_) => None,
    }
}

/// Returns true if the cluster no longer exists once this change has succeeded.
pub(crate) const fn deletes(change: &Change) -> bool {
    matches!(change, Change::DeleteCluster(_))
}

/// Rolls back changes that are valid only if the whole action succeeds.
pub(crate) fn roll_back(subject: &mut RunSubject, change: &Change, data: &ActionData) {
    if matches!(change, Change::UpdateCluster(_)) {
        rolling::roll_back(subject, data);
    }
}

/// Cleans up after an action that a policy refused.
pub(crate) fn discard_refused(subject: &mut RunSubject, change: &Change, why: &str, now: Timestamp) {
    if matches!(change, Change::CreateNode(_)) {
        node::reject_candidate(subject, why, now);
    }
}

/// Performs the change; returns the status message.
pub(crate) async fn perform(run: &mut ActionRun) -> Result<String, Stop> {
    match run.change.clone() {
        Change::AttachPolicy(policy) => return policies::attach(run, policy).await,
        Change::DetachPolicy(policy) => return policies::detach(run, policy.policy_id).await,
        Change::UpdatePolicy(policy) => {
            return policies::enable(&run.subject.bindings, &mut run.journal, policy);
        }
        Change::DeleteCluster(_) if run.action.collects_garbage() => return garbage::collect(run).await,
        Change::DeleteCluster(_) => policies::detach_all(run).await?,
        _ => {}
    }
    if run.subject.is_delegated() {
        delegated::reconcile(run).await?;
    } else {
        Box::pin(perform_individually(run)).await?;
    }
    let message = success_message(&run.change);
    // The new recipe is recorded, but these nodes still run with an older one.
    let names_recipe = matches!(&run.change, Change::UpdateCluster(update) if update.names_recipe());
    let outdated = restart_needed(&run.subject.nodes.outdated_names()).filter(|_| names_recipe);
    Ok(outdated.iter().fold(message, |message, outdated| format!("{message} {outdated}")))
}

async fn perform_individually(run: &mut ActionRun) -> Result<(), Stop> {
    match run.change.clone() {
        Change::CreateCluster => create(run).await,
        Change::DeleteCluster(_) => delete(run).await,
        Change::Resize(_) | Change::ScaleOut(_) | Change::ScaleIn(_) => resize::resize(run).await,
        Change::UpdateCluster(update) => Box::pin(update::update(run, &update)).await,
        Change::CheckCluster(check) => node::check_all(run, check.deletes_earlier_checks()).await,
        Change::RecoverCluster(recovery) => node::recover_all(run, recovery).await,
        Change::AddNodes(add) => membership::add(run, add).await,
        Change::RemoveNodes(remove) => membership::remove(run, remove).await,
        Change::ReplaceNodes(replace) => membership::replace(run, replace).await,
        Change::OperateCluster(operation) => node::operate_all(run, operation).await,
        Change::CreateNode(_) => node::create(run).await,
        Change::DeleteNode(_) => node::delete(run).await,
        Change::UpdateNode(update) => node::update(run, update).await,
        Change::CheckNode(_) => node::check(run).await,
        Change::RecoverNode(recovery) => node::recover(run, recovery).await,
        Change::OperateNode(operation) => node::operate(run, operation).await,
        change @ (Change::AttachPolicy(_)
        | Change::DetachPolicy(_)
        | Change::UpdatePolicy(_)
        | Change::JoinNode
        | Change::LeaveNode) => Err(Stop::Failed(format!("Unsupported action: {}.", change.kind()))),
    }
}

/// Returns the status message of a change that succeeded; existing clients expect these texts.
fn success_message(change: &Change) -> String {
    let message = match change {
        Change::CreateCluster => "Cluster creation succeeded.",
        Change::DeleteCluster(_) => "Cluster deletion succeeded.",
        Change::Resize(_) => "Cluster resize succeeded.",
        Change::ScaleOut(_) | Change::ScaleIn(_) => "Cluster scaling succeeded.",
        Change::UpdateCluster(_) => "Cluster update completed.",
        Change::CheckCluster(_) => "Cluster checking completed.",
        Change::RecoverCluster(_) => "Cluster recovery succeeded.",
        Change::AddNodes(_) => "Completed adding nodes.",
        Change::RemoveNodes(_) => "Completed deleting nodes.",
        Change::ReplaceNodes(_) => "Completed replacing nodes.",
        Change::OperateCluster(operate) => {
            return format!("Cluster operation '{}' completed.", operate.operation);
        }
        Change::AttachPolicy(_) => "Policy attached.",
        Change::DetachPolicy(_) => "Policy detached.",
        Change::UpdatePolicy(_) => "Policy updated.",
        Change::CreateNode(_) => "Node created successfully.",
        Change::DeleteNode(_) => "Node deleted successfully.",
        Change::UpdateNode(_) => "Node updated successfully.",
        Change::JoinNode => "Node successfully joined cluster.",
        Change::LeaveNode => "Node successfully left cluster.",
        Change::CheckNode(_) => "Node check succeeded.",
        Change::RecoverNode(_) => "Node recovered successfully.",
        Change::OperateNode(operate) => {
            return format!("Node operation '{}' succeeded.", operate.operation);
        }
    };
    message.to_owned()
}

async fn create(run: &mut ActionRun) -> Result<(), Stop> {
    run.control.call_provider(run.node_provider()?.prepare_cluster(run.call())).await??;
    individual::reconcile(run, &Goal { start: true, ..Goal::default() }).await
}

async fn delete(run: &mut ActionRun) -> Result<(), Stop> {
    let leaving: HashSet<NodeId> = run.subject.nodes.ids().into_iter().collect();
    member_removal::record_victims(&run.action, &run.change, &mut run.data, &leaving);
    individual::reconcile(run, &Goal { leaving, ..Goal::default() }).await?;
    run.control.call_provider(run.node_provider()?.clear_cluster(run.call())).await?.map_err(Stop::from)
}

/// Records an event if the restart of a head also replaces the workers, because they cannot rejoin a new head.
fn report_replaced_workers(run: &mut ActionRun) {
    let workers = run.subject.nodes.iter().filter(|node| node.role == NodeRole::Worker).count();
    if workers == 0 || run.subject.capabilities.workers_outlive_head {
        return;
    }
    let message = format!(
        "the restart of its head also replaces {workers} worker{}: they cannot rejoin a new head",
        if workers == 1 { "" } else { "s" }
    );
    let now = run.now();
    let cluster = &run.subject.cluster;
    run.journal.report_cluster(cluster, Level::Info, reason::WORKERS_REPLACED, &message, now);
}

/// Restarts the head, and with it the workers that cannot rejoin a new head.
async fn restart(run: &mut ActionRun) -> Result<(), Stop> {
    let target = node::target(&run.subject)?;
    let role = target.role;
    // Once the intent is committed, the cluster's new incarnation marks older nodes as outdated: a take-over must not
    // raise it again.
    let begun = run.action.applied_at.is_some();
    if role == NodeRole::Head && !begun {
        let present = &run.subject.cluster;
        let restarted = Cluster { incarnation: present.incarnation + 1, ..present.clone() };
        run.subject.change_intent(restarted);
        let replaced = ReplacedHead {
            name: target.name.clone(),
            uid: target.physical_id.clone().unwrap_or_default(),
            at: run.now(),
        };
        run.journal.report_replaced_head(&replaced);
        report_replaced_workers(run);
        // Before anything else may stop the action: what it reports must be true at its end.
        run.commit(true).await?;
    }
    individual::reconcile(run, &Goal { start: true, ..Goal::default() }).await
}
