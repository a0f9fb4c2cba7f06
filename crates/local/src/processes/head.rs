//! Where the head of a cluster answers, and the workers that it counts.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use muster_core::ids::{ClusterId, NodeId};
use muster_frameworks::{Endpoints, LiveWorker, LocalFramework, Ports};
use serde::{Deserialize, Serialize};

use super::Inner;
use super::ask::AskError;
use super::place::{self, Places};
use crate::shim::Found;

/// What is kept of a head: its next start uses the same ports, so that clients find it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    node: NodeId,
    endpoints: BTreeMap<String, String>,
    pub(super) ports: Ports,
}

impl Head {
    pub(super) fn new(node: NodeId, framework: &dyn LocalFramework, endpoints: &Endpoints) -> Self {
        Self { node, ports: framework.ports(endpoints), endpoints: endpoints.clone().into() }
    }

    pub(super) fn of(places: &Places, cluster: ClusterId) -> Option<Self> {
        place::read(&file(places, cluster))
    }

    pub(super) fn keep(&self, places: &Places, cluster: ClusterId) -> io::Result<()> {
        place::write(&file(places, cluster), self)
    }

    pub(super) fn endpoints(&self) -> Endpoints {
        self.endpoints.clone().into()
    }
}

fn file(places: &Places, cluster: ClusterId) -> PathBuf {
    places.cluster(cluster).join("head.json")
}

impl Inner {
    /// Where the head answers, if its process lives: asking one that does not would only take time.
    pub(super) fn living_head(&self, cluster: ClusterId) -> Option<Endpoints> {
        let head = Head::of(&self.places, cluster)?;
        let found = self.shims.find(&self.places.node(cluster, head.node)).ok()?;
        matches!(found, Found::Running(_)).then(|| head.endpoints())
    }

    /// The workers that a head counts as alive.
    pub(super) async fn workers(
        &self,
        framework: &dyn LocalFramework,
        head: &Endpoints,
    ) -> Result<Vec<LiveWorker>, AskError> {
        let answer = self.http.ask(&framework.ask_workers(head)).await?;
        framework.workers(&answer).map_err(|error| AskError(error.to_string()))
    }
}
