//! The content of root objects that rows follow and that APIs show.
//!
//! Only its digest is kept with the facts of an object. The content itself is needed once after each change: that of the
//! objects that changed last is at hand, any other is read again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use muster_engine::ports::provider::ObjectContent;
use muster_frameworks::kubernetes::{Flavor, USER};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::apps::mark_of;
use crate::marks;

/// Annotations that are larger than what they are about.
const TOO_MUCH: [&str; 2] =
    ["kubectl.kubernetes.io/last-applied-configuration", "kopf.zalando.org/last-handled-configuration"];

/// The content of a root object, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    digest: String,
    json: Arc<str>,
}

impl Content {
    /// Reads a root object of a flavor. Of one that no API shows, only labels and annotations count.
    pub(crate) fn read(flavor: &dyn Flavor, root: &Value) -> Self {
        let marks = || {
            let metadata = &root["metadata"];
            // What every write of Muster changes would make every write a change of the content.
            let mut annotations = metadata["annotations"].clone();
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.retain(|key, _| !marks::is_ours(key));
            }
            json!({"metadata": {"labels": metadata["labels"], "annotations": annotations}})
        };
        let json = if flavor.is_shown() { flavor.shown(root) } else { marks() }.to_string();
        let digest = format!("{:.32}", format!("{:x}", Sha256::digest(&json)));
        Self { digest, json: json.into() }
    }

    /// Differs whenever the content does.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// What a row takes over of it.
    pub(crate) fn parse(&self, flavor: &dyn Flavor) -> ObjectContent {
        let object: Value = serde_json::from_str(&self.json).unwrap_or_default();
        let mut labels = texts(&object["metadata"]["labels"]);
        labels.remove(marks::CLUSTER);
        let mut annotations = texts(&object["metadata"]["annotations"]);
        annotations.retain(|key, _| !TOO_MUCH.contains(&key.as_str()) && !marks::is_ours(key));
        ObjectContent {
            ephemeral: mark_of(&labels, &annotations),
            digest: self.digest.clone(),
            owner: flavor.owner(&labels),
            user: annotations.get(USER).cloned().unwrap_or_else(|| flavor.user(&labels)),
            labels,
            annotations,
            shown: flavor.is_shown().then_some(object),
        }
    }
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The content of the objects that changed last.
#[derive(Default)]
pub(crate) struct RecentContent {
    by_uid: HashMap<String, Content>,
    /// By UID and digest, the oldest first.
    order: VecDeque<(String, String)>,
    bytes: usize,
}

impl RecentContent {
    /// How much is kept at most, in bytes.
    const MOST: usize = 2 << 20;

    pub(crate) fn add(&mut self, uid: &str, content: Content) {
        if self.by_uid.get(uid).is_some_and(|known| known.digest == content.digest) {
            return;
        }
        self.bytes += content.json.len();
        self.order.push_back((uid.to_owned(), content.digest.clone()));
        if let Some(before) = self.by_uid.insert(uid.to_owned(), content) {
            self.bytes -= before.json.len();
        }
        while self.bytes > Self::MOST
            && let Some((uid, digest)) = self.order.pop_front()
        {
            // A later content of the same object stands further behind.
            if self.by_uid.get(&uid).is_some_and(|known| known.digest == digest)
                && let Some(oldest) = self.by_uid.remove(&uid)
            {
                self.bytes -= oldest.json.len();
            }
        }
    }

    /// The content of an object, if it is at hand and has this digest.
    pub(crate) fn get(&self, uid: &str, digest: &str) -> Option<Content> {
        self.by_uid.get(uid).filter(|content| content.digest == digest).cloned()
    }

    /// Forgets the content of an object that is gone.
    pub(crate) fn remove(&mut self, uid: &str) {
        if let Some(gone) = self.by_uid.remove(uid) {
            self.bytes -= gone.json.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_frameworks::kubernetes::flavors;

    use super::*;

    fn flavor(name: &str) -> &'static dyn Flavor {
        *flavors().iter().find(|flavor| flavor.name() == name).expect("it is known")
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
        let content = Content::read(kuberay, &root("ada", 1));
        assert_eq!(content, Content::read(kuberay, &root("ada", 2)));
        assert_ne!(content.digest(), Content::read(kuberay, &root("bob", 1)).digest());
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
        let shown = Content::read(domino, &root("ada", 7)).parse(domino).shown.expect("it is shown");
        let mut expected = root("ada", 7);
        expected["metadata"].as_object_mut().expect("metadata").remove("managedFields");
        assert_eq!(shown, expected);
    }

    #[test]
    fn of_others_only_labels_and_annotations_count() {
        let dask = flavor("dask-operator");
        let (one, mut other) = (root("ada", 1), root("ada", 2));
        other["spec"]["worker"] = json!({"replicas": 7});
        assert_eq!(Content::read(dask, &one), Content::read(dask, &other));
        let parsed = Content::read(dask, &one).parse(dask);
        assert_eq!((parsed.shown, parsed.labels.len()), (None, 1));
    }

    #[test]
    fn the_oldest_content_is_forgotten_first() {
        let mut recent = RecentContent::default();
        let content =
            |digest: &str, bytes: usize| Content { digest: digest.into(), json: "x".repeat(bytes).into() };
        let half = RecentContent::MOST / 2;
        recent.add("a", content("a1", half));
        recent.add("b", content("b1", half));
        recent.add("a", content("a2", 1));
        assert!(recent.get("a", "a1").is_none());
        recent.add("c", content("c1", half));
        let there = [recent.get("a", "a2"), recent.get("b", "b1"), recent.get("c", "c1")]
            .map(|found| found.is_some());
        assert_eq!(there, [true, false, true]);
        recent.remove("c");
        assert_eq!(recent.bytes, 1);
    }
}
