//! Bringing a node back.

use std::collections::HashSet;

use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole, NodeStatus, Seen};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::anew::{self, Patience};
use super::check::{checked, look_at_all};
use super::operate::{self, Deed};
use super::target;
use crate::handlers::resize::surplus;
use crate::handlers::restart;
use crate::members::Aim;
use crate::provider::RECREATE;
use crate::work::{Stop, Work};

/// What can be said about how.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Inputs {
    operation: Option<String>,
    operation_params: Option<Map<String, Value>>,
    check: Option<bool>,
    check_capacity: Option<bool>,
    #[serde(flatten)]
    patience: Patience,
}

/// Brings one node back: as its type can, or by making it anew. A head is restarted.
pub(crate) async fn recover(work: &mut Work) -> Result<(), Stop> {
    let node = target(work)?;
    if node.role == NodeRole::Head {
        return restart(work).await;
    }
    let Inputs { operation, operation_params, check, check_capacity: _, patience } = work.inputs()?;
    let begun = work.action.applied_at.is_some();
    if check == Some(true) && !begun && works(work, &node).await? {
        return Ok(());
    }
    let Some(word) = self::operation(work, operation.as_deref())? else {
        return anew::make(work, &node, patience).await;
    };
    if node.physical_id.is_none() {
        work.settle(node.id, NodeStatus::Error, "Recovery failed");
        return Err(Stop::Failed(format!("the node was never made, and {word} makes none: use {RECREATE}")));
    }
    by_operation(work, vec![node.id], &word, operation_params).await
}

/// Whether the node works after all; it is then as it should be.
async fn works(work: &mut Work, node: &Node) -> Result<bool, Stop> {
    let seen = checked(work, Some(node.id)).await?;
    let Seen::Running { .. } = seen.of(node.id) else { return Ok(false) };
    work.settle(node.id, NodeStatus::Active, "Recover: Node is ACTIVE.");
    Ok(true)
}

/// The operation that a recovery asks for, other than making anew; refused where the type has none such.
fn operation(work: &Work, asked: Option<&str>) -> Result<Option<String>, Stop> {
    let Some(word) = asked.map(str::to_uppercase).filter(|word| word != RECREATE) else { return Ok(None) };
    let known = work.provider.recoveries(&work.profile.kind);
    if known.contains(&word.as_str()) {
        return Ok(Some(word));
    }
    let (kind, known) = (&work.profile.kind, known.join(", "));
    Err(Stop::Failed(format!("nodes of type {kind} cannot be recovered by {word}: use {known}")))
}

async fn by_operation(
    work: &mut Work,
    nodes: Vec<NodeId>,
    word: &str,
    params: Option<Map<String, Value>>,
) -> Result<(), Stop> {
    let operation = word.to_lowercase();
    operate::run(work, Deed { operation, params, nodes: Some(nodes), recovers: true }).await
}

/// Brings back what is lost of a cluster, and, unless it is told not to, its size to what it should be.
pub(crate) async fn recover_all(work: &mut Work) -> Result<(), Stop> {
    let inputs: Inputs = work.inputs()?;
    let asked = operation(work, inputs.operation.as_deref())?;
    if inputs.check == Some(true) && work.action.applied_at.is_none() {
        look_at_all(work).await?;
    }
    if let Some(word) = asked {
        let bad = |node: &&Node| node.status != NodeStatus::Active && node.physical_id.is_some();
        let bad = work.nodes.iter().filter(bad).map(|node| node.id).collect();
        by_operation(work, bad, &word, inputs.operation_params).await?;
    }
    let keep_size = inputs.check_capacity == Some(false);
    // What an action before left half removed is not brought back beyond the size.
    let leaving = if keep_size { HashSet::new() } else { surplus(work) };
    work.reach(&Aim { leaving, start: true, keep_size, ..Aim::default() }).await
}
