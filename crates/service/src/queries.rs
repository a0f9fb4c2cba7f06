//! Reads through the engine and its providers, and signals to actions.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use muster_core::action::Action;
use muster_core::capacity::Capacity;
use muster_core::change::ClusterUpdate;
use muster_core::cluster::Cluster;
use muster_core::ids::{ActionId, ClusterId, InstanceId, NodeId};
use muster_core::node::Node;
use muster_core::profile::ProfileType;
use muster_core::time::{TimeSpan, Timestamp};
use muster_engine::ports::provider::{LogLines, LogQuery, Operation, StoredLog};
use muster_engine::{Caller, UpdatePreview};
use muster_store::commands::SignalKind;
use serde_json::{Map, Value};

use crate::error::ServiceError;
use crate::service::Service;
use crate::unobserved::UnobservedClusters;

impl Service {
    /// The time by the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.engine.now()
    }

    /// The time for which history is retained.
    pub fn retention(&self) -> TimeSpan {
        self.engine.config().retention
    }

    /// The provider instances that this server serves.
    pub fn instances(&self) -> Vec<InstanceId> {
        self.engine.instances()
    }

    /// The capacity of each instance whose provider has a limited one, sorted by id.
    pub fn capacities(&self) -> Vec<(InstanceId, Capacity)> {
        let mut instances = self.instances();
        instances.sort_by(|left, right| left.as_str().cmp(right.as_str()));
        let capacity = |id: &InstanceId| self.engine.provider(id)?.capacity();
        instances.into_iter().filter_map(|id| capacity(&id).map(|capacity| (id, capacity))).collect()
    }

    /// The clusters that cannot be observed at present, with the reasons.
    pub fn unobserved(&self) -> UnobservedClusters {
        let of_instance = |id: InstanceId| {
            let unobserved = self.engine.provider(&id).map(|provider| provider.unobserved());
            (id, unobserved.unwrap_or_default())
        };
        UnobservedClusters(self.instances().into_iter().map(of_instance).collect())
    }

    /// The operations that nodes of a type support at an instance.
    pub fn operations(&self, instance: &InstanceId, kind: &ProfileType) -> Vec<Operation> {
        self.engine.provider(instance).map(|provider| provider.operations(kind)).unwrap_or_default()
    }

    /// The log of a node.
    pub async fn logs(
        &self,
        cluster: &Cluster,
        node: &Node,
        query: LogQuery,
    ) -> Result<LogLines, ServiceError> {
        Ok(self.engine.logs(cluster, node, query).await?)
    }

    /// The nodes that an update would replace.
    pub async fn preview_update(
        &self,
        cluster: &Cluster,
        update: ClusterUpdate,
    ) -> Result<UpdatePreview, ServiceError> {
        Ok(self.engine.preview_update(cluster, update).await?)
    }

    /// The stored logs of the nodes of a deleted cluster.
    pub async fn stored_logs(
        &self,
        cluster: &Cluster,
        query: LogQuery,
    ) -> Result<Vec<StoredLog>, ServiceError> {
        Ok(self.engine.stored_logs(cluster, query).await?)
    }

    /// The environment variables that programs need to use a cluster.
    pub async fn environment(&self, cluster: &Cluster) -> Result<BTreeMap<String, String>, ServiceError> {
        Ok(self.engine.environment(cluster).await?)
    }

    /// The details that the provider reports of a node.
    pub async fn details(&self, node: &Node) -> Result<Map<String, Value>, ServiceError> {
        Ok(self.engine.details(node).await?)
    }

    /// The details that the provider reports of members of a cluster.
    pub async fn details_of(
        &self,
        cluster: &Cluster,
        members: &[Node],
    ) -> Result<HashMap<NodeId, Map<String, Value>>, ServiceError> {
        Ok(self.engine.details_of(cluster, members).await?)
    }

    /// Returns true if an action of a user is running on a cluster or node; healing does not count.
    pub async fn is_changing(
        &self,
        cluster: Option<ClusterId>,
        node: Option<NodeId>,
    ) -> Result<bool, ServiceError> {
        Ok(self.engine.has_user_action(cluster, node).await?)
    }

    /// Cancels, suspends or resumes an action. A repeated request with the same request id has no further effect.
    pub async fn signal(
        &self,
        action: &Action,
        kind: SignalKind,
        caller: Option<&Caller>,
    ) -> Result<Action, ServiceError> {
        Ok(self.engine.signal(action.id, kind, caller).await?)
    }

    /// Completes the lifecycle hook that an action waits for before its node is deleted; idempotent.
    pub async fn complete_lifecycle(&self, token: ActionId) -> Result<Action, ServiceError> {
        Ok(self.engine.complete_lifecycle(token).await?)
    }

    /// Checks that this server can work. The error is the reason: no lease, a failed write, or a database that does
    /// not respond in time.
    pub async fn readiness(&self, at_most: Duration) -> Result<(), String> {
        self.engine.readiness()?;
        if let Some(machines) = &self.machines {
            machines.readiness()?;
        }
        match tokio::time::timeout(at_most, self.store().ping()).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the database did not answer within {} ms", at_most.as_millis())),
        }
    }

    /// Checks that the engine is alive. The error says what has stopped.
    pub fn liveness(&self) -> Result<(), String> {
        self.engine.liveness()
    }

    /// The time since the engine last renewed its lease.
    pub fn lease_age(&self) -> TimeSpan {
        self.engine.lease_age()
    }
}
