//! The lease of an engine: the proof to other engines that it is alive, valid until it expires.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use muster_core::action::Action;
use muster_core::ids::EngineId;
use muster_core::time::{TimeSpan, Timestamp};
use muster_store::commands::Ticket;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The lease of one registration. An engine whose lease has expired, such as after a pause of its process, registers
/// again under another id.
pub(crate) struct Lease {
    pub(crate) id: EngineId,
    /// Cancelled when the lease is lost: nothing may be written under this id any more.
    pub(crate) lost: CancellationToken,
    expires_at: AtomicI64,
}

impl Lease {
    /// Creates a lease that is not registered yet.
    pub(crate) fn new() -> Arc<Self> {
        let id = EngineId::from_uuid(Uuid::now_v7());
        Arc::new(Self { id, lost: CancellationToken::new(), expires_at: AtomicI64::new(0) })
    }

    /// Returns the ticket that fences the commits of an action that was claimed under this lease.
    pub(crate) fn ticket(&self, action: &Action) -> Ticket {
        Ticket { action: action.id, engine: self.id, fence: action.fence }
    }

    /// Returns true if other engines may consider this one dead. Checked right before each write.
    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.lost.is_cancelled() || now >= self.expires_at()
    }

    /// Returns true if the lease was ever registered.
    pub(crate) fn is_registered(&self) -> bool {
        self.expires_at().micros() > 0
    }

    /// Returns the time from which other engines may consider this one dead, unless the lease is renewed.
    pub(crate) fn expires_at(&self) -> Timestamp {
        Timestamp::from_micros(self.expires_at.load(Ordering::Acquire))
    }

    /// Returns the remaining time of the lease, unless it is renewed.
    pub(crate) fn time_left(&self, now: Timestamp) -> TimeSpan {
        self.expires_at().since(now)
    }

    pub(crate) fn renew(&self, expires_at: Timestamp) {
        self.expires_at.store(expires_at.micros(), Ordering::Release);
    }
}
