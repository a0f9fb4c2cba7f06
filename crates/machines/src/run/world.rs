//! The caches of all objects that decisions read, and the Machines that have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Node, NodeCondition, NodeStatus, Pod, Service};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::cache::Cache;
use crate::decide::inject::GuestPriority;
use crate::decide::pod_requests::PodDemand;
use crate::decide::slot_pod::SlotPod;
use crate::keys;
use crate::types::{Machine, MachineNodePool};

/// A pod: its demand on its node, and more if it holds or requests a slot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObservedPod {
    pub(crate) demand: PodDemand,
    pub(crate) slot: Option<Box<SlotPod>>,
}

/// A node. Nodes that differ only in fields that are not read are equal.
#[derive(Debug, Clone)]
pub(crate) struct ObservedNode(pub(crate) Arc<Node>);

impl PartialEq for ObservedNode {
    fn eq(&self, Self(other): &Self) -> bool {
        let Self(node) = self;
        let (one, two) = (&node.metadata, &other.metadata);
        (&one.uid, &one.labels, &one.annotations, &one.deletion_timestamp)
            == (&two.uid, &two.labels, &two.annotations, &two.deletion_timestamp)
            && node.spec == other.spec
            && node.status == other.status
    }
}

/// Groups that have changed.
#[derive(Debug, Default)]
struct Dirty {
    groups: BTreeSet<String>,
    all: bool,
}

/// All caches of the machines part, and the groups that have changed.
#[derive(Debug, Clone)]
pub(crate) struct ObservedWorld {
    pub(crate) machines: Cache<Machine>,
    pub(crate) pools: Cache<MachineNodePool>,
    pub(crate) nodes: Cache<ObservedNode>,
    pub(crate) pods: Cache<ObservedPod>,
    /// True for namespaces whose guests are served.
    pub(crate) namespaces: Cache<bool>,
    pub(crate) sets: Cache<StatefulSet>,
    pub(crate) services: Cache<Service>,
    /// The class of guests. Nothing waits for the first list, so that a server that may not read it works all the same.
    pub(crate) classes: Cache<GuestPriority>,
    dirty: Arc<Mutex<Dirty>>,
    changed: Arc<Notify>,
}

impl ObservedWorld {
    pub(crate) fn new() -> Self {
        Self {
            machines: Cache::new(),
            pools: Cache::new(),
            nodes: Cache::new(),
            pods: Cache::new(),
            namespaces: Cache::new(),
            sets: Cache::new(),
            services: Cache::new(),
            classes: Cache::new(),
            dirty: Arc::default(),
            changed: Arc::default(),
        }
    }

    /// The futures that watch objects and fill the caches while they are polled.
    pub(crate) fn watches(&self, client: &Client, namespace: &str) -> Vec<BoxFuture<'static, ()>> {
        let all = watcher::Config::default;
        let labelled = || watcher::Config::default().labels(keys::MACHINE_GROUP);

