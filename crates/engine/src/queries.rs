//! Reads that only a provider can answer.

use std::collections::{BTreeMap, HashMap};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use muster_core::cluster::Cluster;
use muster_core::ids::{NodeId, ProfileId};
use muster_core::node::Node;
use muster_core::profile::Profile;
use muster_store::StoreError;
use serde_json::{Map, Value};

use crate::context::Engine;
use crate::intent::orphan;
use crate::ports::provider::{ClusterTarget, LogQuery, ProviderError};

/// The purpose of the address that programs connect to.
const ADDRESS: &str = "address";

/// Concurrent requests to the provider.
const MAX_CONCURRENT: usize = 16;

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The database is unavailable, or has no such profile.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another server serves the instance.
    #[error("this server does not serve '{0}': ask the server that does")]
    NotServed(String),
    /// The provider failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// Lines of a log, as they come.
pub type LogLines = BoxStream<'static, Result<String, ProviderError>>;

/// Details of a node.
type Details = Result<Map<String, Value>, ProviderError>;

impl Engine {
    /// A node's log.
    pub async fn logs(
        &self,
        cluster: &Cluster,
        node: &Node,
        query: LogQuery,
    ) -> Result<LogLines, QueryError> {
        let (provider, profile) = self.provider_and_profile(cluster).await?;
        let target = ClusterTarget { cluster, profile: &profile };
        Ok(provider.logs(target, node, query).await?)
    }

    /// The environment variables of programs that use a cluster.
    pub async fn environment(&self, cluster: &Cluster) -> Result<BTreeMap<String, String>, QueryError> {
        let (provider, profile) = self.provider_and_profile(cluster).await?;
        let target = ClusterTarget { cluster, profile: &profile };
        let mut variables = provider.environment(target).await?;
        variables.insert("MUSTER_CLUSTER".to_owned(), cluster.name.clone());
        if let Some(address) = cluster.observed.endpoints.get(ADDRESS) {
            variables.insert("MUSTER_ADDRESS".to_owned(), address.clone());
        }
        Ok(variables)
    }

    /// Details of a node, as its provider reports them.
    pub async fn details(&self, node: &Node) -> Result<Map<String, Value>, QueryError> {
        let missing = || StoreError::NotFound { kind: "profile", given: node.profile_id.to_string() };
        let profile = self.store().profile(node.profile_id).await?.ok_or_else(missing)?;
        let cluster = match node.cluster_id {
            Some(id) => self.store().cluster(id).await?,
            None => None,
        };
        let cluster = cluster.unwrap_or_else(|| orphan::cluster(node, &profile, &self.config().projects));
        let not_served = || QueryError::NotServed(node.instance.to_string());
        let provider = self.provider(&node.instance).ok_or_else(not_served)?;
        let target = ClusterTarget { cluster: &cluster, profile: &profile };
        Ok(provider.details(target, node).await?)
    }

    /// The details of members of a cluster; members whose details cannot be read are left out.
    pub async fn details_of(
        &self,
        cluster: &Cluster,
        members: &[Node],
    ) -> Result<HashMap<NodeId, Map<String, Value>>, QueryError> {
        let not_served = || QueryError::NotServed(cluster.instance.to_string());
        let provider = self.provider(&cluster.instance).ok_or_else(not_served)?;
        let mut recipes: Vec<ProfileId> = members.iter().map(|node| node.profile_id).collect();
        recipes.sort_unstable();
        recipes.dedup();
        let recipes: HashMap<ProfileId, Profile> = self
            .store()
            .profiles_of(&recipes)
            .await?
            .into_iter()
            .map(|profile| (profile.id, profile))
            .collect();
        let mut queries: Vec<BoxFuture<'_, (NodeId, Details)>> = Vec::new();
        for node in members.iter().filter(|node| node.physical_id.is_some()) {
            let Some(profile) = recipes.get(&node.profile_id) else { continue };
            let (target, provider) = (ClusterTarget { cluster, profile }, &provider);
            queries.push(Box::pin(async move { (node.id, provider.details(target, node).await) }));
        }
        let mut answers = futures::stream::iter(queries).buffer_unordered(MAX_CONCURRENT);
        let mut all = HashMap::new();
        while let Some((id, details)) = answers.next().await {
            match details {
                Ok(details) => drop(all.insert(id, details)),
                Err(error) => tracing::info!(node = %id, %error, "there are no details"),
            }
        }
        Ok(all)
    }

    async fn provider_and_profile(
        &self,
        cluster: &Cluster,
    ) -> Result<(std::sync::Arc<dyn crate::ports::provider::Provider>, Profile), QueryError> {
        let not_served = || QueryError::NotServed(cluster.instance.to_string());
        let provider = self.provider(&cluster.instance).ok_or_else(not_served)?;
        let missing = || StoreError::NotFound { kind: "profile", given: cluster.profile_id.to_string() };
        let profile = self.store().profile(cluster.profile_id).await?.ok_or_else(missing)?;
        Ok((provider, profile))
    }
}
