//! The trait of flavors, and the types of its arguments and results.

use std::collections::BTreeMap;

use muster_core::change::ClusterUpdate;
use muster_core::cluster::{Cluster, Framework};
use muster_core::node::NodeRole;
use muster_core::principal::Owner;
use muster_core::recipe::ClusterRecipe;
use serde_json::{Map, Value};

use super::metadata::USER;
use super::object::{Manifest, ResourceKind, WatchedKind};
use super::pod_change::PodChange;
use super::projection::ObjectProjection;
use crate::endpoints::Endpoints;

/// The features that a flavor supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by name, and none implies another")]
pub struct Abilities {
    /// True if clusters can be created, not only discovered.
    pub create: bool,
    /// True if the workers to remove can be chosen.
    pub choose_victims: bool,
    /// True if running pods are replaced when their recipe changes.
    pub rolls: bool,
    /// True if a worker that is removed is recreated from the present recipe.
    pub replaces_workers: bool,
    /// True if a cluster can have more than one group of workers.
    pub several_groups: bool,
    /// True if workers rejoin a new head by themselves.
    pub workers_outlive_head: bool,
}

/// A cluster as it should be: its row, and the recipe of its nodes.
#[derive(Debug, Clone, Copy)]
pub struct DesiredCluster<'a> {
    /// The row with the desired sizes and names.
    pub cluster: &'a Cluster,
    /// The recipe of the cluster's nodes.
    pub recipe: &'a ClusterRecipe,
}

/// The cluster, role and group of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodMembership {
    /// The name of the cluster's root.
    pub cluster: String,
    /// The role of the pod.
    pub role: NodeRole,
    /// The group of a worker.
    pub group: Option<String>,
    /// True if a replacement of the pod has the same name.
    pub keeps_name: bool,
}

/// The change of a group's size or bounds.
#[derive(Debug, Clone, Copy)]
pub struct GroupResize<'a> {
    /// The name of the group.
    pub group: &'a str,
    /// The new number of workers, if it changes.
    pub desired: Option<u32>,
    /// The new bounds, if they change.
    pub bounds: Option<(u32, Option<u32>)>,
    /// The workers to remove first where the group shrinks.
    pub victims: &'a [Victim],
}

/// A worker that was chosen for removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// The name of its pod.
    pub pod: String,
    /// The controller of the pod: a replica set or stateful set.
    pub controller: Option<String>,
}

/// One write to an object.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectWrite {
    /// The kind of the object.
    pub kind: &'static ResourceKind,
    /// The name of the object.
    pub name: String,
    /// The change.
    pub operation: WriteOperation,
}

/// The change of one object.
#[derive(Debug, Clone, PartialEq)]
pub enum WriteOperation {
    /// A JSON patch whose `test` operations come first.
    JsonPatch(Vec<Value>),
    /// Changes of pod templates by a new recipe. The patch is computed from the present object.
    PodChanges(Vec<PodChange>),
    /// A merge patch that is written only if the object has not changed since it was observed. For fields that may be
    /// missing, which JSON patches cannot add.
    GuardedMerge(Value),
    /// A merge patch of fields that only Muster writes.
    Merge(Value),
    /// Deletes the object; a missing object is no error.
    Delete,
}

impl ObjectWrite {
    /// Returns true if the write changes nothing but the fence.
    pub fn is_empty(&self) -> bool {
        match &self.operation {
            WriteOperation::JsonPatch(operations) => operations.is_empty(),
            WriteOperation::PodChanges(changes) => changes.is_empty(),
            WriteOperation::GuardedMerge(body) => body.as_object().is_some_and(Map::is_empty),
            WriteOperation::Merge(_) | WriteOperation::Delete => false,
        }
    }
}

/// One way to represent clusters of a framework as Kubernetes objects.
///
/// Strings in errors are messages for users. `objects` are always the projections of one cluster, the root first.
pub trait Flavor: Send + Sync {
    /// Returns the name of the flavor, as users write it.
    fn name(&self) -> &'static str;

    /// Returns the framework of its clusters.
    fn framework(&self) -> Framework;

    /// Returns the operator that must be installed, for messages; `None` if the flavor needs no operator.
    fn operator(&self) -> Option<&'static str>;

    /// Returns the features that the flavor supports.
    fn abilities(&self) -> Abilities;

    /// Returns the longest name of a cluster for which the operator can create all objects.
    fn max_name_length(&self) -> usize;

