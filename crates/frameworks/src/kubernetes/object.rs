//! Kinds of Kubernetes objects, and their roles in a cluster.

use serde_json::Value;

/// A kind of Kubernetes objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResourceKind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version that Muster uses.
    pub version: &'static str,
    /// The kind, such as `RayCluster`.
    pub kind: &'static str,
    /// The plural, such as `rayclusters`.
    pub plural: &'static str,
}

impl ResourceKind {
    /// Returns the API version, such as `ray.io/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the qualified plural, such as `rayclusters.ray.io`, for permissions and messages.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// The kind of pods.
pub const POD: ResourceKind = ResourceKind { group: "", version: "v1", kind: "Pod", plural: "pods" };

pub(super) const SERVICE: ResourceKind =
    ResourceKind { group: "", version: "v1", kind: "Service", plural: "services" };

/// The kind of Deployments.
pub const DEPLOYMENT: ResourceKind =
    ResourceKind { group: "apps", version: "v1", kind: "Deployment", plural: "deployments" };

/// The role of objects of a kind in their cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectRole {
    /// The object that represents the cluster: the cluster exists as long as this object does.
    Root,
    /// An object that specifies a further part of the cluster.
    Detail,
    /// A controller of pods, whose status may explain missing ones.
    PodController,
}

/// A kind of objects that is watched for a flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchedKind {
    /// The kind.
    pub kind: &'static ResourceKind,
    /// The label selector; empty for all objects.
    pub selector: &'static str,
    /// The role of these objects.
    pub role: ObjectRole,
}

impl WatchedKind {
    /// Returns true if this watch covers an object of a kind, by the object's labels.
    pub fn matches(&self, kind: &ResourceKind, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let fits = |term: &str| match term.split_once('=') {
            Some((key, value)) => labels[key].as_str() == Some(value),
            None => labels[term].is_string(),
        };
        self.kind == kind && self.selector.split(',').filter(|term| !term.is_empty()).all(fits)
    }
}

/// An object to create.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The kind of the object.
    pub kind: &'static ResourceKind,
    /// The whole object.
    pub body: Value,
    /// True if the object is deleted with the root: its creator adds an owner reference to the root.
    pub owned: bool,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("", json!({}), true)]
    #[case("a", json!({"a": "1"}), true)]
    #[case("a", json!({"b": "1"}), false)]
    #[case("a,b=2", json!({"a": "1", "b": "2"}), true)]
    #[case("a,b=2", json!({"a": "1", "b": "3"}), false)]
    #[case("a", json!(null), false)]
    fn objects_are_watched_by_kind_and_labels(
        #[case] selector: &'static str,
        #[case] labels: Value,
        #[case] matches: bool,
    ) {
        let watched = WatchedKind { kind: &DEPLOYMENT, selector, role: ObjectRole::Detail };
        let object = json!({"metadata": {"labels": labels}});
        assert_eq!(watched.matches(&DEPLOYMENT, &object), matches);
        assert!(!watched.matches(&POD, &object));
    }
}
