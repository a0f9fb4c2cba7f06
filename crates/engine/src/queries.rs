//! Reads that only a provider can answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use muster_core::change::{Change, ClusterUpdate};
use muster_core::cluster::Cluster;
use muster_core::ids::{NodeId, ProfileId};
use muster_core::job::Job;
use muster_core::limits::Activity;
use muster_core::node::Node;
use muster_core::profile::Profile;
use muster_store::StoreError;
use serde_json::{Map, Value};

use crate::context::Engine;
use crate::intent::recipe::{RecipeChange, Replacement};
use crate::intent::{orphan, properties_after};
use crate::ports::jobs::JobLog;
use crate::ports::node_meter::NodeUsage;
use crate::ports::provider::activity::query_activity;
use crate::ports::provider::environment::client_environment;
use crate::ports::provider::{ClusterTarget, LogLines, LogQuery, Provider, ProviderError, StoredLog};

/// The maximum of concurrent requests to the provider.
const MAX_CONCURRENT: usize = 16;

/// The error of a query.
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

/// The predicted effect of an update on the nodes of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdatePreview {
    /// The names of the nodes that are replaced.
    pub replaced: Vec<String>,
    /// True if the head is one of the replaced nodes.
    pub replaces_head: bool,
    /// The names of the nodes that run with an older recipe afterwards.
    pub outdated: Vec<String>,
}

/// The details of a node, or the error of its provider.
type Details = Result<Map<String, Value>, ProviderError>;

impl Engine {
    /// Returns the log of a node.
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

    /// Predicts from the current rows which nodes of a cluster an update would replace.
    pub async fn preview_update(
        &self,
        cluster: &Cluster,
        update: ClusterUpdate,
    ) -> Result<UpdatePreview, QueryError> {
        let (provider, profile) = match self.provider_and_profile(cluster).await {
            Ok(found) => found,
            // Only the server of the instance can predict this; an unknown effect is no reason to refuse the update.
            Err(QueryError::NotServed(_)) => return Ok(UpdatePreview::default()),
            Err(error) => return Err(error),
        };
        let flavor = cluster.flavor.as_deref();
        let Some(capabilities) = provider.capabilities(&profile.kind, flavor) else {
            return Ok(UpdatePreview::default());
        };
        let nodes = self.store().members(cluster.id).await?;
        let restart = update.restart;
        let after = properties_after(cluster, &Change::UpdateCluster(Box::new(update)));
        // An update that can never be applied replaces no node.
        let after = after.unwrap_or_else(|_| cluster.clone());
        let change = RecipeChange::between((cluster, &profile), (&after, &profile));
        let decided = Replacement::decide(&change, &nodes, restart, &capabilities);
        let names = |ids: &[NodeId]| {
            nodes.iter().filter(|node| ids.contains(&node.id)).map(|node| node.name.clone()).collect()
        };
        Ok(UpdatePreview {
            replaced: names(&decided.replaced),
            replaces_head: decided.head,
            outdated: names(&decided.outdated),
        })
    }

    /// Returns the stored logs of a deleted cluster.
    pub async fn stored_logs(
        &self,
        cluster: &Cluster,
        query: LogQuery,
    ) -> Result<Vec<StoredLog>, QueryError> {
        let not_served = || QueryError::NotServed(cluster.instance.to_string());
        let provider = self.provider(&cluster.instance).ok_or_else(not_served)?;
        Ok(provider.stored_logs(cluster, query).await?)
    }

    /// Returns the environment variables that programs need to use a cluster.
    pub async fn environment(&self, cluster: &Cluster) -> Result<BTreeMap<String, String>, QueryError> {
        let (provider, profile) = self.provider_and_profile(cluster).await?;
        let target = ClusterTarget { cluster, profile: &profile };
        Ok(client_environment(provider.as_ref(), target).await?)
    }

    /// Queries the framework of a cluster for the present activity.
    pub async fn activity(&self, cluster: &Cluster) -> Result<Activity, QueryError> {
        let (provider, profile) = self.provider_and_profile(cluster).await?;
        let target = ClusterTarget { cluster, profile: &profile };
        Ok(query_activity(provider.as_ref(), target).await)
    }

    /// Measures the cpu and memory that nodes of a cluster use now.
    pub async fn node_usage(
        &self,
        cluster: &Cluster,
        nodes: &[Node],
    ) -> Result<HashMap<NodeId, NodeUsage>, QueryError> {
        let (provider, profile) = self.provider_and_profile(cluster).await?;
        let unmeasured = || {
            let message = format!("the resource usage of nodes of type {} is not measured", profile.kind);
            ProviderError::permanent("NodeUsageUnavailable", message)
        };
        let meter = Arc::clone(&provider).node_meter().ok_or_else(unmeasured)?;
        Ok(meter.measure(ClusterTarget { cluster, profile: &profile }, nodes).await?)
    }

    /// Returns the log of a job.
    pub async fn job_logs(&self, job: &Job, query: LogQuery) -> Result<JobLog, QueryError> {
        let not_served = || QueryError::NotServed(job.instance.to_string());
        let runner = self.provider(&job.instance).and_then(Provider::job_runner).ok_or_else(not_served)?;
        Ok(runner.logs(job, query).await?)
    }

    /// Returns details of a node, as its provider reports them.
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

    /// Returns the details of members of a cluster; members whose details cannot be read are left out.
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
    ) -> Result<(Arc<dyn Provider>, Profile), QueryError> {
        let not_served = || QueryError::NotServed(cluster.instance.to_string());
        let provider = self.provider(&cluster.instance).ok_or_else(not_served)?;
        let missing = || StoreError::NotFound { kind: "profile", given: cluster.profile_id.to_string() };
        let profile = self.store().profile(cluster.profile_id).await?.ok_or_else(missing)?;
        Ok((provider, profile))
    }
}
