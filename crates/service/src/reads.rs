//! Reads objects that belong to an object that the caller may see, and the state of the server itself.

use std::collections::HashMap;

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::ids::{ActionId, ClusterId, ProfileId};
use muster_core::node::Node;
use muster_core::policy::{Binding, Policy};
use muster_core::profile::Profile;
use muster_store::reads::{ActionNames, Edges, EngineRow, OpenJob, RelatedRows};
use muster_store::{Dialect, SCHEMA_VERSION, StoreError};
use serde_json::Value;

use crate::error::ServiceError;
use crate::service::Service;

/// The database of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabaseInfo {
    /// The kind of database: `sqlite` or `postgres`.
    pub kind: &'static str,
    /// The version of the schema.
    pub schema_version: i64,
}

impl Service {
    /// The members of a cluster.
    pub async fn members(&self, cluster: &Cluster) -> Result<Vec<Node>, ServiceError> {
        Ok(self.store().members(cluster.id).await?)
    }

    /// The workers, policies and profile names of clusters.
    pub async fn related_rows(&self, clusters: &[Cluster]) -> Result<RelatedRows, ServiceError> {
        Ok(self.store().related_rows(clusters).await?)
    }

    /// The names of the profiles of nodes.
    pub async fn profile_names(&self, nodes: &[Node]) -> Result<HashMap<ProfileId, String>, ServiceError> {
        Ok(self.store().profile_names(nodes.iter().map(|node| node.profile_id)).await?)
    }

    /// The profile of a cluster or node.
    pub async fn profile(&self, id: ProfileId) -> Result<Option<Profile>, ServiceError> {
        Ok(self.store().profile(id).await?)
    }

    /// The jobs on these clusters that have not ended, the oldest first. Clusters without one are left out.
    pub async fn open_jobs(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Vec<OpenJob>>, ServiceError> {
        Ok(self.store().open_jobs(clusters).await?)
    }

    /// The names of the clusters and nodes that these actions are about.
    pub async fn action_names(
        &self,
        actions: &[ActionId],
    ) -> Result<HashMap<ActionId, ActionNames>, ServiceError> {
        Ok(self.store().action_names(actions).await?)
    }

    /// The stored objects of these clusters, as APIs show them. Clusters without one are left out.
    pub async fn cluster_objects(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Value>, ServiceError> {
        let stored = self.cluster_object_texts(clusters).await?;
        let parse = |(id, json): (ClusterId, String)| {
            let corrupt = |error| StoreError::Corrupt(format!("the object of cluster {id}: {error}"));
            Ok((id, serde_json::from_str(&json).map_err(corrupt)?))
        };
        stored.into_iter().map(parse).collect()
    }

    /// The stored objects of these clusters as JSON texts with sorted keys, for responses that contain them
    /// unchanged.
    pub async fn cluster_object_texts(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, String>, ServiceError> {
        Ok(self.store().cluster_objects(clusters).await?)
    }

    /// The latest events of each of these clusters, the newest first. Events of their nodes are left out.
    pub async fn latest_events(
        &self,
        clusters: &[ClusterId],
        limit: u32,
    ) -> Result<HashMap<ClusterId, Vec<Event>>, ServiceError> {
        Ok(self.store().latest_events(clusters, limit).await?)
    }

    /// The binding of a policy to a cluster, if any.
    pub async fn binding(&self, cluster: &Cluster, policy: &Policy) -> Result<Option<Binding>, ServiceError> {
        Ok(self.store().binding(cluster.id, policy.id).await?)
    }

    /// The actions that each of these actions depends on, and those that depend on it.
    pub async fn dependencies(&self, actions: &[Action]) -> Result<HashMap<ActionId, Edges>, ServiceError> {
        let ids: Vec<ActionId> = actions.iter().map(|action| action.id).collect();
        Ok(self.store().edges(&ids).await?)
    }

    /// The engines, including those whose lease has expired lately.
    pub async fn engines(&self) -> Result<Vec<EngineRow>, ServiceError> {
        Ok(self.store().engines().await?)
    }

    /// The database of this server.
    pub fn database(&self) -> DatabaseInfo {
        let kind = match self.store().dialect() {
            Dialect::Sqlite => "sqlite",
            Dialect::Postgres => "postgres",
        };
        DatabaseInfo { kind, schema_version: SCHEMA_VERSION }
    }
}
