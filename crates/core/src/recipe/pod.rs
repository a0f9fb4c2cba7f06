//! Settings that only pods have; ignored for local processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The types that a Service may have.
pub const SERVICE_TYPES: &[&str] = &["ClusterIP", "NodePort", "LoadBalancer"];

/// The pull policies of images.
pub const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent"];

/// Settings of a node's pod in addition to shape, image and variables of its container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PodRecipe {
    /// The labels of the pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The annotations of the pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The service account that the pod runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// The secret that the image is pulled with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_secret: Option<String>,
    /// The mounts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Mount>,
    /// The start parameters of Ray, as names and values; only for KubeRay.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub start_parameters: BTreeMap<String, String>,
    /// The type of the Service of the head, one of [`SERVICE_TYPES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_type: Option<String>,
    /// The pull policy of the image, one of [`PULL_POLICIES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// The security context of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
    /// Environment variables whose values are in other objects.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env_from: BTreeMap<String, EnvSource>,
}

/// The security context of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SecurityContext {
    /// True if the container is privileged: it has the rights of its machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privileged: Option<bool>,
    /// Linux capabilities that the container gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
    /// Linux capabilities that the container loses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drop: Vec<String>,
}

/// The source of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvSource {
    /// The kind of object.
    pub kind: EnvSourceKind,
    /// The name of the ConfigMap, Secret or container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The key in the ConfigMap or Secret, the resource, or the path of the field.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
}

/// The kind of object that has the value of an environment variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnvSourceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
    /// A resource of a container.
    Resource,
    /// A field of the pod.
    Field,
}

/// A volume, and where it is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// The volume's name.
    pub name: String,
    /// The path of the mount.
    pub path: String,
    /// True if the volume cannot be written.
    #[serde(default)]
    pub read_only: bool,
    /// The mount propagation: `HostToContainer` or `Bidirectional`; none if later mounts are not propagated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagation: Option<String>,
    /// Its source.
    pub of: Volume,
}

/// The source of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Volume {
    /// An existing persistent volume claim.
    Claim(String),
    /// A folder or file of the machine.
    HostPath {
        /// The path on the machine.
        path: String,
        /// True if the path is a file.
        #[serde(default)]
        file: bool,
    },
    /// A claim that is deleted with the pod.
    Ephemeral {
        /// The size.
        storage: String,
        /// The storage class.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        class: Option<String>,
        /// `ReadWriteOnce`, `ReadOnlyMany` or `ReadWriteMany`.
        access: String,
    },
    /// A ConfigMap.
    ConfigMap {
        /// Its name.
        name: String,
        /// The file names of the keys that are mounted; empty stands for all keys.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        items: BTreeMap<String, String>,
    },
    /// A Secret.
    Secret {
        /// Its name.
        name: String,
        /// The file names of the keys that are mounted; empty stands for all keys.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        items: BTreeMap<String, String>,
    },
    /// An empty folder that is deleted with the pod.
    EmptyDir {
        /// The size limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<String>,
    },
}

impl PodRecipe {
    /// Returns true if the recipe sets nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// This recipe, completed by `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            labels: other.labels.into_iter().chain(self.labels).collect(),
            annotations: other.annotations.into_iter().chain(self.annotations).collect(),
            service_account: self.service_account.or(other.service_account),
            image_pull_secret: self.image_pull_secret.or(other.image_pull_secret),
            volumes: if self.volumes.is_empty() { other.volumes } else { self.volumes },
            start_parameters: other.start_parameters.into_iter().chain(self.start_parameters).collect(),
            service_type: self.service_type.or(other.service_type),
            image_pull_policy: self.image_pull_policy.or(other.image_pull_policy),
            security_context: self.security_context.or(other.security_context),
            env_from: other.env_from.into_iter().chain(self.env_from).collect(),
        }
    }
}
