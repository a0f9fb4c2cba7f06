//! Keeps the engine's lease: registers it, renews it, and registers again once it is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_core::time::{TimeSpan, Timestamp};
use muster_store::StoreError;
use muster_store::commands::{Heartbeat, Register, Renewal, ServeInstances};
use tokio::task::JoinHandle;

use crate::context::Context;
use crate::lease::Lease;

/// The delay before a failed renewal or registration is retried.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The margin after the expiry of another engine's lease before its actions are claimed: clocks tick in steps.
const AFTER_EXPIRY: Duration = Duration::from_millis(20);

/// Registers under a new engine id.
pub(crate) async fn register(context: &Context) -> Result<(), StoreError> {
    let lease = Lease::new();
    let start = RenewalStart::now(context);
    let command = Register {
        engine: lease.id,
        host: context.config.host.clone(),
        version: context.config.version.clone(),
        instances: context.instances(),
        lease: context.config.lease,
    };
    let now = context.store.register(command).await?;
    start.renew(context, &lease, now);
    context.replace_lease(lease);
    Ok(())
}

/// Renews the lease until the engine has stopped. If a renewal is too late, the engine drops its actions and registers
/// again.
pub(crate) async fn run(context: Arc<Context>) {
    let period: Duration = context.config.heartbeat.into();
    // A lease that could not be registered at the start is registered by the first round.
    let mut wait = if context.lease().is_registered() { period } else { RETRY_AFTER };
    let mut serving: Option<JoinHandle<()>> = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = context.stopped.cancelled() => return,
        }
        context.liveness.heartbeat_begins();
        let round = renew(&context).await;
        context.liveness.heartbeat_ended(round.as_ref().err().map(StoreError::to_string));
        let Ok(next_expiry) = round else {
            wait = period.min(RETRY_AFTER);
            continue;
        };
        wait = period;
        if let Some(expiry) = next_expiry.map(Duration::from).filter(|expiry| *expiry < period) {
            tokio::spawn(claim_at(Arc::clone(&context), expiry + AFTER_EXPIRY));
        }
        // In the background, since this write may wait for a shared connection, and the next renewal must not.
        if serving.as_ref().is_none_or(JoinHandle::is_finished) {
            let context = Arc::clone(&context);
            serving = Some(tokio::spawn(async move { serve_instances(&context).await }));
        }
    }
}

/// Records which instances this engine serves.
async fn serve_instances(context: &Context) {
    let served = ServeInstances { instances: context.instances() };
    if let Err(error) = context.store.serve_instances(served).await {
        tracing::warn!(%error, "cannot record which instances are served");
    }
}

/// Renews the lease, or registers again if it is lost. Returns the time until the next lease of another engine expires,
/// if that is known.
async fn renew(context: &Context) -> Result<Option<TimeSpan>, StoreError> {
    let lease = context.lease();
    if lease.lost.is_cancelled() || !lease.is_registered() {
        register(context).await.inspect_err(|error| tracing::warn!(%error, "cannot register yet"))?;
        return Ok(None);
    }
    let start = RenewalStart::now(context);
    let command = Heartbeat { engine: lease.id, lease: context.config.lease };
    match context.store.heartbeat(command).await {
        Ok(Renewal { renewed: true, now, next_expiry }) => {
            start.renew(context, &lease, now);
            context.metrics.renewal("done");
            Ok(next_expiry)
        }
        Ok(Renewal { renewed: false, .. }) => {
            lose(context, &lease, "the lease expired: other engines may have taken our actions over");
            register(context)
                .await
                .inspect_err(|error| tracing::warn!(%error, "cannot register again yet"))?;
            Ok(None)
        }
        Err(error @ StoreError::TooNew { .. }) => {
            lose(context, &lease, "the database was upgraded: this version may not write it any more");
            Err(error)
        }
        Err(error) => {
            context.metrics.renewal("failed");
            tracing::warn!(%error, "cannot renew the lease");
            Err(error)
        }
    }
}

/// The time right before a call to the database.
struct RenewalStart {
    at: Instant,
    clock: Timestamp,
}

impl RenewalStart {
    fn now(context: &Context) -> Self {
        Self { at: Instant::now(), clock: context.clock.now() }
    }

    /// Extends a lease that the call has extended, and synchronizes the clock with the database's. The lease is counted
    /// from before the call: however long that took, the database's lease ends no earlier.
    fn renew(self, context: &Context, lease: &Lease, database: Timestamp) {
        let forward = context.clock.synchronize(database, self.at.elapsed());
        let start = Timestamp::from_micros(self.clock.micros().saturating_add(forward));
        lease.renew(start.after(context.config.lease));
    }
}

fn lose(context: &Context, lease: &Lease, why: &str) {
    context.metrics.renewal("lost");
    context.metrics.clear_duties();
    tracing::error!("{why}");
    lease.lost.cancel();
}

/// Wakes the dispatcher after a delay: the lease of an engine that may have died has expired then.
async fn claim_at(context: Arc<Context>, after: Duration) {
    tokio::select! {
        () = tokio::time::sleep(after) => context.notifier.work.notify_one(),
        () = context.stopping.cancelled() => {}
    }
}
