//! The settings of the machines part of a server.

use std::sync::Arc;
use std::time::Duration;

use muster_core::time::{TimeSpan, Timestamp};

use super::leader::LeaseTimes;
use crate::decide::node_health::HealthRules;
use crate::decide::registration::WebhookTarget;
use crate::decide::reservations::{RESERVATION_IMAGE, ReservationSettings};

/// The settings of the machines part of a server.
#[derive(Clone)]
pub struct MachinesSettings {
    /// The namespace of reservations, Lease and certificate.
    pub namespace: String,
    /// The identity of this replica in the election of a leader.
    pub identity: String,
    /// The address at which the API server calls the webhook.
    pub target: WebhookTarget,
    /// The rules for the health of nodes.
    pub health: HealthRules,
    /// The image of reservations.
    pub image: String,
    /// The duration of Leases.
    pub lease: LeaseTimes,
    /// The lifetimes of certificates.
    pub lives: CertificateLives,
    /// The time after which a guest that has a slot and no node gets an event.
    pub unplaced_after: TimeSpan,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
}

/// A clock of the time of day, which tests can set.
pub trait WallClock: Send + Sync {
    /// The present time.
    fn now(&self) -> Timestamp;
}

/// The lifetimes of certificates.
#[derive(Debug, Clone, Copy)]
pub struct CertificateLives {
    /// The lifetime of the authority.
    pub authority: Duration,
    /// The lifetime of the certificate.
    pub certificate: Duration,
}

impl Default for CertificateLives {
    fn default() -> Self {
        const DAY: Duration = Duration::from_hours(24);
        Self { authority: DAY * 3650, certificate: DAY * 365 }
    }
}

impl MachinesSettings {
    /// The default settings.
    pub fn new(
        namespace: String,
        identity: String,
        target: WebhookTarget,
        clock: Arc<dyn WallClock>,
    ) -> Self {
        Self {
            namespace,
            identity,
            target,
            health: HealthRules::default(),
            image: RESERVATION_IMAGE.to_owned(),
            lease: LeaseTimes::default(),
            lives: CertificateLives::default(),
            unplaced_after: TimeSpan::from_secs(300),
            clock,
        }
    }

    pub(crate) fn reservations(&self) -> ReservationSettings<'_> {
        ReservationSettings { namespace: &self.namespace, image: &self.image }
    }
}
