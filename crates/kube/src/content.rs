//! The content of root objects that rows store and APIs show.
//!
//! Only its digest is cached with every object. The content itself is needed once after each change: it is cached
//! for the objects that changed last, and read from the API server for any other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_engine::ports::provider::ObjectContent;
use muster_frameworks::kubernetes::{Flavor, USER};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::apps::mark_of;
use crate::ownership;

/// Annotations that contain a copy of the object, and are left out.
const COPIES: [&str; 2] =
    ["kubectl.kubernetes.io/last-applied-configuration", "kopf.zalando.org/last-handled-configuration"];

/// The content of a root object, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RootContent {
    digest: String,
    json: Arc<str>,
}

impl RootContent {
    /// Reads a root object. Of flavors whose objects no API shows, only labels and annotations are read.
    pub(crate) fn read(flavor: &dyn Flavor, root: &Value) -> Self {
        let user_metadata = || {
            let metadata = &root["metadata"];
            // Every write of Muster changes its own annotations, which is no change of the content.
            let mut annotations = metadata["annotations"].clone();
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.retain(|key, _| !ownership::is_own_annotation(key));
            }
            json!({"metadata": {"labels": metadata["labels"], "annotations": annotations}})
        };
        let json = if flavor.shows_root() { flavor.root_view(root) } else { user_metadata() }.to_string();
        let digest = format!("{:.32}", format!("{:x}", Sha256::digest(&json)));
        Self { digest, json: json.into() }
    }

    /// Returns a hash of the content.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the content for the row of the cluster.
    pub(crate) fn parse(&self, flavor: &dyn Flavor) -> ObjectContent {
        let object: Value = serde_json::from_str(&self.json).unwrap_or_default();
        let mut labels = texts(&object["metadata"]["labels"]);
        labels.remove(ownership::CLUSTER);
        let mut annotations = texts(&object["metadata"]["annotations"]);
        annotations.retain(|key, _| !COPIES.contains(&key.as_str()) && !ownership::is_own_annotation(key));
        ObjectContent {
            ephemeral: mark_of(&object),
            digest: self.digest.clone(),
            owner: flavor.owner(&labels),
            user: annotations.get(USER).cloned().unwrap_or_else(|| flavor.user(&labels)),
            labels,
            annotations,
            shown: flavor.shows_root().then_some(object),
        }
    }
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The content of the objects that changed last.
#[derive(Default)]
pub(crate) struct RecentContents {
    by_uid: HashMap<String, RecentContent>,
    /// The UID of each cached content by its number, the oldest first.
    order: BTreeMap<u64, String>,
    inserted: u64,
    bytes: usize,
}

struct RecentContent {
    number: u64,
    content: RootContent,
}

impl RecentContents {
    const MAX_BYTES: usize = 2 << 20;

