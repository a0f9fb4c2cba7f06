//! Ports of heads: a restarted head reuses its ports, and a first head gets reserved ports.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use muster_core::ids::ClusterId;
use muster_engine::ports::provider::ProviderError;
use muster_frameworks::{EndpointDiscovery, HeadPorts, LocalFramework};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::head::HeadRecord;
use super::paths;
use super::{ProcessHost, on_disk};
use crate::files;

/// The ports that may be reserved. They are below the system's ephemeral ports, which a connection could take between
/// the check and the use of a port, and above 10002 to 19999, where Ray's workers listen.
const PORT_RANGE: Range<u16> = 20_000..32_768;

/// Time after which a reservation expires; by then the head listens on the port.
const RESERVED_FOR: Duration = Duration::from_mins(2);

/// Time to wait for the ports of a previous head, which its remaining processes or a connection may still use.
const PORT_WAIT: Duration = Duration::from_secs(5);

/// Interval of checks while a port is in use.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Returns true if a port is in use. Other errors are ignored: the head reports them with more detail.
fn is_taken(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .is_err_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

fn in_use(port: u16) -> String {
    format!(
        "port {port}, which clients of the cluster use, is taken by another program: end that program, then restart the \
         head of the cluster"
    )
}

/// Ports that are reserved for heads that do not listen on them yet.
#[derive(Default)]
pub(super) struct PortReservations {
    until: Mutex<HashMap<u16, Instant>>,
}

impl PortReservations {
    /// Reserves a free port.
    fn reserve(&self) -> Option<u16> {
        let now = Instant::now();
        let mut until = self.until.lock();
        until.retain(|_, until| *until > now);
        let count = PORT_RANGE.end - PORT_RANGE.start;
        // Starts at a random port, so that concurrent servers choose different ones.
        let first = RandomState::new().hash_one(0) % u64::from(count);
        let first = u16::try_from(first).unwrap_or_default();
        let mut candidates = (0..count).map(|step| PORT_RANGE.start + (first + step) % count);
        let port = candidates.find(|port| !until.contains_key(port) && !is_taken(*port))?;
        until.insert(port, now + RESERVED_FOR);
        Some(port)
    }
}

impl ProcessHost {
    /// Prepares the ports of the next head. Waits until the ports of a previous head are free, since clients use them.
    /// For the first head, reserves ports unless the framework chooses its own.
    pub(super) async fn reserve_head_ports(
        &self,
        framework: &dyn LocalFramework,
        cluster: ClusterId,
    ) -> Result<(), ProviderError> {
        if let Some(head) = HeadRecord::read(&self.paths, cluster) {
            return wait_until_free(&head.into_ports()).await;
        }
        let EndpointDiscovery::AssignedPorts { ports, .. } = framework.endpoint_discovery() else {
            return Ok(());
        };
        let none = || {
            let message =
                format!("no free port for the head between {} and {}", PORT_RANGE.start, PORT_RANGE.end - 1);
            ProviderError::transient("NoPort", message)
        };
        let choose =
            |name: &&str| Ok(((*name).to_owned(), self.port_reservations.reserve().ok_or_else(none)?));
        let chosen = ports.iter().map(choose).collect::<Result<HeadPorts, ProviderError>>()?;
        files::write(&self.ports_file(cluster), &chosen)
            .map_err(|error| on_disk("the cluster's folder cannot be used", &error))
    }

    /// Returns the ports of the head: those of a previous head, or the reserved ones.
    pub(super) fn head_ports(&self, cluster: ClusterId) -> HeadPorts {
        let known = HeadRecord::read(&self.paths, cluster).map(HeadRecord::into_ports);
        known.or_else(|| paths::read_json(&self.ports_file(cluster))).unwrap_or_default()
    }

    fn ports_file(&self, cluster: ClusterId) -> PathBuf {
        self.paths.cluster(cluster).join("ports.json")
    }
}

/// Waits until the ports of a previous head are free. Other ports are no alternative, since clients use these.
async fn wait_until_free(ports: &HeadPorts) -> Result<(), ProviderError> {
    let deadline = Instant::now() + PORT_WAIT;
    while let Some(port) = ports.values().copied().find(|port| is_taken(*port)) {
        if Instant::now() >= deadline {
            return Err(ProviderError::permanent("PortInUse", in_use(port)));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_reserved_port_is_not_reserved_again() {
        let reservations = PortReservations::default();
        let ports: HashSet<u16> = (0..100).filter_map(|_| reservations.reserve()).collect();
        assert_eq!(ports.len(), 100);
        assert!(ports.iter().all(|port| PORT_RANGE.contains(port)));
    }
}
