//! The recorded head of a cluster: its endpoints, ports and secret.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use muster_core::ids::{ClusterId, NodeId};
use muster_core::limits::Activity;
use muster_core::node::{Node, NodeRole};
use muster_engine::ports::provider::{FencedCall, ProviderError};
use muster_frameworks::{Endpoints, HeadAccess, HeadPorts, LocalFramework, Secret};
use serde::{Deserialize, Serialize};

use super::paths::{self, LocalPaths};
use super::{ProcessHost, on_disk, secret};
use crate::files;
use crate::shim::NodeProcessState;

/// The content of `head.json`. The next start of a head uses the same ports, so that clients find it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HeadRecord {
    node: NodeId,
    endpoints: BTreeMap<String, String>,
    ports: HeadPorts,
}

impl HeadRecord {
    pub(super) fn new(node: NodeId, framework: &dyn LocalFramework, endpoints: &Endpoints) -> Self {
        Self { node, ports: framework.reusable_ports(endpoints), endpoints: endpoints.clone().into() }
    }

    pub(super) fn read(paths: &LocalPaths, cluster: ClusterId) -> Option<Self> {
        paths::read_json(&file(paths, cluster))
    }

    pub(super) fn write(&self, paths: &LocalPaths, cluster: ClusterId) -> io::Result<()> {
        files::write(&file(paths, cluster), self)
    }

    pub(super) fn is_node(&self, node: NodeId) -> bool {
        self.node == node
    }

    pub(super) fn endpoints(&self) -> Endpoints {
        self.endpoints.clone().into()
    }

    pub(super) fn into_ports(self) -> HeadPorts {
        self.ports
    }
}

fn file(paths: &LocalPaths, cluster: ClusterId) -> PathBuf {
    paths.cluster(cluster).join("head.json")
}

impl ProcessHost {
    /// Returns the endpoints and secret of the head.
    pub(super) fn known_head(&self, cluster: ClusterId) -> Result<HeadAccess, ProviderError> {
        let unknown = || ProviderError::transient("NoHead", "its head does not answer yet");
        let head = HeadRecord::read(&self.paths, cluster).ok_or_else(unknown)?;
        self.head_access(cluster, head.endpoints())
    }

    /// Returns the endpoints and secret of the head if its process is running: requests to a dead one would only time
    /// out.
    pub(super) fn running_head(&self, cluster: ClusterId) -> Option<HeadAccess> {
        let head = HeadRecord::read(&self.paths, cluster)?;
        let found = self.shims.inspect(&self.paths.node(cluster, head.node)).ok()?;
        if matches!(found, NodeProcessState::Running(_)) {
            self.head_access(cluster, head.endpoints()).ok()
        } else {
            None
        }
    }

    /// Waits until the head of a worker has ended, which includes before the call. Without its head the worker would
    /// never become ready.
    pub(super) async fn wait_for_head_loss(&self, call: FencedCall<'_>, node: &Node) -> ProviderError {
        let head = HeadRecord::read(&self.paths, call.cluster.id).filter(|_| node.role == NodeRole::Worker);
        match head.map(|head| self.shims.inspect(&self.paths.node(call.cluster.id, head.node))) {
            Some(Ok(NodeProcessState::Running(running))) => drop(running.wait_for_exit().await),
            Some(Ok(_)) => {}
            // There is no head, or its state is unknown.
            Some(Err(_)) | None => std::future::pending().await,
        }
        ProviderError::transient("HeadLost", "the head ended during the start of this worker")
    }

    /// Limits an idle time to the uptime of the head, which may not know of work before its start.
    pub(super) fn limit_to_head_uptime(&self, cluster: ClusterId, reported: Activity) -> Activity {
        let started = || {
            let head = HeadRecord::read(&self.paths, cluster)?;
            match self.shims.inspect(&self.paths.node(cluster, head.node)).ok()? {
                NodeProcessState::Running(running) => Some(running.state().started_at),
                _ => None,
            }
        };
        match reported {
            Activity::IdleSince(idle) => started().map_or(reported, |at| Activity::IdleSince(idle.max(at))),
            Activity::Busy | Activity::Unknown => reported,
        }
    }

    /// Combines endpoints with the secret of the cluster.
    pub(super) fn head_access(
        &self,
        cluster: ClusterId,
        endpoints: Endpoints,
    ) -> Result<HeadAccess, ProviderError> {
        Ok(HeadAccess { endpoints, secret: self.secret(cluster)? })
    }

    /// Returns the secret of the cluster.
    pub(super) fn secret(&self, cluster: ClusterId) -> Result<Secret, ProviderError> {
        secret::read_or_create(&self.paths, cluster)
            .map_err(|error| on_disk("the cluster's folder cannot be used", &error))
    }
}
