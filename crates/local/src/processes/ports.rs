//! Ports of heads: those that clients know, and those that are chosen.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use muster_core::ids::ClusterId;
use muster_engine::ports::provider::ProviderError;
use muster_frameworks::{LocalFramework, Ports, Whereabouts};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::head::Head;
use super::place;
use super::{Inner, on_disk};
use crate::files;

/// Below the ports that the system gives to connections, any of which could take one between our look and its use;
/// above 10002 to 19999, where Ray's workers listen.
const CHOICE: Range<u16> = 20_000..32_768;

/// How long a chosen port is not chosen again: until whoever was given it listens there.
const RESERVED_FOR: Duration = Duration::from_mins(2);

/// How long ports of a head that ended may stay taken: by what it left, or by a passing connection.
const PORTS_FREE_WITHIN: Duration = Duration::from_secs(5);

/// How soon such a port is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

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

/// Ports that were chosen a moment ago, and that nobody may listen on yet.
#[derive(Default)]
pub(super) struct Chosen {
    until: Mutex<HashMap<u16, Instant>>,
}

impl Chosen {
    /// A port that is free, and that nobody else is given.
    fn choose(&self) -> Option<u16> {
        let now = Instant::now();
        let mut until = self.until.lock();
        until.retain(|_, until| *until > now);
        let count = CHOICE.end - CHOICE.start;
        // Anywhere, so that servers that choose at the same time choose differently.
        let first = RandomState::new().hash_one(0) % u64::from(count);
        let first = u16::try_from(first).unwrap_or_default();
        let mut candidates = (0..count).map(|step| CHOICE.start + (first + step) % count);
        let port = candidates.find(|port| !until.contains_key(port) && !is_taken(*port))?;
        until.insert(port, now + RESERVED_FOR);
        Some(port)
    }
}

impl Inner {
    /// The ports with which the next head of a cluster starts: those by which its clients know it, once nobody else
    /// uses them; or new ones, where the framework does not choose itself.
    pub(super) async fn ports_to_start(
        &self,
        framework: &dyn LocalFramework,
        cluster: ClusterId,
    ) -> Result<(), ProviderError> {
        if let Some(head) = Head::of(&self.places, cluster) {
            return are_free(&head.into_ports()).await;
        }
        let Whereabouts::Given { ports, .. } = framework.whereabouts() else { return Ok(()) };
        let none = || ProviderError::transient("NoPort", "no port of this machine is free for its head");
        let choose = |name: &&str| Ok(((*name).to_owned(), self.chosen.choose().ok_or_else(none)?));
        let chosen = ports.iter().map(choose).collect::<Result<Ports, ProviderError>>()?;
        files::write(&self.ports_file(cluster), &chosen)
            .map_err(|error| on_disk("the cluster's folder", &error))
    }

    /// The ports that the head has: it worked with them before, or they were chosen for it.
    pub(super) fn ports(&self, cluster: ClusterId) -> Ports {
        let known = Head::of(&self.places, cluster).map(Head::into_ports);
        known.or_else(|| place::read(&self.ports_file(cluster))).unwrap_or_default()
    }

    fn ports_file(&self, cluster: ClusterId) -> PathBuf {
        self.places.cluster(cluster).join("ports.json")
    }
}

/// Waits until a head can have the ports again by which its clients know it. Nobody would find it on others.
async fn are_free(ports: &Ports) -> Result<(), ProviderError> {
    let deadline = Instant::now() + PORTS_FREE_WITHIN;
    while let Some(port) = ports.values().copied().find(|port| is_taken(*port)) {
        if Instant::now() >= deadline {
            return Err(ProviderError::permanent("PortInUse", in_use(port)));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn nobody_is_given_a_port_that_another_was_given() {
        let chosen = Chosen::default();
        let ports: HashSet<u16> = (0..100).filter_map(|_| chosen.choose()).collect();
        assert_eq!(ports.len(), 100);
        assert!(ports.iter().all(|port| CHOICE.contains(port)));
    }
}
