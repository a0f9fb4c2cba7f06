//! Reads the pod template of a head or of workers. The first container runs Ray.

use std::collections::BTreeMap;

use muster_proto::v1::env_value_from::Source;
use muster_proto::v1::volume::{AccessMode, HostPathType, MountPropagationMode, VolumeType};
use muster_proto::v1::{Capabilities, EnvValueFrom, EnvironmentVariables, SecurityContext, Volume};
use serde_json::Value;

use super::{flag, list, text, texts};

/// Annotations that platforms and operators write on pods.
const FOREIGN_ANNOTATIONS: &[&str] = &[
    "openshift.io/scc",
    "cni.projectcalico.org/",
    "ray.io/health-state",
    "ray.io/ft-enabled",
    "ray.io/compute-",
    "k8s.v1.cni.cncf.io/",
];

/// Labels that KubeRay writes on pods.
const FOREIGN_LABELS: &[&str] = &[
    "app.kubernetes.io/created-by",
    "app.kubernetes.io/name",
    "ray.io/cluster",
    "ray.io/cluster-dashboard",
    "ray.io/group",
    "ray.io/identifier",
    "ray.io/is-ray-node",
    "ray.io/node-type",
];

/// A pod template.
pub(super) struct Pod<'t> {
    metadata: &'t Value,
    spec: &'t Value,
    container: &'t Value,
}

impl<'t> Pod<'t> {
    pub(super) fn of(template: &'t Value) -> Self {
        let spec = &template["spec"];
        Self { metadata: &template["metadata"], spec, container: &spec["containers"][0] }
    }

    pub(super) fn compute_template(&self) -> String {
        text(&self.metadata["annotations"]["ray.io/compute-template"])
    }

    /// Returns the image that the creator gave in the annotation; empty without it, as the KubeRay API server does.
    pub(super) fn image(&self) -> String {
        text(&self.metadata["annotations"]["ray.io/compute-image"])
    }

    pub(super) fn service_account(&self) -> String {
        text(&self.spec["serviceAccountName"])
    }

    pub(super) fn image_pull_secret(&self) -> String {
        text(&self.spec["imagePullSecrets"][0]["name"])
    }

    pub(super) fn image_pull_policy(&self) -> String {
        let policy = text(&self.container["imagePullPolicy"]);
        if policy == "Always" { policy } else { String::new() }
    }

    pub(super) fn annotations(&self) -> BTreeMap<String, String> {
        let mut annotations = texts(&self.metadata["annotations"]);
        annotations.retain(|name, _| {
            let is_prefix = |foreign: &str| foreign.ends_with(['/', '-']) && name.starts_with(foreign);
            !FOREIGN_ANNOTATIONS.iter().any(|foreign| name == foreign || is_prefix(foreign))
        });
        annotations
    }

    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = texts(&self.metadata["labels"]);
        labels.retain(|name, _| !FOREIGN_LABELS.contains(&name.as_str()));
        labels
    }

    /// Returns the variables, without those that KubeRay sets.
    pub(super) fn environment(&self, reserved: &[&str]) -> EnvironmentVariables {
        let env = &self.container["env"];
        let all = list(env)
            .iter()
            .filter(|variable| !reserved.contains(&variable["name"].as_str().unwrap_or_default()));
        let from =
            all.filter_map(|variable| Some((text(&variable["name"]), source(&variable["valueFrom"])?)));
        EnvironmentVariables { values: values(env, reserved), values_from: from.collect() }
    }

    pub(super) fn security_context(&self) -> Option<SecurityContext> {
        let context = self.container.get("securityContext").filter(|context| context.is_object())?;
        let names = |key: &str| list(&context["capabilities"][key]).iter().map(text).collect();
        let capabilities = Capabilities { add: names("add"), drop: names("drop") };
        Some(SecurityContext {
            capabilities: Some(capabilities),
            privileged: context["privileged"].as_bool(),
        })
    }

    pub(super) fn volumes(&self) -> Vec<Volume> {
        let mounts = list(&self.container["volumeMounts"]);
        let volume = |volume: &Value| {
            let mount = mounts.iter().find(|mount| mount["name"] == volume["name"]);
            self::volume(volume, mount.unwrap_or(&Value::Null))
        };
        list(&self.spec["volumes"]).iter().filter_map(volume).collect()
    }

    /// Returns the volumes that these mounts name.
    pub(super) fn mounted(&self, mounts: &[Value]) -> Vec<Volume> {
        let volumes = list(&self.spec["volumes"]);
        let of = |mount: &Value| volumes.iter().find(|volume| volume["name"] == mount["name"]);
        mounts.iter().filter_map(|mount| volume(of(mount)?, mount)).collect()
    }
}

