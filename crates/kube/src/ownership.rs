//! The labels, annotations and owner references by which Muster recognises objects that it created.

use std::collections::BTreeMap;

use muster_core::ids::{ClusterId, NodeId};
use serde_json::{Map, Value, json};

use crate::fences::WrittenFence;

/// The label with the id of the cluster that an object was created for.
pub(crate) const CLUSTER: &str = "muster.dev/cluster";

/// The label with the id of the node that a pod was created for.
pub(crate) const NODE: &str = "muster.dev/node";

/// The label with the id of the job whose command a Job and its pod run.
pub(crate) const JOB: &str = "muster.dev/job";

/// The value of the label `NODE` on an adopted pod.
pub(crate) const ADOPTED: &str = "adopted";

/// The annotation with the namespace and name that an object was created under: a copy under another name differs.
pub(crate) const MADE_AS: &str = "muster.dev/made-as";

/// The annotation with the fence of Muster's last write.
pub(crate) const FENCE: &str = "muster.dev/fence";

/// Returns true if an annotation is Muster's own bookkeeping.
pub(crate) fn is_own_annotation(key: &str) -> bool {
    [MADE_AS, FENCE].contains(&key)
}

/// Returns true if Kubernetes, an operator or another program uses this label or annotation. The row of an external
/// cluster has such keys too, and a user who replaces all labels does not mean to remove them.
pub(crate) fn is_reserved_key(key: &str) -> bool {
    const DOMAINS: [&str; 5] = ["kubernetes.io", "k8s.io", "ray.io", "dask.org", "dominodatalab.com"];
    let is_of = |domain: &str, owner: &str| {
        domain == owner || domain.strip_suffix(owner).is_some_and(|sub| sub.ends_with('.'))
    };
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    DOMAINS.iter().any(|owner| is_of(domain, owner)) || key.starts_with("oshinko-")
}

/// Returns the id of the cluster that an object belongs to: the one on its label, or else its own UID, for an external
/// object or a copy of one that Muster created.
pub(crate) fn cluster_of(object: &Value) -> Option<ClusterId> {
    let metadata = &object["metadata"];
    let annotations = &metadata["annotations"];
    let is_original =
        annotations[MADE_AS].as_str() == Some(&made_as(text(metadata, "namespace"), text(metadata, "name")));
    let labelled =
        metadata["labels"][CLUSTER].as_str().filter(|_| is_original).and_then(|id| id.parse().ok());
    labelled.or_else(|| text(metadata, "uid").parse().ok())
}

/// Returns the fence of Muster's last write to an object.
pub(crate) fn fence_of(object: &Value) -> Option<WrittenFence> {
    object["metadata"]["annotations"][FENCE].as_str().map(WrittenFence::new)
}

/// Labels a new object as created for a cluster.
pub(crate) fn mark_object(object: &mut Value, cluster: ClusterId, fence: &WrittenFence) {
    let metadata = &mut object["metadata"];
    let made_as = made_as(text(metadata, "namespace"), text(metadata, "name"));
    add_metadata(metadata, "labels", CLUSTER, cluster.to_string());
    add_metadata(metadata, "annotations", MADE_AS, made_as);
    add_metadata(metadata, "annotations", FENCE, fence.as_str().to_owned());
}

/// Labels a new pod as created for a node.
pub(crate) fn mark_pod(pod: &mut Value, node: NodeId, fence: &WrittenFence) {
    let metadata = &mut pod["metadata"];
    add_metadata(metadata, "labels", NODE, node.to_string());
    add_metadata(metadata, "annotations", FENCE, fence.as_str().to_owned());
}

/// Writes the fence of the creation on a new object.
pub(crate) fn mark_fence(object: &mut Value, fence: &WrittenFence) {
    add_metadata(&mut object["metadata"], "annotations", FENCE, fence.as_str().to_owned());
}

/// Adds the labels and annotations of users, without replacing those that the flavor set.
pub(crate) fn add_user_metadata(
    object: &mut Value,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) {
    for (place, given) in [("labels", labels), ("annotations", annotations)] {
        for (key, value) in given {
            if object["metadata"][place].get(key).is_none() {
                add_metadata(&mut object["metadata"], place, key, value.clone());
            }
        }
    }
}

/// Adds a label or an annotation.
pub(crate) fn add_metadata(metadata: &mut Value, place: &str, key: &str, value: String) {
    match &mut metadata[place] {
        Value::Object(map) => drop(map.insert(key.to_owned(), value.into())),
        other => *other = Value::Object(Map::from_iter([(key.to_owned(), value.into())])),
    }
}

/// Returns the reference to an owner: when the owner is deleted, Kubernetes deletes the object too.
pub(crate) fn owner_reference(owner: &Value) -> Value {
    let metadata = &owner["metadata"];
    json!({
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    })
}

/// Returns true if this object is an owner by its UID: another object may have had its name before.
pub(crate) fn is_owned_by(object: &Value, owner: &Value) -> bool {
    let references = object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    references.iter().any(|reference| reference["uid"] == owner["metadata"]["uid"])
}

/// Returns the operation of a JSON patch that writes a fence, for an object with or without annotations.
pub(crate) fn write_fence(fence: &WrittenFence, has_annotations: bool) -> Value {
    let value = fence.as_str();
    if has_annotations {
        json!({"op": "add", "path": fence_path(), "value": value})
    } else {
        json!({"op": "add", "path": "/metadata/annotations", "value": {FENCE: value}})
    }
}

/// Returns the operation of a JSON patch that fails if the fence has changed.
pub(crate) fn test_fence(fence: &WrittenFence) -> Value {
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
        mark_object(&mut object, id(), &WrittenFence::new("ours/7"));
        object["metadata"]["name"] = name.into();
        object
    }

    #[test]
    fn reserved_keys_are_those_of_kubernetes_and_operators() {
        let reserved =
            ["app.kubernetes.io/managed-by", "ray.io/user", "apps.dominodatalab.com/a", "oshinko-type"];
        assert!(reserved.iter().all(|key| is_reserved_key(key)));
        let of_users = ["team", "example.org/team", "notray.io/a", "ray.io"];
        assert!(!of_users.iter().any(|key| is_reserved_key(key)));
    }

    #[test]
    fn an_object_belongs_to_the_cluster_on_its_label() {
        let object = object("fred");
        assert_eq!((cluster_of(&object), fence_of(&object)), (Some(id()), Some(WrittenFence::new("ours/7"))));
    }

    #[test]
    fn a_copy_under_another_name_is_another_cluster() {
        assert_eq!(cluster_of(&object("copy")), UID.parse().ok());
    }

    #[test]
    fn an_owner_is_not_another_object_of_the_same_name() {
        let owner = |uid: &str| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "fred-m", "uid": uid}});
        let object = json!({"metadata": {"ownerReferences": [owner_reference(&owner("one"))]}});
        let written =
            json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "fred-m", "uid": "one"}]);
        assert_eq!(object["metadata"]["ownerReferences"], written);
        assert!(is_owned_by(&object, &owner("one")));
        assert!(!is_owned_by(&object, &owner("two")));
        assert!(!is_owned_by(&json!({"metadata": {}}), &owner("one")));
    }

    #[test]
    fn an_external_object_is_identified_by_its_uid() {
        let object = json!({"metadata": {"name": "fred", "namespace": "demo", "uid": UID}});
        assert_eq!((cluster_of(&object), fence_of(&object)), (UID.parse().ok(), None));
    }
}
