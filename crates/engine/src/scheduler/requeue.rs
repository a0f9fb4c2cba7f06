//! Requeues actions that cannot continue now: they wait for their next attempt without a slot.

use std::sync::Arc;

use muster_core::action::{Action, Fence};
use muster_core::event::Level;
use muster_store::StoreError;
use muster_store::commands::{Above, Requeue, Ticket};

use crate::context::Context;
use crate::events::{self, reason};
use crate::run::{ActionRun, time_left};

/// Requeues an action with a back-off, which grows with the number of attempts in its row. Its locks stay.
pub(crate) async fn requeue(
    context: &Arc<Context>,
    ticket: Ticket,
    action: &Action,
    why: &str,
) -> Result<(), StoreError> {
    let now = context.clock.now();
    let tries = action.tries.saturating_add(1);
    // No later than the action's timeout, so that the action times out on time.
    let delay = context.config.retry_delay(tries).min(time_left(action, now));
    let millis = delay.micros() / 1000;
    let command = Requeue {
        ticket,
        not_before: Some(now.after(delay)),
        suspend: false,
        count: true,
        reason: format!("Attempt {tries}: {why}; retrying in {millis} ms."),
        above: None,
        now,
    };
    context.store.requeue(command).await?;
    tracing::warn!(action = %action.id, tries, why, millis, "requeued");
    let context = Arc::clone(context);
    context.tasks.clone().spawn(async move {
        tokio::select! {
            () = tokio::time::sleep(delay.into()) => context.notifier.work.notify_one(),
            () = context.stopping.cancelled() => {}
        }
    });
    Ok(())
}

/// Requeues an action that met a higher fence than its own; its next fence is above that. If another engine owns the
/// action by now, the store refuses the ticket.
pub(crate) async fn requeue_above(run: &ActionRun, by: Fence) -> Result<(), StoreError> {
    let (now, own) = (run.now(), run.action.fence);
    let message = format!(
        "Fence {} is in use, but this database had issued only {}: was it restored from an older copy? Its next fences \
         are higher.",
        by.0, own.0
    );
    let event = events::of_cluster(
        Some(&run.action),
        &run.subject.cluster,
        Level::Warn,
        reason::DATABASE_BEHIND,
        &message,
        now,
    );
    let command = Requeue {
        ticket: run.control.ticket(),
        not_before: None,
        suspend: false,
        count: true,
        reason: format!("Fence {} is in use, which is above {}: the action gets a higher one.", by.0, own.0),
        above: Some(Above { fence: by, event }),
        now,
    };
    run.context.store.requeue(command).await?;
    tracing::warn!(action = %run.action.id, own = own.0, by = by.0, "requeued: a higher fence was there before");
    Ok(())
}