/// Returns the variables with a literal value.
pub(super) fn values(env: &Value, reserved: &[&str]) -> BTreeMap<String, String> {
    let named = list(env).iter().map(|variable| (text(&variable["name"]), variable));
    let own = named
        .filter(|(name, variable)| !reserved.contains(&name.as_str()) && !variable["valueFrom"].is_object());
    own.map(|(name, variable)| (name, text(&variable["value"]))).collect()
}

fn source(from: &Value) -> Option<EnvValueFrom> {
    let (source, name, key) = if let Some(map) = from.get("configMapKeyRef") {
        (Source::Configmap, &map["name"], &map["key"])
    } else if let Some(secret) = from.get("secretKeyRef") {
        (Source::Secret, &secret["name"], &secret["key"])
    } else if let Some(resource) = from.get("resourceFieldRef") {
        (Source::Resourcefield, &resource["containerName"], &resource["resource"])
    } else {
        (Source::Field, &Value::Null, &from.get("fieldRef")?["fieldPath"])
    };
    Some(EnvValueFrom { source: source.into(), name: text(name), key: text(key) })
}

/// Returns the objects whose keys all become variables, by the name of the object.
pub(super) fn whole_sources(from: &Value) -> BTreeMap<String, EnvValueFrom> {
    let whole = |from: &Value| {
        let (source, object) = match (from.get("configMapRef"), from.get("secretRef")) {
            (Some(map), _) => (Source::Configmap, map),
            (None, Some(secret)) => (Source::Secret, secret),
            (None, None) => return None,
        };
        let name = text(&object["name"]);
        Some((name.clone(), EnvValueFrom { source: source.into(), name, key: String::new() }))
    };
    list(from).iter().filter_map(whole).collect()
}

/// Converts a volume; returns none for a kind that this API does not have.
fn volume(volume: &Value, mount: &Value) -> Option<Volume> {
    let propagation = match mount["mountPropagation"].as_str() {
        Some("HostToContainer") => MountPropagationMode::Hosttocontainer,
        Some("Bidirectional") => MountPropagationMode::Bidirectional,
        _ => MountPropagationMode::None,
    };
    let common = Volume {
        name: text(&volume["name"]),
        mount_path: text(&mount["mountPath"]),
        read_only: flag(&mount["readOnly"]),
        mount_propagation_mode: propagation.into(),
        ..Volume::default()
    };
    let of = |kind: VolumeType, source: &Value, read_only: bool| Volume {
        volume_type: kind.into(),
        source: text(source),
        read_only: common.read_only || read_only,
        ..common.clone()
    };
    if let Some(claim) = volume.get("persistentVolumeClaim") {
        return Some(of(VolumeType::PersistentVolumeClaim, &claim["claimName"], flag(&claim["readOnly"])));
    }
    if let Some(host) = volume.get("hostPath") {
        let kind = if host["type"] == "File" { HostPathType::File } else { HostPathType::Directory };
        return Some(Volume {
            host_path_type: kind.into(),
            ..of(VolumeType::HostPath, &host["path"], false)
        });
    }
    if let Some(map) = volume.get("configMap") {
        return Some(Volume { items: items(map), ..of(VolumeType::Configmap, &map["name"], false) });
    }
    if let Some(secret) = volume.get("secret") {
        return Some(Volume { items: items(secret), ..of(VolumeType::Secret, &secret["secretName"], false) });
    }
    if let Some(folder) = volume.get("emptyDir") {
        let storage = text(&folder["sizeLimit"]);
        return Some(Volume { storage, ..of(VolumeType::EmptyDir, &Value::Null, false) });
    }
    let claim = &volume.get("ephemeral")?["volumeClaimTemplate"]["spec"];
    let access = match claim["accessModes"][0].as_str() {
        Some("ReadOnlyMany") => AccessMode::Rox,
        Some("ReadWriteMany") => AccessMode::Rwx,
        _ => AccessMode::Rwo,
    };
    Some(Volume {
        storage: text(&claim["resources"]["requests"]["storage"]),
        storage_class_name: text(&claim["storageClassName"]),
        access_mode: access.into(),
        ..of(VolumeType::Ephemeral, &Value::Null, false)
    })
}

fn items(source: &Value) -> BTreeMap<String, String> {
    list(&source["items"]).iter().map(|item| (text(&item["key"]), text(&item["path"]))).collect()
}
