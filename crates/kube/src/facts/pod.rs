//! What is kept of a pod.

mod condition;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::api::ObjectMeta;
use muster_core::ids::NodeId;
use muster_core::node::Observation;
use muster_core::time::Timestamp;
use muster_frameworks::kubernetes::{Flavor, Member, NodeWords};
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::condition::Crashed;
use self::condition::Status;
use crate::fences::Written;
use crate::marks;

/// A pod as it is read: what is not named here is skipped on the way in.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = Pod)]
pub(crate) struct LeanPod {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
    containers: Vec<Container>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Container {
    name: String,
    image: String,
    resources: Value,
}

/// A pod that is a member of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PodFacts {
    /// Its name.
    pub(crate) name: String,
    /// Which one of that name.
    pub(crate) uid: String,
    /// Which state of it.
    pub(crate) version: String,
    /// What it is to its cluster.
    pub(crate) member: Member,
    /// What made it.
    pub(crate) controller: Option<String>,
    /// When it ends, another one is made under another name, and it stays as it is.
    pub(crate) is_replaced: bool,
    /// The machine that it is on.
    pub(crate) machine: Option<String>,
    /// How it is.
    pub(crate) seen: Observation,
    /// Why it does not work yet.
    pub(crate) reason: String,
    /// It is on its way out.
    pub(crate) leaving: bool,
    /// When it was created.
    pub(crate) created_at: Option<Timestamp>,
    /// What it was made from.
    pub(crate) made_from: NodeWords,
    /// Its main container.
    pub(crate) container: String,
    /// The container that keeps dying.
    pub(crate) crashed: Option<Crashed>,
}

/// A pod that is a node by itself.
#[derive(Debug, Clone)]
pub(crate) struct NodePod {
    /// The node that it was made for; none for one that others made.
    pub(crate) node: Option<NodeId>,
    /// Its name.
    pub(crate) name: String,
    /// Which one of that name.
    pub(crate) uid: String,
    /// Which state of it.
    pub(crate) version: String,
    /// The fence of Muster's last write to it.
    pub(crate) fence: Option<Written>,
    /// The machine that it is on.
    pub(crate) machine: Option<String>,
    /// How it is.
    pub(crate) seen: Observation,
    /// Why it does not work yet.
    pub(crate) reason: String,
    /// It is on its way out.
    pub(crate) leaving: bool,
    /// Its main container.
    pub(crate) container: String,
    /// The image of that.
    pub(crate) image: String,
}

impl LeanPod {
    /// What it is as a node.
    pub(crate) fn of_node(self) -> NodePod {
        let text = |map: &Option<BTreeMap<String, String>>, key: &str| map.as_ref()?.get(key).cloned();
        let node = text(&self.metadata.labels, marks::NODE).and_then(|id| id.parse().ok());
        let fence = text(&self.metadata.annotations, marks::FENCE).map(|fence| Written::new(&fence));
        let name = self.metadata.name.unwrap_or_default();
        let uid = self.metadata.uid.unwrap_or_default();
        let mut identity = format!("{}/{name}", self.metadata.namespace.unwrap_or_default());
        if node.is_some() {
            // One that is made anew has the same name, and whoever stops what it was must not stop that.
            identity = format!("{identity}/{uid}");
        }
        let (seen, reason) = self.status.seen(&identity);
        let main = self.spec.containers.into_iter().next().unwrap_or_default();
        NodePod {
            node,
            name,
            uid,
            version: self.metadata.resource_version.unwrap_or_default(),
            fence,
            machine: self.spec.node_name,
            seen,
            reason,
            leaving: self.metadata.deletion_timestamp.is_some(),
            container: main.name,
            image: main.image,
        }
    }

    /// Where it is.
    pub(crate) fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// What it is to clusters of a flavor, and how it is; nothing if it is no member.
    pub(crate) fn facts(self, flavor: &dyn Flavor) -> Option<PodFacts> {
        let member = flavor.member(self.metadata.labels.as_ref()?)?;
        let name = self.metadata.name.unwrap_or_default();
        let place = format!("{}/{name}", self.metadata.namespace.unwrap_or_default());
        let (seen, mut reason) = self.status.seen(&place);
        let leaving = self.metadata.deletion_timestamp.is_some();
        if let Some(finalizers) = self.metadata.finalizers.filter(|names| leaving && !names.is_empty()) {
            reason = format!("it waits for its finalizers: {}", finalizers.join(", "));
        }
        let owners = self.metadata.owner_references.unwrap_or_default();
        let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
        let main = self.spec.containers.into_iter().next().unwrap_or_default();
        let made_from = NodeWords::of_container(main.image, &main.resources);
        Some(PodFacts {
            uid: self.metadata.uid.unwrap_or_default(),
            version: self.metadata.resource_version.unwrap_or_default(),
            member,
            is_replaced: controller.as_ref().is_some_and(|owner| owner.kind == "ReplicaSet"),
            controller: controller.map(|owner| owner.name),
            machine: self.spec.node_name,
            seen,
            reason,
            leaving,
            created_at: self
                .metadata
                .creation_timestamp
                .map(|at| Timestamp::from_micros(at.0.as_microsecond())),
            made_from,
            container: main.name,
            crashed: self.status.crashed(),
            name,
        })
    }
}
