//! Actions that cannot go on now: they wait for their next attempt in the queue, without a slot.

use std::sync::Arc;

use muster_core::action::Action;
use muster_store::StoreError;
use muster_store::commands::{Requeue, Ticket};

use crate::context::Context;
use crate::run::time_left;

/// Requeues an action with a back-off; how often that happened is stored with it. Its locks stay.
pub(crate) async fn requeue(
    context: &Arc<Context>,
    ticket: Ticket,
    action: &Action,
    why: &str,
) -> Result<(), StoreError> {
    let now = context.clock.now();
    let tries = action.tries.saturating_add(1);
    // No later than its timeout, so that it times out on time.
    let delay = context.config.retry_delay(tries).min(time_left(action, now));
    let millis = delay.micros() / 1000;
    let command = Requeue {
        ticket,
        not_before: Some(now.after(delay)),
        suspend: false,
        count: true,
        reason: format!("Try {tries}: {why}; the next one follows in {millis} ms."),
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
