//! The parts of a cluster that the pod of a client, such as a job, is created from: the head's pod, and the token.

use muster_core::cluster::Cluster;
use muster_core::node::{NodeRole, Observation};
use muster_engine::ports::provider::ProviderError;
use muster_frameworks::kubernetes::POD;
use serde_json::Value;

use super::OperatorClusters;
use super::cluster_location::ClusterLocation;
use crate::projection::ClusterPod;

/// The parts of a cluster that the pod of a client is created from.
pub(crate) struct ClientSource {
    /// The pod of the head.
    pub(crate) head: Value,
    /// The framework's own token, if it has one.
    pub(crate) token: Option<TokenSource>,
}

/// The framework's own token, and the Secret that has it.
pub(crate) struct TokenSource {
    /// The name of the Secret.
    pub(crate) secret: String,
    /// The key in the Secret.
    pub(crate) key: &'static str,
    /// The token itself.
    pub(crate) value: String,
}

impl OperatorClusters {
    /// Reads the head and the token of a cluster; an error while the cluster has no head.
    pub(crate) async fn client_source(&self, cluster: &Cluster) -> Result<ClientSource, ProviderError> {
        let location = self.locate(cluster)?;
        let cached = location.snapshot()?;
        let is_head = |pod: &&ClusterPod| {
            pod.member.role == NodeRole::Head
                && !pod.leaving
                && !matches!(pod.observation, Observation::Exited { .. })
        };
        let no_head = || {
            ProviderError::transient("NoHead", format!("cluster '{}' has no head at present", cluster.name))
        };
        let head = cached.pods().find(is_head).ok_or_else(no_head)?;
        let namespace = &location.key.namespace;
        let head = self.writer.read_object(&POD, namespace, &head.name).await?.ok_or_else(no_head)?;
        let token = self.token_source(&location).await?;
        Ok(ClientSource { head, token })
    }

    async fn token_source(&self, location: &ClusterLocation) -> Result<Option<TokenSource>, ProviderError> {
        let Some((secret, key)) = location.flavor.token_secret(&location.key.name) else { return Ok(None) };
        let value = self.writer.read_secret(&location.key.namespace, &secret, key).await?;
        Ok(value.map(|value| TokenSource { secret, key, value }))
    }

    /// Returns the framework's own token of a cluster, if it has one.
    pub(super) async fn read_token(
        &self,
        location: &ClusterLocation,
    ) -> Result<Option<String>, ProviderError> {
        Ok(self.token_source(location).await?.map(|source| source.value))
    }

    /// Returns the last warning of Kubernetes about the object with this UID.
    pub(crate) fn last_warning(&self, uid: &str) -> Option<String> {
        let mut events = self.installed.events.events_about(uid).into_iter().rev();
        let warning = events.find(|event| event.is_warning)?;
        Some(format!("{}: {}", warning.reason, warning.message))
    }
}