    pub(crate) fn insert(&mut self, uid: &str, content: RootContent) {
        if self.get(uid, &content.digest).is_some() {
            return;
        }
        self.remove(uid);
        self.inserted += 1;
        self.bytes += content.json.len();
        self.order.insert(self.inserted, uid.to_owned());
        self.by_uid.insert(uid.to_owned(), RecentContent { number: self.inserted, content });
        while self.bytes > Self::MAX_BYTES
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.remove(&oldest);
        }
    }

    /// Returns the content of an object, if it is cached and has this digest.
    pub(crate) fn get(&self, uid: &str, digest: &str) -> Option<RootContent> {
        let content = self.by_uid.get(uid).map(|recent| &recent.content);
        content.filter(|content| content.digest == digest).cloned()
    }

    pub(crate) fn remove(&mut self, uid: &str) {
        if let Some(RecentContent { number, content }) = self.by_uid.remove(uid) {
            self.order.remove(&number);
            self.bytes -= content.json.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_frameworks::kubernetes::flavors;

    use super::*;

    fn flavor(name: &str) -> &'static dyn Flavor {
        *flavors().iter().find(|flavor| flavor.name() == name).expect("the flavor exists")
    }

    fn root(user: &str, version: u32) -> Value {
        json!({
            "apiVersion": "ray.io/v1", "kind": "RayCluster",
            "metadata": {
                "name": "fred", "namespace": "demo", "uid": "u", "resourceVersion": version.to_string(),
                "managedFields": [{"manager": "m"}],
                "labels": {"ray.io/user": user, "muster.dev/cluster": "c"},
                "annotations": {"note": "n", "muster.dev/fence": "f/1"},
            },
            "spec": {"rayVersion": "2.46.0"},
            "status": {"state": "ready", "endpoints": {"head": "10001"}, "lastUpdateTime": version.to_string()},
        })
    }

    #[test]
    fn a_ray_cluster_is_shown_without_what_changes_all_the_time() {
        let kuberay = flavor("kuberay");
        let content = RootContent::read(kuberay, &root("ada", 1));
        assert_eq!(content, RootContent::read(kuberay, &root("ada", 2)));
        assert_ne!(content.digest(), RootContent::read(kuberay, &root("bob", 1)).digest());
        let parsed = content.parse(kuberay);
        let shown = parsed.shown.expect("it is shown");
        assert_eq!(shown["status"], json!({"state": "ready", "endpoints": {"head": "10001"}}));
        assert_eq!(
            (&shown["spec"]["rayVersion"], shown["metadata"].get("managedFields")),
            (&json!("2.46.0"), None)
        );
        assert_eq!((parsed.user.as_str(), parsed.owner.id.as_str()), ("ada", "ada"));
        assert_eq!(parsed.labels, BTreeMap::from([("ray.io/user".to_owned(), "ada".to_owned())]));
        assert_eq!(parsed.annotations, BTreeMap::from([("note".to_owned(), "n".to_owned())]));
    }

    #[test]
    fn a_domino_cluster_is_shown_whole() {
        let domino = flavor("domino");
        let shown = RootContent::read(domino, &root("ada", 7)).parse(domino).shown.expect("it is shown");
        let mut expected = root("ada", 7);
        expected["metadata"].as_object_mut().expect("metadata").remove("managedFields");
        assert_eq!(shown, expected);
    }

    #[test]
    fn of_other_flavors_only_labels_and_annotations_count() {
        let dask = flavor("dask-operator");
        let (one, mut other) = (root("ada", 1), root("ada", 2));
        other["spec"]["worker"] = json!({"replicas": 7});
        assert_eq!(RootContent::read(dask, &one), RootContent::read(dask, &other));
        let parsed = RootContent::read(dask, &one).parse(dask);
        assert_eq!((parsed.shown, parsed.labels.len()), (None, 1));
    }

    #[test]
    fn the_oldest_content_is_removed_first() {
        let mut recent = RecentContents::default();
        let content = |digest: &str, bytes: usize| RootContent {
            digest: digest.into(),
            json: "x".repeat(bytes).into(),
        };
        let half = RecentContents::MAX_BYTES / 2;
        recent.insert("a", content("a1", half));
        recent.insert("b", content("b1", half));
        recent.insert("a", content("a2", 1));
        assert!(recent.get("a", "a1").is_none());
        recent.insert("c", content("c1", half));
        let cached = [recent.get("a", "a2"), recent.get("b", "b1"), recent.get("c", "c1")]
            .map(|found| found.is_some());
        assert_eq!(cached, [true, false, true]);
        recent.remove("c");
        assert_eq!(recent.bytes, 1);
    }

    #[test]
    fn a_content_that_is_replaced_or_removed_leaves_nothing() {
        let mut recent = RecentContents::default();
        for version in 1..=100 {
            recent.insert("a", RootContent::read(flavor("kuberay"), &root(&version.to_string(), version)));
        }
        assert_eq!((recent.by_uid.len(), recent.order.len()), (1, 1));
        recent.remove("a");
        assert_eq!((recent.by_uid.len(), recent.order.len(), recent.bytes), (0, 0, 0));
    }
}
