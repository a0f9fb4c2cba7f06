//! Actions that could not go on: put back, and tried again after a pause that holds nobody's slots.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use muster_core::action::Action;
use muster_store::StoreError;
use muster_store::commands::{Claimed, PutBack, Ticket};

use crate::context::Context;
use crate::lease::Lease;
use crate::run::Slot;
use crate::run::{Stop, time_left};
use crate::scheduler::runner;
use crate::supervise::panic_message;

/// Tries of an action after which a panic ends it: what panics again and again is a defect, and waiting does not mend it.
const TRIES: u32 = 5;

/// Puts an action back until its next try; how often that happened is kept with it.
pub(crate) async fn put_back(
    context: &Arc<Context>,
    ticket: Ticket,
    action: &Action,
    why: &str,
) -> Result<(), StoreError> {
    let now = context.clock.now();
    let tries = action.tries.saturating_add(1);
    // Its time may be over before: then it ends on time.
    let delay = context.config.retry_delay(tries).min(time_left(action, now));
    let millis = delay.micros() / 1000;
    let put = PutBack {
        ticket,
        not_before: Some(now.after(delay)),
        suspend: false,
        count: true,
        reason: format!("Try {tries}: {why}; the next one follows in {millis} ms."),
        now,
    };
    context.store.put_back(put).await?;
    tracing::warn!(action = %action.id, tries, why, millis, "put back");
    let context = Arc::clone(context);
    context.tasks.clone().spawn(async move {
        tokio::select! {
            () = tokio::time::sleep(delay.into()) => context.notifier.work.notify_one(),
            () = context.stopping.cancelled() => {}
        }
    });
    Ok(())
}

/// Runs a claimed action, and does not let a panic go unanswered; false if it may be nobody's.
pub(crate) async fn run(context: Arc<Context>, lease: Arc<Lease>, claimed: Claimed, slot: Slot) -> bool {
    let action = claimed.action.clone();
    let run = runner::run(Arc::clone(&context), Arc::clone(&lease), claimed, slot);
    let panic = match AssertUnwindSafe(run).catch_unwind().await {
        Ok(ended) => return ended,
        Err(panic) => panic,
    };
    match after_panic(&context, &lease, &action, &panic_message(panic.as_ref())).await {
        Ok(()) => true,
        Err(stop) => {
            tracing::warn!(action = %action.id, ?stop, "cannot put back what panicked");
            false
        }
    }
}

async fn after_panic(
    context: &Arc<Context>,
    lease: &Arc<Lease>,
    action: &Action,
    words: &str,
) -> Result<(), Stop> {
    let tries = action.tries.saturating_add(1);
    if tries < TRIES {
        let ticket = lease.ticket(action);
        return Ok(put_back(context, ticket, action, &format!("it crashed: {words}")).await?);
    }
    let reason = format!(
        "It crashed at try {tries} and is not tried again: {words}. This is a defect of Muster: report it with the server's log."
    );
    let end = Box::pin(runner::give_up(context, lease, action, reason));
    let ended = AssertUnwindSafe(end).catch_unwind().await;
    ended.unwrap_or_else(|panic| Err(Stop::StoreUnavailable(panic_message(panic.as_ref()))))
}
