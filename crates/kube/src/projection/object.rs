//! Objects that specify clusters.

use muster_core::app::EphemeralMark;
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_core::time::Timestamp;
use muster_frameworks::kubernetes::{ObjectProjection, ResourceKind};
use serde_json::Value;

use crate::fences::WrittenFence;
use crate::{apps, ownership};

/// An object that specifies a cluster, reduced to the parts that are used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CachedObject {
    pub(crate) kind: &'static ResourceKind,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// The resource version, which rises with every write.
    pub(crate) version: String,
    /// Rises with every change of the specification.
    pub(crate) generation: i64,
    /// The id of the cluster that the object was created for, or its own UID.
    pub(crate) cluster: Option<ClusterId>,
    /// The fence of Muster's last write.
    pub(crate) fence: Option<WrittenFence>,
    pub(crate) has_annotations: bool,
    /// The remaining finalizers of an object that is being deleted.
    pub(crate) leaving: Option<Vec<String>>,
    pub(crate) created_at: Option<Timestamp>,
    /// The specification and status, as the flavor reads them.
    pub(crate) projection: ObjectProjection,
    /// The digest of a root's content.
    pub(crate) content: Option<String>,
    /// The UIDs of its owners.
    pub(crate) owners: Vec<String>,
    /// The app that the cluster ends with, by the object's label.
    pub(crate) ephemeral: Option<EphemeralMark>,
    /// True if an app that the label no longer names still owns the object.
    pub(crate) has_former_app: bool,
}

impl CachedObject {
    /// Reads the metadata of an object whose projection was read by its flavor.
    pub(crate) fn read(kind: &'static ResourceKind, object: &Value, projection: ObjectProjection) -> Self {
        let metadata = &object["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
        let names = |key: &str| {
            let list = metadata[key].as_array().map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        let owners = metadata["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            kind,
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            version: text("resourceVersion"),
            generation: metadata["generation"].as_i64().unwrap_or_default(),
            cluster: ownership::cluster_of(object),
            fence: ownership::fence_of(object),
            has_annotations: metadata["annotations"].is_object(),
            leaving: metadata["deletionTimestamp"].is_string().then(|| names("finalizers")),
            created_at: parse_timestamp(&text("creationTimestamp")),
            projection,
            content: None,
            owners: owners.iter().filter_map(|owner| owner["uid"].as_str().map(str::to_owned)).collect(),
            ephemeral: apps::mark_of(object),
            has_former_app: apps::former_app(object).is_some(),
        }
    }
}

impl CachedObject {
    /// Returns true if the object is the root of this cluster, by its label or by the UID in the cluster's row: users
    /// can change labels.
    pub(crate) fn is_root_of(&self, cluster: &Cluster) -> bool {
        self.cluster == Some(cluster.id) || cluster.observed.object.as_ref() == Some(&self.uid)
    }

    /// Returns true if Muster created the object. The cluster of any other object has the UID of that object as its id.
    pub(crate) fn is_created_by_muster(&self) -> bool {
        self.cluster.is_some() && self.cluster != self.uid.parse().ok()
    }

    /// Returns true if the object belongs to this cluster and remains although the root was deleted, because the root
    /// was deleted without its dependents.
    pub(crate) fn is_orphan_of(&self, cluster: &Cluster) -> bool {
        let is_owned = |root: &String| self.owners.contains(root);
        self.cluster == Some(cluster.id)
            && self.leaving.is_none()
            && cluster.observed.object.as_ref().is_some_and(|root| !is_owned(root))
    }
}

/// Parses a timestamp as Kubernetes writes it.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let timestamp: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp::from_micros(timestamp.as_microsecond()))
}

/// Returns true if one resource version is older than another. They are numbers, although the API does not guarantee
/// that.
pub(crate) fn is_older(one: &str, other: &str) -> bool {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one < other,
        _ => false,
    }
}
