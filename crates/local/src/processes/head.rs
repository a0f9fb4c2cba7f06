//! Where the head of a cluster answers, and the workers that it counts.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use muster_core::ids::{ClusterId, NodeId};
use muster_core::limits::Activity;
use muster_core::node::{Node, NodeRole};
use muster_engine::ports::provider::{FencedCall, ProviderError};
use muster_frameworks::{Contact, Endpoints, LocalFramework, Ports, Secret};
use serde::{Deserialize, Serialize};

use super::place::{self, Places};
use super::{Inner, on_disk, secret};
use crate::files;
use crate::shim::Found;

/// What is kept of a head: its next start uses the same ports, so that clients find it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    node: NodeId,
    endpoints: BTreeMap<String, String>,
    ports: Ports,
}

impl Head {
    pub(super) fn new(node: NodeId, framework: &dyn LocalFramework, endpoints: &Endpoints) -> Self {
        Self { node, ports: framework.ports(endpoints), endpoints: endpoints.clone().into() }
    }

    pub(super) fn of(places: &Places, cluster: ClusterId) -> Option<Self> {
        place::read(&file(places, cluster))
    }

    pub(super) fn keep(&self, places: &Places, cluster: ClusterId) -> io::Result<()> {
        files::write(&file(places, cluster), self)
    }

    pub(super) fn is(&self, node: NodeId) -> bool {
        self.node == node
    }

    pub(super) fn endpoints(&self) -> Endpoints {
        self.endpoints.clone().into()
    }

    pub(super) fn into_ports(self) -> Ports {
        self.ports
    }
}

fn file(places: &Places, cluster: ClusterId) -> PathBuf {
    places.cluster(cluster).join("head.json")
}

impl Inner {
    /// How the head is reached.
    pub(super) fn head(&self, cluster: ClusterId) -> Result<Contact, ProviderError> {
        let unknown = || ProviderError::transient("NoHead", "its head does not answer yet");
        let head = Head::of(&self.places, cluster).ok_or_else(unknown)?;
        self.contact(cluster, head.endpoints())
    }

    /// How the head is reached, if its process lives: asking one that does not would only take time.
    pub(super) fn living_head(&self, cluster: ClusterId) -> Option<Contact> {
        let head = Head::of(&self.places, cluster)?;
        let found = self.shims.find(&self.places.node(cluster, head.node)).ok()?;
        if matches!(found, Found::Running(_)) { self.contact(cluster, head.endpoints()).ok() } else { None }
    }

    /// Returns once the head that a worker is started for has ended, be it before: the worker would wait for it in
    /// vain.
    pub(super) async fn head_lost(&self, call: FencedCall<'_>, node: &Node) -> ProviderError {
        let head = Head::of(&self.places, call.cluster.id).filter(|_| node.role == NodeRole::Worker);
        match head.map(|head| self.shims.find(&self.places.node(call.cluster.id, head.node))) {
            Some(Ok(Found::Running(running))) => drop(running.exited().await),
            Some(Ok(_)) => {}
            // There is none, or nobody can tell.
            Some(Err(_)) | None => std::future::pending().await,
        }
        ProviderError::transient("HeadLost", "its head ended while it started")
    }

    /// The same as far as the head that runs can know: what ran before its start, it may have forgotten.
    pub(super) fn since_start(&self, cluster: ClusterId, said: Activity) -> Activity {
        let started = || {
            let head = Head::of(&self.places, cluster)?;
            match self.shims.find(&self.places.node(cluster, head.node)).ok()? {
                Found::Running(running) => Some(running.state().started_at),
                _ => None,
            }
        };
        match said {
            Activity::IdleSince(idle) => started().map_or(said, |at| Activity::IdleSince(idle.max(at))),
            Activity::Busy | Activity::Unknown => said,
        }
    }

    /// What it takes to be answered there.
    pub(super) fn contact(&self, cluster: ClusterId, endpoints: Endpoints) -> Result<Contact, ProviderError> {
        Ok(Contact { endpoints, secret: self.secret(cluster)? })
    }

    /// What nodes and clients of the cluster know.
    pub(super) fn secret(&self, cluster: ClusterId) -> Result<Secret, ProviderError> {
        secret::of(&self.places, cluster)
            .map_err(|error| on_disk("the cluster's folder cannot be used", &error))
    }
}
