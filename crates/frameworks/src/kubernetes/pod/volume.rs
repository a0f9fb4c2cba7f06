//! Volumes and volume mounts of a pod.

use std::collections::BTreeMap;

use muster_core::recipe::{Mount, Volume};
use serde_json::{Value, json};

/// Returns the volume of a pod.
pub(super) fn volume(mount: &Mount) -> Value {
    let mut volume = match &mount.of {
        Volume::Claim(claim) => {
            json!({"persistentVolumeClaim": {"claimName": claim, "readOnly": mount.read_only}})
        }
        Volume::HostPath { path, file } => {
            let kind = if *file { "File" } else { "Directory" };
            json!({"hostPath": {"path": path, "type": kind}})
        }
        Volume::Ephemeral { storage, class, access } => ephemeral(storage, class.as_deref(), access),
        Volume::ConfigMap { name, items } => json!({"configMap": with_items(json!({"name": name}), items)}),
        Volume::Secret { name, items } => json!({"secret": with_items(json!({"secretName": name}), items)}),
        Volume::EmptyDir { limit: None } => json!({"emptyDir": {}}),
        Volume::EmptyDir { limit: Some(limit) } => json!({"emptyDir": {"sizeLimit": limit}}),
    };
    volume["name"] = mount.name.clone().into();
    volume
}

/// The mount of a volume in a container.
pub(in crate::kubernetes) fn mount(mount: &Mount) -> Value {
    let mut place = json!({"name": mount.name, "mountPath": mount.path, "readOnly": mount.read_only});
    if let Some(propagation) = &mount.propagation {
        place["mountPropagation"] = propagation.clone().into();
    }
    place
}

fn ephemeral(storage: &str, class: Option<&str>, access: &str) -> Value {
    let mut spec = json!({"accessModes": [access], "resources": {"requests": {"storage": storage}}});
    if let Some(class) = class {
        spec["storageClassName"] = class.into();
    }
    // KubeRay's own API server sets this label.
    let metadata = json!({"labels": {"app.kubernetes.io/managed-by": "kuberay-apiserver"}});
    json!({"ephemeral": {"volumeClaimTemplate": {"metadata": metadata, "spec": spec}}})
}

fn with_items(mut source: Value, items: &BTreeMap<String, String>) -> Value {
    if !items.is_empty() {
        source["items"] = items.iter().map(|(key, path)| json!({"key": key, "path": path})).collect();
    }
    source
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::claim(Volume::Claim("data".into()), json!({"persistentVolumeClaim": {"claimName": "data", "readOnly": true}}))]
    #[case::folder(Volume::HostPath { path: "/srv".into(), file: false }, json!({"hostPath": {"path": "/srv", "type": "Directory"}}))]
    #[case::some_keys(
        Volume::Secret { name: "s".into(), items: BTreeMap::from([("b".into(), "2".into()), ("a".into(), "1".into())]) },
        json!({"secret": {"secretName": "s", "items": [{"key": "a", "path": "1"}, {"key": "b", "path": "2"}]}}),
    )]
    #[case::all_keys(Volume::ConfigMap { name: "c".into(), items: BTreeMap::new() }, json!({"configMap": {"name": "c"}}))]
    #[case::empty(Volume::EmptyDir { limit: Some("1Gi".into()) }, json!({"emptyDir": {"sizeLimit": "1Gi"}}))]
    #[case::ephemeral(
        Volume::Ephemeral { storage: "5Gi".into(), class: Some("fast".into()), access: "ReadWriteOnce".into() },
        json!({"ephemeral": {"volumeClaimTemplate": {
            "metadata": {"labels": {"app.kubernetes.io/managed-by": "kuberay-apiserver"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}},
        }}}),
    )]
    fn a_volume_has_its_source_and_name(#[case] of: Volume, #[case] mut written: Value) {
        written["name"] = "v".into();
        let mount = Mount { name: "v".into(), path: "/mnt".into(), read_only: true, propagation: None, of };
        assert_eq!(volume(&mount), written);
        assert_eq!(super::mount(&mount), json!({"name": "v", "mountPath": "/mnt", "readOnly": true}));
    }
}
