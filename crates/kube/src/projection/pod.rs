//! Pods, as members of clusters and as nodes.

mod status;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::api::ObjectMeta;
use muster_core::ids::NodeId;
use muster_core::machine::{MACHINE_GROUP, MACHINE_TYPE, SLOT_GATE};
use muster_core::node::Observation;
use muster_core::time::Timestamp;
use muster_frameworks::kubernetes::{Flavor, PodMembership, PodTemplate};
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::status::CrashLoop;
use self::status::PodStatus;
use crate::fences::WrittenFence;
use crate::ownership;

/// A pod; fields that are not used are skipped when it is read.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = Pod)]
pub(crate) struct LeanPod {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    containers: Vec<PodContainer>,
    scheduling_gates: Vec<SchedulingGate>,
}

/// A scheduling gate: the pod is not scheduled until a controller removes it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct SchedulingGate {
    name: String,
}

/// The slot of a machine type that a pod waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AwaitedSlot {
    /// The machine group.
    pub(crate) group: String,
    /// The machine type.
    pub(crate) machine_type: String,
}

impl PodSpec {
    /// Returns the slot that the pod waits for, if that is its only scheduling gate.
    fn awaited_slot(&self, labels: &BTreeMap<String, String>) -> Option<AwaitedSlot> {
        let [SchedulingGate { name }] = self.scheduling_gates.as_slice() else { return None };
        let (group, machine_type) = (labels.get(MACHINE_GROUP)?, labels.get(MACHINE_TYPE)?);
        let slot = || AwaitedSlot { group: group.clone(), machine_type: machine_type.clone() };
        (name == SLOT_GATE).then(slot)
    }

