//! Questions that only a provider can answer, and that change nothing.

use std::collections::BTreeMap;

use futures::stream::BoxStream;
use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_core::node::Node;
use muster_store::StoreError;
use serde_json::{Map, Value};

use crate::engine::Engine;
use crate::orphan;
use crate::provider::{Call, LogQuery, ProviderError};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum InquiryError {
    /// The database does not answer, or has no such recipe.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another server is nearer to it.
    #[error("this server does not serve '{0}': ask the server that does")]
    NotServed(String),
    /// The provider says no.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// Lines of a log, as they come.
pub type Lines = BoxStream<'static, Result<String, ProviderError>>;

impl Engine {
    /// What a node wrote.
    pub async fn logs(&self, cluster: &Cluster, node: &Node, query: LogQuery) -> Result<Lines, InquiryError> {
        let (provider, profile) = self.source(cluster).await?;
        let call = Call { cluster, profile: &profile, fence: Fence(0) };
        Ok(provider.logs(call, node, query).await?)
    }

    /// What programs that use a cluster need in their environment.
    pub async fn environment(&self, cluster: &Cluster) -> Result<BTreeMap<String, String>, InquiryError> {
        let (provider, profile) = self.source(cluster).await?;
        let call = Call { cluster, profile: &profile, fence: Fence(0) };
        let mut variables = provider.environment(call).await?;
        variables.insert("MUSTER_CLUSTER".to_owned(), cluster.name.clone());
        Ok(variables)
    }

    /// What its provider says of a node, in words of its own.
    pub async fn details(&self, node: &Node) -> Result<Map<String, Value>, InquiryError> {
        let missing = || StoreError::NotFound { kind: "profile", given: node.profile_id.to_string() };
        let profile = self.store().profile(node.profile_id).await?.ok_or_else(missing)?;
        let cluster = match node.cluster_id {
            Some(id) => self.store().cluster(id).await?,
            None => None,
        };
        let cluster = cluster.unwrap_or_else(|| orphan::cluster(node, &profile));
        let not_served = || InquiryError::NotServed(node.instance.to_string());
        let provider = self.provider(&node.instance).ok_or_else(not_served)?;
        let call = Call { cluster: &cluster, profile: &profile, fence: Fence(0) };
        Ok(provider.details(call, node).await?)
    }

    async fn source(
        &self,
        cluster: &Cluster,
    ) -> Result<(std::sync::Arc<dyn crate::provider::Provider>, muster_core::profile::Profile), InquiryError>
    {
        let not_served = || InquiryError::NotServed(cluster.instance.to_string());
        let provider = self.provider(&cluster.instance).ok_or_else(not_served)?;
        let missing = || StoreError::NotFound { kind: "profile", given: cluster.profile_id.to_string() };
        let profile = self.store().profile(cluster.profile_id).await?.ok_or_else(missing)?;
        Ok((provider, profile))
    }
}
