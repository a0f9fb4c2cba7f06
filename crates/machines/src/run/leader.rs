//! The election of a leader by a Lease of Kubernetes, because servers may share a Kubernetes without sharing a
//! database.
//!
//! A Lease counts as expired when it did not change for its duration, by the monotonic clock of the observing replica.
//! A leader that could not renew in time stops before another replica takes over. If it is late all the same, its
//! writes fail, because they carry older resource versions than the next leader's writes.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::apply::{failure, is_missing, message};
use super::namespace::ensure_namespace;
use crate::keys::LEASE;

/// The times of a Lease: its duration, the time that a leader continues without renewal, and the interval of renewals.
#[derive(Debug, Clone, Copy)]
pub struct LeaseTimes {
    pub(crate) duration: Duration,
    pub(crate) deadline: Duration,
    pub(crate) period: Duration,
}

impl LeaseTimes {
    /// The times of a Lease of this duration, which is written in whole seconds.
    pub fn within(duration: Duration) -> Self {
        Self { duration, deadline: duration * 2 / 3, period: duration * 2 / 15 }
    }
}

impl Default for LeaseTimes {
    fn default() -> Self {
        Self::within(Duration::from_secs(15))
    }
}

/// The fields of a Lease that change with every renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LeaseRecord {
    holder: String,
    version: Option<String>,
}

/// The participation of one replica in the election.
pub(crate) struct Election {
    client: Client,
    namespace: String,
    leases: Api<Lease>,
    identity: String,
    times: LeaseTimes,
    /// The last observed Lease of another holder, and the time since which it has not changed.
    seen: Option<(LeaseRecord, Instant)>,
}

impl Election {
    pub(crate) fn new(client: Client, namespace: &str, identity: String, times: LeaseTimes) -> Self {
        let leases = Api::namespaced(client.clone(), namespace);
        Self { client, namespace: namespace.to_owned(), leases, identity, times, seen: None }
    }

    /// Takes part in the election until the future is dropped, and publishes whether this replica leads.
    pub(crate) async fn run(mut self, leads: watch::Sender<bool>) {
        let mut renewed = None::<Instant>;
        loop {
            let (begun, mut is_homeless) = (Instant::now(), false);
            match tokio::time::timeout(self.times.deadline, self.attempt()).await {
                Ok(Ok(true)) => renewed = Some(begun),
                Ok(Ok(false)) => renewed = None,
                Ok(Err(error)) => {
                    tracing::warn!("the Lease {LEASE} could not be renewed: {}", message(&error));
                    is_homeless = is_missing(&error);
                }
                Err(_) => tracing::warn!("the Lease {LEASE} could not be renewed in time"),
            }
            let is_leader = renewed.is_some_and(|at| at.elapsed() < self.times.deadline);
            leads.send_if_modified(|leads| std::mem::replace(leads, is_leader) != is_leader);
            if is_homeless {
                self.restore_namespace().await;
            }
            sleep(self.times.period).await;
        }
    }

    /// Creates the namespace again after its deletion.
    async fn restore_namespace(&self) {
        let created = ensure_namespace(&self.client, &self.namespace);
        match tokio::time::timeout(self.times.deadline, created).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("{}", failure(&error)),
            Err(_) => tracing::warn!("namespace {} was not created in time", self.namespace),
        }
    }

    /// Renews or acquires the Lease; false if another replica holds it.
    async fn attempt(&mut self) -> kube::Result<bool> {
        let Some(lease) = self.leases.get_opt(LEASE).await? else {
            let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.spec(None)) };
            return taken(self.leases.create(&PostParams::default(), &lease).await);
        };
        if !self.may_take(&lease) {
            return Ok(false);
        }
        // Written under the resource version that was read, so that only one of two candidates succeeds.
        let next = Lease { spec: Some(self.spec(lease.spec.as_ref())), ..lease };
        taken(self.leases.replace(LEASE, &PostParams::default(), &next).await)
    }

    /// Returns true if this replica holds the Lease, or it was released or has expired.
    fn may_take(&mut self, lease: &Lease) -> bool {
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder.is_empty() || holder == self.identity {
            return true;
        }
        let record = LeaseRecord { holder, version: lease.metadata.resource_version.clone() };
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.map_or(self.times.duration, Duration::from_secs);
        match &self.seen {
            Some((seen, since)) if *seen == record => since.elapsed() > duration,
            _ => {
                self.seen = Some((record, Instant::now()));
                false
            }
        }
    }

    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let held = before.filter(|spec| spec.holder_identity.as_deref() == Some(&self.identity));
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.times.duration.as_secs().max(1)).ok(),
            acquire_time: held.map_or(Some(now.clone()), |spec| spec.acquire_time.clone()),
            renew_time: Some(now),
            lease_transitions: Some(
                transitions.saturating_add(i32::from(before.is_some() && held.is_none())),
            ),
            ..LeaseSpec::default()
        }
    }
}

/// Releases the Lease if this replica holds it, so that the next leader need not wait until it expires.
pub(crate) async fn release(leases: &Api<Lease>, identity: &str) -> kube::Result<()> {
    // A renewal in flight may be written between the read and the write.
    while let Some(lease) = leases.get_opt(LEASE).await? {
        let spec = lease.spec.clone().unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(identity) {
            break;
        }
        let spec = LeaseSpec { holder_identity: None, renew_time: Some(MicroTime(Timestamp::now())), ..spec };
        let next = Lease { spec: Some(spec), ..lease };
        if taken(leases.replace(LEASE, &PostParams::default(), &next).await)? {
            break;
        }
    }
    Ok(())
}

/// Returns false if another write of the Lease came first.
fn taken(written: kube::Result<Lease>) -> kube::Result<bool> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