    /// Returns the kinds of objects to watch, the root first.
    fn watched_kinds(&self) -> &'static [WatchedKind];

    /// Returns the label selector of the pods of all its clusters.
    fn pod_selector(&self) -> &'static str;

    /// Reads the cluster, role and group of a pod from its labels.
    fn read_member(&self, labels: &BTreeMap<String, String>) -> Option<PodMembership>;

    /// Renders the objects of a new cluster, the root first.
    fn manifests(&self, plan: DesiredCluster<'_>) -> Result<Vec<Manifest>, String>;

    /// Checks whether a cluster can be created, with the errors of [`Self::manifests`].
    fn check_creation(&self, plan: DesiredCluster<'_>) -> Result<(), String> {
        self.manifests(plan).map(drop)
    }

    /// Returns true if the creation of a cluster was completed: all objects of [`Self::manifests`] exist.
    fn is_complete(&self, _objects: &[&ObjectProjection]) -> bool {
        true
    }

    /// Returns descriptions of deleted objects that no operator recreates.
    fn missing_objects(&self, _cluster: &str, _objects: &[&ObjectProjection]) -> Vec<String> {
        Vec::new()
    }

    /// Projects an object of a watched kind; none if it belongs to no cluster.
    fn read_object(&self, kind: &ResourceKind, object: &Value) -> Option<ObjectProjection>;

    /// Returns true if an API returns root objects of this flavor.
    fn shows_root(&self) -> bool {
        false
    }

    /// Returns the root object as that API returns it, without fields that change often and that its clients do not
    /// use.
    fn root_view(&self, root: &Value) -> Value {
        root.clone()
    }

    /// Returns the reasons of events by which the operator reports that it ignores a root in its present form.
    fn rejection_reasons(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the writes that resize groups.
    fn resize_groups(
        &self,
        cluster: &str,
        objects: &[&ObjectProjection],
        changes: &[GroupResize<'_>],
    ) -> Result<Vec<ObjectWrite>, String>;

    /// Returns the writes that change the recipe of nodes; they contain only the differences.
    fn change_recipe(
        &self,
        before: DesiredCluster<'_>,
        after: DesiredCluster<'_>,
        objects: &[&ObjectProjection],
    ) -> Result<Vec<ObjectWrite>, String>;

    /// Returns the writes that change the recipe of nodes by an update, where the flavor compares the update with the
    /// objects: they also restore settings that the update names and that others have changed. None if the flavor
    /// compares only the recipes, as [`Self::change_recipe`] does.
    fn apply_update(
        &self,
        _update: &ClusterUpdate,
        _before: DesiredCluster<'_>,
        _after: DesiredCluster<'_>,
        _objects: &[&ObjectProjection],
    ) -> Result<Option<Vec<ObjectWrite>>, String> {
        Ok(None)
    }

    /// Checks whether the operator can apply a changed recipe, before anything is written.
    fn check_recipe_change(
        &self,
        _before: DesiredCluster<'_>,
        _after: DesiredCluster<'_>,
    ) -> Result<(), String> {
        Ok(())
    }

    /// Returns the writes that remove leftovers of a resize, once the group has its size.
    fn clean_up_resize(&self, _cluster: &str, _objects: &[&ObjectProjection]) -> Vec<ObjectWrite> {
        Vec::new()
    }

    /// Returns the write that makes the operator recreate a missing head, where it does not by itself.
    fn recreate_head(&self, _cluster: &str) -> Option<ObjectWrite> {
        None
    }

    /// Returns the owner of a discovered cluster by its labels; the default owner if they have none.
    fn owner(&self, _labels: &BTreeMap<String, String>) -> Owner {
        Owner::default()
    }

    /// Returns the user who created a cluster, by its labels.
    fn user(&self, labels: &BTreeMap<String, String>) -> String {
        labels.get(USER).cloned().unwrap_or_default()
    }

    /// Returns the addresses of the head within Kubernetes.
    fn endpoints(&self, namespace: &str, cluster: &str) -> Endpoints;

    /// Returns the name and key of the Secret with the framework's own token, if it has one.
    fn token_secret(&self, _cluster: &str) -> Option<(String, &'static str)> {
        None
    }

    /// Returns the environment of programs that use a cluster.
    fn client_environment(&self, endpoints: &Endpoints, token: Option<&str>) -> BTreeMap<String, String>;
}
