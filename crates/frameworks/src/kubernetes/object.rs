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

/// An object to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// Its kind.
    pub kind: &'static Kind,
    /// All of it.
    pub body: Value,
}