        let (world, machines) = (self.clone(), Api::<Machine>::all(client.clone()));
        let machines =
            self.machines
                .clone()
                .follow(watcher(machines, all()), without_fields, move |changed| world.mark(changed.group()));
        let (world, pools) = (self.clone(), Api::<MachineNodePool>::all(client.clone()));
        let pools = self
            .pools
            .clone()
            .follow(watcher(pools, all()), without_fields, move |changed| world.mark(changed.group()));
        let (world, nodes) = (self.clone(), Api::<Node>::all(client.clone()));
        let nodes = self.nodes.clone().follow(
            watcher(nodes, all()),
            |node| ObservedNode(Arc::new(reduced_node(node))),
            move |_| world.mark(None),
        );
        let (world, pods) = (self.clone(), Api::<Pod>::all(client.clone()));
        let pods = self.pods.clone().follow(
            watcher(pods, all()),
            |pod| ObservedPod::read(&pod),
            move |changed| world.mark_pod(changed),
        );
        let (world, namespaces) = (self.clone(), Api::<PartialObjectMeta<Namespace>>::all(client.clone()));
        let namespaces = self.namespaces.clone().follow(
            watcher(namespaces, all()),
            |namespace: PartialObjectMeta<Namespace>| keys::is_enabled(namespace.labels()),
            move |_| world.mark(None),
        );
        let (world, sets) = (self.clone(), Api::<StatefulSet>::namespaced(client.clone(), namespace));
        let sets = self
            .sets
            .clone()
            .follow(watcher(sets, labelled()), without_fields, move |changed| world.mark(group_of(changed)));
        let (world, services) = (self.clone(), Api::<Service>::namespaced(client.clone(), namespace));
        let services =
            self.services.clone().follow(watcher(services, labelled()), without_fields, move |changed| {
                world.mark(group_of(changed));
            });
        let classes = Api::<PriorityClass>::all(client.clone());
        let named = all().fields(&format!("metadata.name={}", keys::GUEST_PRIORITY_CLASS));
        let classes = self.classes.clone().follow(watcher(classes, named), guest_priority, |_| {});
        vec![
            machines.boxed(),
            pools.boxed(),
            nodes.boxed(),
            pods.boxed(),
            namespaces.boxed(),
            sets.boxed(),
            services.boxed(),
            classes.boxed(),
        ]
    }

    /// Returns once the first list of every cache was stored.
    pub(crate) async fn complete(&self) {
        self.machines.complete().await;
        self.pools.complete().await;
        self.nodes.complete().await;
        self.pods.complete().await;
        self.namespaces.complete().await;
        self.sets.complete().await;
        self.services.complete().await;
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.machines.is_complete()
            && self.pools.is_complete()
            && self.nodes.is_complete()
            && self.pods.is_complete()
            && self.namespaces.is_complete()
            && self.sets.is_complete()
            && self.services.is_complete()
    }

    /// Marks a group, or all groups, as changed.
    pub(crate) fn mark(&self, group: Option<&str>) {
        {
            let mut dirty = self.dirty.lock();
            match group {
                Some(group) => drop(dirty.groups.insert(group.to_owned())),
                None => dirty.all = true,
            }
        }
        self.changed.notify_one();
    }

    /// Marks the group of a pod that holds or requests a slot; of any other pod, the group of its node.
    fn mark_pod(&self, ObservedPod { demand, slot }: &ObservedPod) {
        if let Some(slot) = slot {
            self.mark(Some(&slot.group));
        } else if let Some(node) = demand.node.as_deref().and_then(|node| self.nodes.get("", node)) {
            let group = node.0.annotations().get(keys::MACHINE_GROUP).cloned();
            drop(node);
            if group.is_some() {
                self.mark(group.as_deref());
            }
        }
    }

    /// Waits for a change.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the groups that have changed since the last call.
    pub(crate) fn take_changed(&self) -> BTreeSet<String> {
        let Dirty { mut groups, all } = std::mem::take(&mut *self.dirty.lock());
        if all {
            groups.extend(self.groups());
        }
        groups
    }

    /// The groups of all Machines and pools.
    pub(crate) fn groups(&self) -> BTreeSet<String> {
        let machines = self.machines.read();
        let pools = self.pools.read();
        let of_machines = machines.values().filter_map(Machine::group);
        of_machines.chain(pools.values().filter_map(MachineNodePool::group)).map(str::to_owned).collect()
    }

    /// The priority of the guests' class; that of the class that Muster creates if none is known.
    pub(crate) fn guest_priority(&self) -> GuestPriority {
        self.classes.get("", keys::GUEST_PRIORITY_CLASS).map(|class| class.clone()).unwrap_or_default()
    }

    /// The namespaces by name; the value is true if their guests are served.
    pub(crate) fn enabled_namespaces(&self) -> BTreeMap<String, bool> {
        let namespaces = self.namespaces.read();
        namespaces.iter().map(|((_, name), enabled)| (name.clone(), *enabled)).collect()
    }
}

fn guest_priority(class: PriorityClass) -> GuestPriority {
    let GuestPriority { preemption_policy, .. } = GuestPriority::default();
    GuestPriority {
        value: class.value,
        preemption_policy: class.preemption_policy.unwrap_or(preemption_policy),
    }
}

fn group_of<K: kube::Resource>(object: &K) -> Option<&str> {
    object.meta().labels.as_ref()?.get(keys::MACHINE_GROUP).map(String::as_str)
}

/// Drops the managed fields, which take memory and are not read.
fn without_fields<K: kube::Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

/// Drops fields of a node that change often and are not read.
fn reduced_node(node: Node) -> Node {
    let mut node = without_fields(node);
    node.status = node.status.map(|status| {
        let conditions = status.conditions.unwrap_or_default().into_iter();
        let conditions = conditions.filter(|condition| condition.type_ == "Ready");
        let lasting = |condition| NodeCondition { last_heartbeat_time: None, ..condition };
        NodeStatus {
            allocatable: status.allocatable,
            conditions: Some(conditions.map(lasting).collect()),
            ..NodeStatus::default()
        }
    });
    node
}

impl ObservedPod {
    fn read(pod: &Pod) -> Self {
        Self { demand: PodDemand::read(pod), slot: SlotPod::read(pod).map(Box::new) }
    }
}
