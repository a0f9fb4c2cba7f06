//! What a flavor knows.

use std::collections::BTreeMap;

use muster_core::cluster::{Cluster, Framework};
use muster_core::node::NodeRole;
use muster_core::principal::Owner;
use muster_core::recipe::ClusterRecipe;
use serde_json::Value;

use super::metadata::USER;
use super::object::{Kind, Manifest, Watched};
use super::pod_change::PodChange;
use super::words::Words;
use crate::endpoints::Endpoints;

/// What can be done with clusters of a flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by name, and none implies another")]
pub struct Abilities {
    /// New ones can be made, not only found.
    pub create: bool,
    /// Which workers go can be chosen.
    pub choose_victims: bool,
    /// Members that run are made anew when their recipe changes.
    pub rolls: bool,
    /// There may be several groups of workers.
    pub several_groups: bool,
    /// Workers find a new head by themselves.
    pub workers_outlive_head: bool,
}

/// A cluster to be made.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The cluster as it should be.
    pub cluster: &'a Cluster,
    /// What its nodes are made from.
    pub recipe: &'a ClusterRecipe,
}

/// What a pod is to its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The name of the cluster's root.
    pub cluster: String,
    /// What it is there.
    pub role: NodeRole,
    /// The group that it is in.
    pub group: Option<String>,
    /// The next one in its place has the same name.
    pub keeps_name: bool,
}

/// What shall change of a group.
#[derive(Debug, Clone, Copy)]
pub struct Resize<'a> {
    /// Its name.
    pub group: &'a str,
    /// So many workers, if that changes.
    pub desired: Option<u32>,
    /// These bounds, if they change.
    pub bounds: Option<(u32, Option<u32>)>,
    /// Those that go first where it shrinks.
    pub victims: &'a [Victim],
}

/// A worker that was chosen to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// Its pod.
    pub pod: String,
    /// What made that: a replica set, a stateful set.
    pub controller: Option<String>,
}

/// One write to an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its name.
    pub name: String,
    /// What is done to it.
    pub deed: Deed,
}

/// What is done to an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// Operations of a JSON patch. Those that only `test` come first.
    Patch(Vec<Value>),
    /// Pods that a changed recipe makes differently; which operations that takes is decided on the object as it is.
    Pods(Vec<PodChange>),
    /// A merge patch that is written only if the object is as it was seen, for what may not be there at all yet.
    Overlay(Value),
    /// A merge patch of something that nobody else has a say in.
    Merge(Value),
    /// It is deleted; that it is gone is as good.
    Delete,
}

/// One way for clusters of a framework to stand on Kubernetes.
pub trait Flavor: Send + Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// What its clusters run.
    fn framework(&self) -> Framework;

    /// What has to be installed for it, in words; none if any Kubernetes will do.
    fn operator(&self) -> Option<&'static str>;

    /// What can be done with its clusters.
    fn abilities(&self) -> Abilities;

    /// The longest name of a cluster that comes to something.
    fn longest_name(&self) -> usize;

    /// Objects to be followed, the root first.
    fn watched(&self) -> &'static [Watched];

    /// The label selector of the pods of all its clusters.
    fn pods(&self) -> &'static str;

    /// What a pod is to its cluster, by its labels.
    fn member(&self, labels: &BTreeMap<String, String>) -> Option<Member>;

    /// The objects of a new cluster, the root first; the sentence says what is not possible.
    fn manifests(&self, plan: Plan<'_>) -> Result<Vec<Manifest>, String>;

    /// Says what is not possible of a new cluster, as [`Self::manifests`] would.
    fn check(&self, plan: Plan<'_>) -> Result<(), String> {
        self.manifests(plan).map(drop)
    }

    /// Whether all is there that [`Self::manifests`] makes, given what the objects say.
    fn is_whole(&self, _words: &[&Words]) -> bool {
        true
    }

    /// What others took away of a cluster, in words, where no operator makes it again.
    fn missing(&self, _cluster: &str, _words: &[&Words]) -> Vec<String> {
        Vec::new()
    }

    /// Reads an object of a followed kind; nothing if it belongs to no cluster.
    fn read(&self, kind: &Kind, object: &Value) -> Option<Words>;

    /// Whether an API shows its root objects.
    fn is_shown(&self) -> bool {
        false
    }

    /// A root object as that API shows it, without what changes and means nothing to it.
    fn shown(&self, root: &Value) -> Value {
        root.clone()
    }

    /// Reasons of the events by which its operator says that it does not act on a root as that is now.
    fn refusals(&self) -> &'static [&'static str] {
        &[]
    }

    /// What to write so that groups change, given what the objects say; the sentence says what is not possible.
    fn resize(&self, cluster: &str, words: &[&Words], changes: &[Resize<'_>]) -> Result<Vec<Step>, String>;

    /// What to write so that nodes are made from another recipe than before: what differs, and nothing else.
    fn remake(&self, before: Plan<'_>, after: Plan<'_>, words: &[&Words]) -> Result<Vec<Step>, String>;

    /// Says what its operator cannot do of that, before anything is written.
    fn check_remake(&self, _before: Plan<'_>, _after: Plan<'_>) -> Result<(), String> {
        Ok(())
    }

    /// What is taken away once a group has shrunk.
    fn settle(&self, _cluster: &str, _words: &[&Words]) -> Vec<Step> {
        Vec::new()
    }

    /// How a head is brought back that nothing makes any more.
    fn revive_head(&self, _cluster: &str) -> Option<Step> {
        None
    }

    /// Whom a cluster belongs to, as its labels say; nobody if they do not.
    fn owner(&self, _labels: &BTreeMap<String, String>) -> Owner {
        Owner::default()
    }

    /// Who made a cluster, as its labels say.
    fn user(&self, labels: &BTreeMap<String, String>) -> String {
        labels.get(USER).cloned().unwrap_or_default()
    }

    /// Where its head answers within Kubernetes.
    fn endpoints(&self, namespace: &str, cluster: &str) -> Endpoints;

    /// The secret with the framework's own token, and under which key, if it has one.
    fn token(&self, _cluster: &str) -> Option<(String, &'static str)> {
        None
    }

    /// What programs that use a cluster need in their environment.
    fn environment(&self, endpoints: &Endpoints, token: Option<&str>) -> BTreeMap<String, String>;
}