    /// Returns the reason why the pod is not scheduled, if it has scheduling gates.
    fn gate_reason(&self) -> Option<String> {
        let names: Vec<&str> = self.scheduling_gates.iter().map(|gate| gate.name.as_str()).collect();
        let message = || format!("it is not scheduled until its gates are removed: {}", names.join(", "));
        (!names.is_empty()).then(message)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PodContainer {
    name: String,
    image: String,
    resources: Value,
}

/// A pod that is a member of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClusterPod {
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The resource version, which rises with every write.
    pub(crate) version: String,
    /// The pod's cluster, role and group.
    pub(crate) member: PodMembership,
    /// The name of the object that created the pod.
    pub(crate) controller: Option<String>,
    /// True if the controller replaces the pod, when it ends, by one with another name, and does not delete it.
    pub(crate) is_replaced: bool,
    /// The machine that it is scheduled to.
    pub(crate) machine: Option<String>,
    pub(crate) observation: Observation,
    /// The reason why it is not ready yet.
    pub(crate) reason: String,
    /// The slot of a machine type that the pod waits for.
    pub(crate) awaited_slot: Option<AwaitedSlot>,
    /// It is being deleted.
    pub(crate) leaving: bool,
    pub(crate) created_at: Option<Timestamp>,
    /// The parts of the pod that observations compare with the present template of its group.
    pub(crate) template: PodTemplate,
    /// The name of its main container.
    pub(crate) container: String,
    /// The container that is in a crash loop, if any.
    pub(crate) crash_loop: Option<CrashLoop>,
}

/// A pod that is a node by itself.
#[derive(Debug, Clone)]
pub(crate) struct NodePod {
    /// The node that it was created for; none for an adopted pod.
    pub(crate) node: Option<NodeId>,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The resource version, which rises with every write.
    pub(crate) version: String,
    /// The fence of Muster's last write.
    pub(crate) fence: Option<WrittenFence>,
    /// The machine that it is scheduled to.
    pub(crate) machine: Option<String>,
    pub(crate) observation: Observation,
    /// The reason why it is not ready yet.
    pub(crate) reason: String,
    /// It is being deleted.
    pub(crate) leaving: bool,
    /// The name of its main container.
    pub(crate) container: String,
    /// The image of its main container.
    pub(crate) image: String,
}

impl LeanPod {
    /// Returns the pod as a node.
    pub(crate) fn into_node_pod(self) -> NodePod {
        let text = |map: &Option<BTreeMap<String, String>>, key: &str| map.as_ref()?.get(key).cloned();
        let node = text(&self.metadata.labels, ownership::NODE).and_then(|id| id.parse().ok());
        let fence = text(&self.metadata.annotations, ownership::FENCE).map(|fence| WrittenFence::new(&fence));
        let name = self.metadata.name.unwrap_or_default();
        let uid = self.metadata.uid.unwrap_or_default();
        let mut identity = format!("{}/{name}", self.metadata.namespace.unwrap_or_default());
        if node.is_some() {
            // A recreated pod has the same name: with the UID, a late stop of the former pod does not stop the new one.
            identity = format!("{identity}/{uid}");
        }
        let (observation, reason) = self.status.observe(&identity);
        let main = self.spec.containers.into_iter().next().unwrap_or_default();
        NodePod {
            node,
            name,
            uid,
            version: self.metadata.resource_version.unwrap_or_default(),
            fence,
            machine: self.spec.node_name,
            observation,
            reason,
            leaving: self.metadata.deletion_timestamp.is_some(),
            container: main.name,
            image: main.image,
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the pod as a member of a cluster; `None` if it is not a member of any cluster of this flavor.
    pub(crate) fn into_cluster_pod(self, flavor: &dyn Flavor) -> Option<ClusterPod> {
        let member = flavor.read_member(self.metadata.labels.as_ref()?)?;
        let name = self.metadata.name.unwrap_or_default();
        let identity = format!("{}/{name}", self.metadata.namespace.unwrap_or_default());
        let (observation, mut reason) = self.status.observe(&identity);
        let awaited_slot = self.spec.awaited_slot(self.metadata.labels.as_ref()?);
        if let Some(gate_reason) = self.spec.gate_reason() {
            reason = gate_reason;
        }
        let leaving = self.metadata.deletion_timestamp.is_some();
        if let Some(finalizers) = self.metadata.finalizers.filter(|names| leaving && !names.is_empty()) {
            reason = format!("it waits for its finalizers: {}", finalizers.join(", "));
        }
        let owners = self.metadata.owner_references.unwrap_or_default();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        let main = self.spec.containers.into_iter().next().unwrap_or_default();
        let template = PodTemplate::from_container(main.image, &main.resources);
        Some(ClusterPod {
            uid: self.metadata.uid.unwrap_or_default(),
            version: self.metadata.resource_version.unwrap_or_default(),
            member,
            is_replaced: controller.as_ref().is_some_and(|owner| owner.kind == "ReplicaSet"),
            controller: controller.map(|owner| owner.name),
            machine: self.spec.node_name,
            observation,
            reason,
            awaited_slot,
            leaving,
            created_at: self
                .metadata
                .creation_timestamp
                .map(|at| Timestamp::from_micros(at.0.as_microsecond())),
            template,
            container: main.name,
            crash_loop: self.status.crash_loop(),
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::none(json!([]), None, None)]
    #[case::slot(json!([{"name": "muster.dev/slot"}]), Some("muster.dev/slot"), Some("general"))]
    #[case::another_one_too(
        json!([{"name": "muster.dev/slot"}, {"name": "example.test/quota"}]),
        Some("muster.dev/slot, example.test/quota"),
        None
    )]
    fn a_gated_pod_names_what_it_waits_for(
        #[case] gates: Value,
        #[case] names: Option<&str>,
        #[case] group: Option<&str>,
    ) {
        let spec: PodSpec = serde_json::from_value(json!({"schedulingGates": gates})).unwrap();
        let labels = [(MACHINE_GROUP, "general"), (MACHINE_TYPE, "medium")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let reason = names.map(|names| format!("it is not scheduled until its gates are removed: {names}"));
        assert_eq!(spec.gate_reason(), reason);
        assert_eq!(spec.awaited_slot(&labels).map(|slot| slot.group).as_deref(), group);
    }
}
