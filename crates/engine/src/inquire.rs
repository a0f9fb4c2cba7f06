//! Questions that only a provider can answer, and that change nothing.

use std::collections::BTreeMap;

use futures::stream::BoxStream;
use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_core::node::Node;
use muster_store::StoreError;

use crate::engine::Engine;
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
