//! Kinds of objects, and what they are to a cluster.

use serde_json::Value;

/// A kind of objects, as the API server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Its group; empty for the core one.
    pub group: &'static str,
    /// The version that is spoken.
    pub version: &'static str,
    /// `RayCluster`.
    pub kind: &'static str,
    /// `rayclusters`.
    pub plural: &'static str,
}

impl Kind {
    /// `ray.io/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `rayclusters.ray.io`, as rights and messages name it.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// Pods.
pub const POD: Kind = Kind { group: "", version: "v1", kind: "Pod", plural: "pods" };

pub(super) const SERVICE: Kind = Kind { group: "", version: "v1", kind: "Service", plural: "services" };

/// Deployments.
pub const DEPLOYMENT: Kind = Kind { group: "apps", version: "v1", kind: "Deployment", plural: "deployments" };

/// What objects of a kind are to a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// While it is there the cluster is, and when it goes so does the cluster.
    Root,
    /// It says more of how the cluster should be.
    More,
    /// It makes pods, and may say why it cannot.
    Maker,
}

/// Objects that are followed for a flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// Their kind.
    pub kind: &'static Kind,
    /// Which of them, by label; empty for all.
    pub selector: &'static str,
    /// What they are to a cluster.
    pub part: Part,
}

impl Watched {
    /// Whether an object is among those that are followed, by its kind and its labels.
    pub fn is_about(&self, kind: &Kind, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let fits = |term: &str| match term.split_once('=') {
            Some((key, value)) => labels[key].as_str() == Some(value),
            None => labels[term].is_string(),
        };
        self.kind == kind && self.selector.split(',').filter(|term| !term.is_empty()).all(fits)
    }
}

/// An object to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Its kind.
    pub kind: &'static Kind,
    /// All of it.
    pub body: Value,
    /// It goes with the root, which whoever makes it writes down in it as its owner.
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
    fn objects_are_told_apart_by_their_labels(
        #[case] selector: &'static str,
        #[case] labels: Value,
        #[case] is_about: bool,
    ) {
        let watched = Watched { kind: &DEPLOYMENT, selector, part: Part::More };
        let object = json!({"metadata": {"labels": labels}});
        assert_eq!(watched.is_about(&DEPLOYMENT, &object), is_about);
        assert!(!watched.is_about(&POD, &object));
    }
}
