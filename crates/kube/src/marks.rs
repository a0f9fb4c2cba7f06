//! What Muster writes on objects to know them again.

use std::collections::BTreeMap;

use muster_core::ids::{ClusterId, NodeId};
use serde_json::{Map, Value, json};

use crate::fences::Written;

/// The cluster that an object was made for.
pub(crate) const CLUSTER: &str = "muster.dev/cluster";

/// The node that a pod was made for.
pub(crate) const NODE: &str = "muster.dev/node";

/// What stands there for a node whose pod others made.
pub(crate) const ADOPTED: &str = "adopted";

/// Where it was made, so that a copy under another name is told apart.
pub(crate) const MADE_AS: &str = "muster.dev/made-as";

/// The fence of Muster's last write.
pub(crate) const FENCE: &str = "muster.dev/fence";

/// Whether only Muster writes this.
pub(crate) fn is_ours(key: &str) -> bool {
    [MADE_AS, FENCE].contains(&key)
}

/// Whether Kubernetes, an operator or another program gives this label or annotation a meaning: such a one of an external
/// cluster is in its row, and a user who replaces the others does not mean it.
pub(crate) fn is_of_others(key: &str) -> bool {
    const DOMAINS: [&str; 5] = ["kubernetes.io", "k8s.io", "ray.io", "dask.org", "dominodatalab.com"];
    let is_of = |domain: &str, owner: &str| {
        domain == owner || domain.strip_suffix(owner).is_some_and(|sub| sub.ends_with('.'))
    };
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    DOMAINS.iter().any(|owner| is_of(domain, owner)) || key.starts_with("oshinko-")
}

/// The cluster that an object stands for: the one that it was made for, or one of its own.
///
/// An object that others made, or a copy of one of ours, is known by its UID.
pub(crate) fn cluster_of(object: &Value) -> Option<ClusterId> {
    let metadata = &object["metadata"];
    let annotations = &metadata["annotations"];
    let made_here =
        annotations[MADE_AS].as_str() == Some(&made_as(text(metadata, "namespace"), text(metadata, "name")));
    let ours = metadata["labels"][CLUSTER].as_str().filter(|_| made_here).and_then(|id| id.parse().ok());
    ours.or_else(|| text(metadata, "uid").parse().ok())
}

/// The fence of Muster's last write to an object.
pub(crate) fn fence_of(object: &Value) -> Option<Written> {
    object["metadata"]["annotations"][FENCE].as_str().map(Written::new)
}

/// Marks a new object as made for a cluster.
pub(crate) fn mark(object: &mut Value, cluster: ClusterId, fence: &Written) {
    let metadata = &mut object["metadata"];
    let made_as = made_as(text(metadata, "namespace"), text(metadata, "name"));
    add(metadata, "labels", CLUSTER, cluster.to_string());
    add(metadata, "annotations", MADE_AS, made_as);
    add(metadata, "annotations", FENCE, fence.as_str().to_owned());
}

/// Marks a new pod as made for a node.
pub(crate) fn mark_node(pod: &mut Value, node: NodeId, fence: &Written) {
    let metadata = &mut pod["metadata"];
    add(metadata, "labels", NODE, node.to_string());
    add(metadata, "annotations", FENCE, fence.as_str().to_owned());
}

/// Labels and annotations that users gave, beside those that say what an object is.
pub(crate) fn dress(
    object: &mut Value,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) {
    for (place, given) in [("labels", labels), ("annotations", annotations)] {
        for (key, value) in given {
            if object["metadata"][place].get(key).is_none() {
                add(&mut object["metadata"], place, key, value.clone());
            }
        }
    }
}

/// Adds a label or an annotation.
pub(crate) fn add(metadata: &mut Value, place: &str, key: &str, value: String) {
    match &mut metadata[place] {
        Value::Object(map) => drop(map.insert(key.to_owned(), value.into())),
        other => *other = Value::Object(Map::from_iter([(key.to_owned(), value.into())])),
    }
}

/// What an object says of its owner: when that goes, so does it.
pub(crate) fn reference(owner: &Value) -> Value {
    let metadata = &owner["metadata"];
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    })
}

/// Whether an object goes with just this owner, and not with one that had its name before.
pub(crate) fn goes_with(object: &Value, owner: &Value) -> bool {
    let references = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    references.iter().any(|reference| reference["uid"] == owner["metadata"]["uid"])
}

/// The operation that writes a fence, for an object that has annotations or has none yet.
pub(crate) fn write_fence(fence: &Written, has_annotations: bool) -> Value {
    let value = fence.as_str();
    if has_annotations {
        json!({"op": "add", "path": fence_path(), "value": value})
    } else {
        json!({"op": "add", "path": "/metadata/annotations", "value": {FENCE: value}})
    }
}

/// The operation that wants the fence to be this one still.
pub(crate) fn test_fence(fence: &Written) -> Value {
    json!({"op": "test", "path": fence_path(), "value": fence.as_str()})
}

fn fence_path() -> String {
    format!("/metadata/annotations/{}", FENCE.replace('/', "~1"))
}

fn made_as(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0190f3a2-7b1c-4d4e-8f00-000000000001";

    fn id() -> ClusterId {
        "0190f3a2-7b1c-7d4e-8f00-1234567890ab".parse().expect("an id")
    }

    fn object(name: &str) -> Value {
        let mut object = json!({"metadata": {"name": "fred", "namespace": "demo", "uid": UID}});
        mark(&mut object, id(), &Written::new("ours/7"));
        object["metadata"]["name"] = name.into();
        object
    }

    #[test]
    fn labels_with_a_meaning_to_others_are_told_from_those_of_users() {
        let of_others =
            ["app.kubernetes.io/managed-by", "ray.io/user", "apps.dominodatalab.com/a", "oshinko-type"];
        assert!(of_others.iter().all(|key| is_of_others(key)));
        let of_users = ["team", "example.org/team", "notray.io/a", "ray.io"];
        assert!(!of_users.iter().any(|key| is_of_others(key)));
    }

    #[test]
    fn an_object_is_known_by_what_was_written_on_it() {
        let object = object("fred");
        assert_eq!((cluster_of(&object), fence_of(&object)), (Some(id()), Some(Written::new("ours/7"))));
    }

    #[test]
    fn a_copy_under_another_name_is_a_cluster_of_its_own() {
        assert_eq!(cluster_of(&object("copy")), UID.parse().ok());
    }

    #[test]
    fn an_object_goes_with_its_owner_and_not_with_the_next_of_that_name() {
        let owner = |uid: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "fred-m", "uid": uid}});
        let object = json!({"metadata": {"ownerReferences": [reference(&owner("one"))]}});
        let written =
            json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "fred-m", "uid": "one"}]);
        assert_eq!(object["metadata"]["ownerReferences"], written);
        assert!(goes_with(&object, &owner("one")));
        assert!(!goes_with(&object, &owner("two")));
        assert!(!goes_with(&json!({"metadata": {}}), &owner("one")));
    }

    #[test]
    fn what_others_made_is_known_by_its_uid() {
        let object = json!({"metadata": {"name": "fred", "namespace": "demo", "uid": UID}});
        assert_eq!((cluster_of(&object), fence_of(&object)), (UID.parse().ok(), None));
    }
}
