//! What is kept of an object that says how a cluster should be.

use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_core::time::Timestamp;
use muster_frameworks::kubernetes::{Kind, Words};
use serde_json::Value;

use crate::fences::Written;
use crate::marks;

/// An object that says how a cluster should be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObjectFacts {
    /// Its kind.
    pub(crate) kind: &'static Kind,
    /// Where it is.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
    /// Which one of that name.
    pub(crate) uid: String,
    /// Which state of it.
    pub(crate) version: String,
    /// Which state of what it says.
    pub(crate) generation: i64,
    /// The cluster that it stands for, where it is a root.
    pub(crate) cluster: Option<ClusterId>,
    /// The fence of Muster's last write to it.
    pub(crate) fence: Option<Written>,
    /// It has any annotations.
    pub(crate) has_annotations: bool,
    /// It was deleted, and is not gone yet because of these.
    pub(crate) leaving: Option<Vec<String>>,
    /// When it was made.
    pub(crate) made_at: Option<Timestamp>,
    /// What it says.
    pub(crate) words: Words,
    /// The digest of its content, where it is a root.
    pub(crate) content: Option<String>,
}

impl ObjectFacts {
    /// Reads an object.
    pub(crate) fn read(kind: &'static Kind, object: &Value, words: Words) -> Self {
        let metadata = &object["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
        let names = |key: &str| {
            let list = metadata[key].as_array().map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
        };
        Self {
            kind,
            namespace: text("namespace"),
            name: text("name"),
            uid: text("uid"),
            version: text("resourceVersion"),
            generation: metadata["generation"].as_i64().unwrap_or_default(),
            cluster: marks::cluster_of(object),
            fence: marks::fence_of(object),
            has_annotations: metadata["annotations"].is_object(),
            leaving: metadata["deletionTimestamp"].is_string().then(|| names("finalizers")),
            made_at: moment(&text("creationTimestamp")),
            words,
            content: None,
        }
    }
}

impl ObjectFacts {
    /// Whether it is the root of this cluster: made for it, or known as such before somebody changed its marks.
    pub(crate) fn stands_for(&self, cluster: &Cluster) -> bool {
        self.cluster == Some(cluster.id) || cluster.observed.object.as_ref() == Some(&self.uid)
    }
}

/// A moment as Kubernetes writes it.
pub(crate) fn moment(text: &str) -> Option<Timestamp> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp::from_micros(moment.as_microsecond()))
}

/// Whether one state of an object is older than another. States are counted, though nobody promises that.
pub(crate) fn is_older(one: &str, other: &str) -> bool {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one < other,
        _ => false,
    }
}
