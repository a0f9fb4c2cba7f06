//! A pass over the nodes of a pool.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;
use kube::{Resource, ResourceExt};
use muster_core::time::Timestamp;

use super::{NodeWrite, carries, clean_up, health, member_writes, wanted_node};
use crate::decide::node_health::{HealthRules, NodeHealth};
use crate::keys;
use crate::types::{
    Machine, MachineNodePool, MachineNodePoolSpec, MachineNodePoolStatus, PoolNodeStatus, TypeName,
    merge_conditions, ready,
};

/// A pool and what was observed around it.
#[derive(Debug, Clone)]
pub struct ObservedPool<'a> {
    /// The pool.
    pub pool: &'a MachineNodePool,
    /// The nodes of the cluster by name.
    pub nodes: BTreeMap<&'a str, &'a Node>,
    /// The other groups that list a node in their pool, by the node's name.
    pub other_groups: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// The rules for the health of nodes.
    pub health: HealthRules,
}

/// The change of the pool's finalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalizerStep {
    /// Add the finalizer before anything is written to a node, and stop.
    Add,
    /// Leave the finalizer as it is.
    Keep,
    /// Remove the finalizer: no node has a key of the group any more.
    Remove,
}

/// The writes of a pass.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePlan {
    /// The writes to nodes.
    pub writes: Vec<NodeWrite>,
    /// The nodes that are cleaned, for events.
    pub cleaned: Vec<String>,
    /// The change of the finalizer.
    pub finalizer: FinalizerStep,
    /// The status, if it changes.
    pub status: Option<MachineNodePoolStatus>,
}

/// Plans a pass. A node that is missing or that belongs to another group is reported, and does not block the others.
pub fn plan_nodes(observed: &ObservedPool, now: Timestamp) -> NodePlan {
    let pool = observed.pool;
    let guarded = pool.finalizers().iter().any(|finalizer| finalizer == keys::POOL_FINALIZER);
    let leaving = pool.metadata.deletion_timestamp.is_some();
    let mut plan =
        NodePlan { writes: Vec::new(), cleaned: Vec::new(), finalizer: FinalizerStep::Keep, status: None };
    if !leaving && !guarded {
        plan.finalizer = FinalizerStep::Add;
        return plan;
    }
    let Some(group) = pool.group() else {
        let problem = "spec.machineGroup is empty: name the group".to_owned();
        plan.finalizer = if leaving { FinalizerStep::Remove } else { FinalizerStep::Keep };
        plan.status = if leaving { None } else { status(pool, Vec::new(), &[problem], now) };
        return plan;
    };
    let entries = if leaving { &[][..] } else { &pool.spec.node_pool };
    let (mut statuses, mut problems) = (Vec::new(), Vec::new());
    for entry in entries {
        let node = observed.nodes.get(entry.name.as_str()).copied();
        let mut state = health(entry, node, observed.health);
        match (node, entry.single_type()) {
            (None, _) => problems.push(format!("failed to find node {} in Kubernetes Cluster", entry.name)),
            (_, None) => {
                let name = &entry.name;
                problems.push(format!("{name}; can not set multiple machineType in nodePool.machineType"));
            }
            (Some(node), Some(machine_type)) => match holder(observed, node, group) {
                Some(other) => {
                    problems.push(format!("node {} belongs to machine-group {other}", entry.name));
                    state = NodeHealth::NotReady;
                }
                None => {
                    let wanted = wanted_node(group, entry, machine_type, state);
                    plan.writes.extend(member_writes(node, &groups(node, group), &wanted));
                }
            },
        }
        statuses.push(PoolNodeStatus { name: entry.name.clone(), condition: state.condition() });
    }
    let listed: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let left = observed.nodes.iter().filter(|(name, _)| !listed.contains(*name));
    for (name, write) in left.filter_map(|(name, node)| Some((name, clean_up(node, group)?))) {
        plan.cleaned.push((*name).to_owned());
        plan.writes.push(write);
    }
    if leaving && guarded && plan.cleaned.is_empty() {
        plan.finalizer = FinalizerStep::Remove;
    }
    plan.status = if leaving { None } else { status(pool, statuses, &problems, now) };
    plan
}

/// The other group that a node belongs to: that of the node's annotation, if the group still lists the node.
fn holder<'a>(observed: &ObservedPool<'a>, node: &'a Node, group: &str) -> Option<&'a str> {
    let annotated = node.annotations().get(keys::MACHINE_GROUP)?.as_str();
    let listed = observed.other_groups.get(node.metadata.name.as_deref()?);
    (annotated != group && listed.is_some_and(|groups| groups.contains(annotated))).then_some(annotated)
}

/// The groups whose stale keys are removed from a member: the member's own group, and the group that the annotation
/// names although that group no longer lists the node.
fn groups<'a>(node: &'a Node, group: &'a str) -> BTreeSet<&'a str> {
    let annotated = node.annotations().get(keys::MACHINE_GROUP).map(String::as_str);
    let leftover = annotated.filter(|other| carries(node, other));
    [Some(group), leftover].into_iter().flatten().collect()
}

fn status(
    pool: &MachineNodePool,
    node_pool: Vec<PoolNodeStatus>,
    problems: &[String],
    now: Timestamp,
) -> Option<MachineNodePoolStatus> {
    let before = pool.status.clone().unwrap_or_default();
    let status = MachineNodePoolStatus {
        conditions: merge_conditions(
            &before.conditions,
            vec![ready(problems)],
            pool.metadata.generation,
            now,
        ),
        node_pool,
    };
    (pool.status.as_ref() != Some(&status)).then_some(status)
}

/// The pool to apply for a Machine; `None` if the present pool is up to date, or the Machine is being deleted. A pool
/// that a user edited is corrected.
pub fn wanted_pool(
    machine: &Machine,
    group: &str,
    present: Option<&MachineNodePool>,
) -> Option<MachineNodePool> {
    if machine.is_leaving() {
        return None;
    }
    let types = machine.spec.machine_types.iter();
    let spec = MachineNodePoolSpec {
        machine_group: Some(group.to_owned()),
        machine_group_name: None,
        node_pool: machine.spec.node_pool.clone(),
        machine_type_stock: types.map(|machine_type| TypeName { name: machine_type.name.clone() }).collect(),
    };
    let mut wanted = MachineNodePool::new(&keys::pool_name(&machine.name_any()), spec);
    wanted.metadata.labels = Some(BTreeMap::from([(keys::MACHINE_GROUP.to_owned(), group.to_owned())]));
    wanted.metadata.owner_references = machine.controller_owner_ref(&()).map(|owner| vec![owner]);
    let right = |present: &MachineNodePool| {
        present.spec == wanted.spec
            && present.labels().get(keys::MACHINE_GROUP).map(String::as_str) == Some(group)
            && wanted.owner_references().iter().all(|owner| present.owner_references().contains(owner))
    };
    (!present.is_some_and(right)).then_some(wanted)
}
