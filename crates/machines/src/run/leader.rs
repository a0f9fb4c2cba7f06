//! The leader among replicas, by a Lease of Kubernetes: several Musters may share a Kubernetes and no database.
//!
//! A Lease is taken to have lapsed when it did not change for as long as it says, by the clock that cannot be set of the
//! replica that watches it. A leader that could not renew in time stops before others take over; should it be late all the
//! same, the resource versions of what it writes are older than those of the next leader's writes.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::keys::LEASE;

/// The times of a Lease: its duration, the time that a leader continues without renewal, and the interval of renewals.
#[derive(Debug, Clone, Copy)]
pub struct LeaseTimes {
    pub(crate) duration: Duration,
    pub(crate) deadline: Duration,
    pub(crate) period: Duration,
}

impl LeaseTimes {
    /// Those of a Lease that lasts so long; it is counted in whole seconds.
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
struct Record {
    holder: String,
    version: Option<String>,
}

/// One candidate.
pub(crate) struct Election {
    leases: Api<Lease>,
    identity: String,
    times: LeaseTimes,
    /// The Lease of another holder, and since when it has been so.
    seen: Option<(Record, Instant)>,
}

impl Election {
    pub(crate) fn new(client: Client, namespace: &str, identity: String, times: LeaseTimes) -> Self {
        Self { leases: Api::namespaced(client, namespace), identity, times, seen: None }
    }

    /// Takes part until this is dropped; reports whether this replica leads.
    pub(crate) async fn run(mut self, leads: watch::Sender<bool>) {
        let mut renewed = None::<Instant>;
        loop {
            let begun = Instant::now();
            match tokio::time::timeout(self.times.deadline, self.attempt()).await {
                Ok(Ok(true)) => renewed = Some(begun),
                Ok(Ok(false)) => renewed = None,
                Ok(Err(error)) => tracing::warn!("the Lease {LEASE} could not be renewed: {error}"),
                Err(_) => tracing::warn!("the Lease {LEASE} could not be renewed in time"),
            }
            let is_leader = renewed.is_some_and(|at| at.elapsed() < self.times.deadline);
            leads.send_if_modified(|leads| std::mem::replace(leads, is_leader) != is_leader);
            sleep(self.times.period).await;
        }
    }

    /// Renews or takes the Lease; false if it is another's.
    async fn attempt(&mut self) -> kube::Result<bool> {
        let Some(lease) = self.leases.get_opt(LEASE).await? else {
            let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
            let lease = Lease { metadata, spec: Some(self.spec(None)) };
            return taken(self.leases.create(&PostParams::default(), &lease).await);
        };
        if !self.may_take(&lease) {
            return Ok(false);
        }
        // The resource version of what was read goes along: of two candidates one succeeds.
        let next = Lease { spec: Some(self.spec(lease.spec.as_ref())), ..lease };
        taken(self.leases.replace(LEASE, &PostParams::default(), &next).await)
    }

    /// Whether the Lease is ours, or was given up, or has lapsed.
    fn may_take(&mut self, lease: &Lease) -> bool {
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.unwrap_or_default();
        if holder.is_empty() || holder == self.identity {
            return true;
        }
        let record = Record { holder, version: lease.metadata.resource_version.clone() };
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

/// Gives the Lease up if this replica has it, so that the next leader need not wait until it lapses.
pub(crate) async fn release(leases: &Api<Lease>, identity: &str) -> kube::Result<()> {
    // A renewal that was under way may come between the read and the write.
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

/// Whether a write of the Lease was the first one.
fn taken(written: kube::Result<Lease>) -> kube::Result<bool> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
