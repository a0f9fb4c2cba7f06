//! An engine's lease: how other engines know that it is alive, and how it knows that they may not think so any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use muster_core::action::Action;
use muster_core::ids::EngineId;
use muster_core::time::{TimeSpan, Timestamp};
use muster_store::commands::Ticket;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// From one registration to the loss of its lease. A process that was paused for too long registers again, under
/// another id.
pub(crate) struct Lease {
    pub(crate) id: EngineId,
    /// The lease was lost: nothing may be written under this id any more.
    pub(crate) lost: CancellationToken,
    expires_at: AtomicI64,
}

impl Lease {
    /// A lease that is not registered yet.
    pub(crate) fn new() -> Arc<Self> {
        let id = EngineId::from_uuid(Uuid::now_v7());
        Arc::new(Self { id, lost: CancellationToken::new(), expires_at: AtomicI64::new(0) })
    }

    /// What the commits of an action that was claimed under this lease are fenced by.
    pub(crate) fn ticket(&self, action: &Action) -> Ticket {
        Ticket { action: action.id, engine: self.id, fence: action.fence }
    }

    /// Whether other engines may take this one for dead. Checked right before each write.
    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.lost.is_cancelled() || now >= self.expires_at()
    }

    /// Whether it was ever registered.
    pub(crate) fn is_registered(&self) -> bool {
        self.expires_at().micros() > 0
    }

    /// When other engines may take it for dead if it is not renewed.
    pub(crate) fn expires_at(&self) -> Timestamp {
        Timestamp::from_micros(self.expires_at.load(Ordering::Acquire))
    }

    /// How long it still holds if it is not renewed.
    pub(crate) fn time_left(&self, now: Timestamp) -> TimeSpan {
        self.expires_at().since(now)
    }

    pub(crate) fn renew(&self, expires_at: Timestamp) {
        self.expires_at.store(expires_at.micros(), Ordering::Release);
    }
}
