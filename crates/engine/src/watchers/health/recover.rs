//! Submits recoveries of unhealthy nodes.

use muster_core::action::{ActionKind, Cause, OnConflict};
use muster_core::change::{Change, Recovery};
use muster_core::cluster::Cluster;
use muster_core::event::Level;
use muster_core::node::Node;
use muster_core::policy::health::HealthPolicySettings;
use muster_core::principal::{Door, Principal};
use muster_store::StoreError;
use muster_store::commands::Accept;

use crate::admission::Caller;
use crate::context::Context;
use crate::events;

/// Submits a recovery; returns false if another action holds the node or its cluster, or the cluster is gone.
pub(crate) async fn submit(
    context: &Context,
    cluster: &Cluster,
    node: &Node,
    settings: &HealthPolicySettings,
    why: Option<String>,
) -> Result<bool, StoreError> {
    let principal = Principal { project: cluster.project.clone(), ..Principal::engine() };
    let reason = events::reason::NODE_UNHEALTHY.to_owned();
    let caller = Caller { principal, door: Door::Engine, reason, request: None };
    let mut action = context.action(ActionKind::NodeRecover, cluster, Some(node.id), &caller);
    action.cause = Cause::Healing;
    let timeout = settings.recovery.node_delete_timeout.clamp(0, i64::from(u32::MAX));
    let recovery = Recovery {
        operation: Some(settings.operation().to_string()),
        delete_timeout: u32::try_from(timeout).ok(),
        force_recreate: Some(settings.recovery.node_force_recreate),
        ..Recovery::default()
    };
    action.inputs = Change::RecoverNode(recovery).inputs();
    let at = action.created_at;
    let begun = events::of_action(&action, cluster, "start", &action.id.short(), at);
    let why = why.map(|why| {
        let reason = events::reason::NODE_UNHEALTHY;
        events::of_node(Some(&action), node, Level::Warn, reason, &why, at)
    });
    let events = why.into_iter().chain([begun]).collect();
    let accept = Accept { events, ..Accept::new(action, OnConflict::Queue) };
    match context.store.accept(accept).await {
        Ok(_) => Ok(true),
        Err(StoreError::Conflict(_) | StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
