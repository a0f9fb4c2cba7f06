//! Settings of the autoscaler that runs in a cluster; ignored for local processes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::pod::{EnvSource, Mount};
use crate::quantity::{Cpu, Memory};

/// The upscaling modes of Ray's autoscaler.
pub const UPSCALING_MODES: &[&str] = &["Default", "Aggressive", "Conservative"];

/// An autoscaler in the cluster, which decides the sizes of the groups within their bounds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Autoscaler {
    /// The time after which an idle worker is removed, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<u32>,
    /// The upscaling mode, one of [`UPSCALING_MODES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upscaling_mode: Option<String>,
    /// The image of its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The pull policy of that image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Cpu of its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Memory of its container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Environment variables of its container.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The `ConfigMap`s and Secrets whose keys become variables of its container.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<EnvSource>,
    /// The mounts of its container; the volumes belong to the pod of the head.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Mount>,
}
