//! Recovers nodes: by an operation of their type, by recreating them, or by restarting the head.

use std::collections::HashSet;

use muster_core::change::Recovery;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole, NodeStatus, Observation};
use muster_core::profile::ProfileType;
use serde_json::{Map, Value};

use crate::actions::node::check::{check_health, observe_all};
use crate::actions::node::operate::{self, OperationRequest};
use crate::actions::node::recreate::{self, StopOptions};
use crate::actions::node::target;
use crate::actions::resize::surplus;
use crate::actions::restart;
use crate::ports::provider::{Provider, RECREATE};
use crate::reconcile::individual::{self, Goal};
use crate::run::{ActionRun, Stop};

/// Recovers one node: by an operation of its type, or by recreating it. A head is restarted.
pub(crate) async fn recover(run: &mut ActionRun, recovery: Recovery) -> Result<(), Stop> {
    let node = target(&run.subject)?;
    if node.role == NodeRole::Head {
        return restart(run).await;
    }
    let Recovery { operation, operation_params, check, check_capacity: _, delete_timeout, force_recreate } =
        recovery;
    let stop_options = StopOptions { delete_timeout, force_recreate };
    let begun = run.action.applied_at.is_some();
    if check == Some(true) && !begun && is_healthy(run, &node).await? {
        return Ok(());
    }
    let kind = &run.subject.profile.kind;
    let Some(name) = self::operation(run.provider.as_ref(), kind, operation.as_deref())? else {
        return recreate::recreate(run, &node, stop_options).await;
    };
    if node.physical_id.is_none() {
        run.subject.nodes.set_status(node.id, NodeStatus::Error, "Recovery failed", run.now());
        return Err(Stop::Failed(format!(
            "the node was never created, and {name} does not create one: use {RECREATE}"
        )));
    }
    recover_by_operation(run, vec![node.id], &name, operation_params).await
}

/// Returns true if the node works after all, and marks it ACTIVE then.
async fn is_healthy(run: &mut ActionRun, node: &Node) -> Result<bool, Stop> {
    let observed = check_health(run, Some(node.id)).await?;
    let Observation::Running { .. } = observed.of(node.id) else { return Ok(false) };
    run.subject.nodes.set_status(node.id, NodeStatus::Active, "Recover: Node is ACTIVE.", run.now());
    Ok(true)
}

/// Returns the requested recovery operation, none for recreating; fails if the type does not support the operation.
fn operation(
    provider: &dyn Provider,
    kind: &ProfileType,
    requested: Option<&str>,
) -> Result<Option<String>, Stop> {
    let Some(name) = requested.map(str::to_uppercase).filter(|name| name != RECREATE) else {
        return Ok(None);
    };
    let known = provider.recoveries(kind);
    if known.contains(&name.as_str()) {
        return Ok(Some(name));
    }
    let known = known.join(", ");
    Err(Stop::Failed(format!("nodes of type {kind} cannot be recovered by {name}: use {known}")))
}

async fn recover_by_operation(
    run: &mut ActionRun,
    nodes: Vec<NodeId>,
    name: &str,
    params: Option<Map<String, Value>>,
) -> Result<(), Stop> {
    let operation = name.to_lowercase();
    operate::operate_nodes(run, OperationRequest { operation, params, nodes: Some(nodes), recovers: true })
        .await
}

/// Recovers lost members of a cluster and, unless the request says otherwise, restores its size.
pub(crate) async fn recover_all(run: &mut ActionRun, recovery: Recovery) -> Result<(), Stop> {
    let (provider, kind) = (run.provider.as_ref(), &run.subject.profile.kind);
    let requested = operation(provider, kind, recovery.operation.as_deref())?;
    if recovery.check == Some(true) && run.action.applied_at.is_none() {
        observe_all(run).await?;
    }
    if let Some(name) = requested {
        let unhealthy = |node: &&Node| node.status != NodeStatus::Active && node.physical_id.is_some();
        let unhealthy = run.subject.nodes.iter().filter(unhealthy).map(|node| node.id).collect();
        recover_by_operation(run, unhealthy, &name, recovery.operation_params).await?;
    }
    let keep_size = recovery.check_capacity == Some(false);
    // Remove surplus members: those that an earlier action left half removed must not be restored beyond the size.
    let leaving = if keep_size { HashSet::new() } else { surplus(run).await? };
    individual::reconcile(run, &Goal { leaving, start: true, keep_size, ..Goal::default() }).await
}
