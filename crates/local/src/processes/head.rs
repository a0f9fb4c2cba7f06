//! Where the head of a cluster answers, and the workers that it counts.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use muster_core::ids::{ClusterId, NodeId};
use muster_engine::provider::ProviderError;
use muster_frameworks::{Endpoints, LiveWorker, LocalFramework, Ports};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::Inner;
use super::ask::AskError;
use super::place::{self, Places};
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

    pub(super) fn endpoints(&self) -> Endpoints {
        self.endpoints.clone().into()
    }
}

/// Of other errors whoever listens there says more.
fn is_taken(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

fn in_use(port: u16) -> String {
    format!(
        "port {port}, by which its clients know it, is used by another program: end that program, then restart the \
         head of the cluster"
    )
}

fn file(places: &Places, cluster: ClusterId) -> PathBuf {
    places.cluster(cluster).join("head.json")
}

/// How long ports of a head that ended may stay taken: by what it left, or by a passing connection.
const PORTS_FREE_WITHIN: Duration = Duration::from_secs(5);

/// How soon such a port is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Inner {
    /// Waits until a head can have the ports again by which its clients know it. Nobody would find it on others.
    pub(super) async fn ports_are_free(&self, cluster: ClusterId) -> Result<(), ProviderError> {
        let ports = self.ports(cluster);
        let deadline = Instant::now() + PORTS_FREE_WITHIN;
        while let Some(port) = ports.values().copied().find(|port| is_taken(*port)) {
            if Instant::now() >= deadline {
                return Err(ProviderError::permanent("PortInUse", in_use(port)));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// The ports that the head had before.
    pub(super) fn ports(&self, cluster: ClusterId) -> Ports {
        Head::of(&self.places, cluster).map(|head| head.ports).unwrap_or_default()
    }

    /// Where the head answers.
    pub(super) fn head(&self, cluster: ClusterId) -> Result<Endpoints, ProviderError> {
        let unknown = || ProviderError::transient("NoHead", "its head does not answer yet");
        Head::of(&self.places, cluster).map(|head| head.endpoints()).ok_or_else(unknown)
    }

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
