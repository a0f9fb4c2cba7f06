//! Runs a claimed action such that a panic requeues it, or ends it if panics repeat. An action whose engines died
//! repeatedly is ended too.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use muster_core::action::Action;
use muster_store::commands::Claimed;

use crate::context::Context;
use crate::lease::Lease;
use crate::run::{Slot, Stop};
use crate::scheduler::requeue::requeue;
use crate::scheduler::runner;
use crate::supervise::panic_message;

/// The number of attempts after which a panic ends the action: a panic that repeats is a defect, which no delay solves.
const TRIES: u32 = 5;

/// The number of engines that died in a row while they ran an action after which the action is ended: it may be the
/// cause of their deaths.
const DEATHS: u32 = 5;

/// Runs a claimed action. Returns false if this engine may still own it by its row without running it.
pub(crate) async fn run(context: Arc<Context>, lease: Arc<Lease>, claimed: Claimed, slot: Slot) -> bool {
    let action = claimed.action.clone();
    if claimed.deaths >= DEATHS {
        let reason = format!(
            "{DEATHS} engines died in a row while they ran it, so it is not retried: check their logs, and whether \
             they have enough memory."
        );
        return is_settled(&action, &give_up(&context, &lease, &action, reason).await);
    }
    let run = runner::run(Arc::clone(&context), Arc::clone(&lease), claimed, slot);
    let panic = match AssertUnwindSafe(run).catch_unwind().await {
        Ok(ended) => return ended,
        Err(panic) => panic,
    };
    is_settled(&action, &after_panic(&context, &lease, &action, &panic_message(panic.as_ref())).await)
}

fn is_settled(action: &Action, settled: &Result<(), Stop>) -> bool {
    if let Err(stop) = settled {
        tracing::warn!(action = %action.id, ?stop, "cannot requeue or end an action that crashed");
    }
    settled.is_ok()
}

async fn after_panic(
    context: &Arc<Context>,
    lease: &Arc<Lease>,
    action: &Action,
    message: &str,
) -> Result<(), Stop> {
    let tries = action.tries.saturating_add(1);
    if tries < TRIES {
        let ticket = lease.ticket(action);
        return Ok(requeue(context, ticket, action, &format!("it crashed: {message}")).await?);
    }
    let reason = format!(
        "It crashed at attempt {tries} and is not retried: {message}. This is a defect of Muster: report it with the \
         server's log."
    );
    give_up(context, lease, action, reason).await
}

/// Ends an action that is not tried again.
async fn give_up(
    context: &Arc<Context>,
    lease: &Arc<Lease>,
    action: &Action,
    reason: String,
) -> Result<(), Stop> {
    let end = Box::pin(runner::give_up(context, lease, action, reason));
    let ended = AssertUnwindSafe(end).catch_unwind().await;
    ended.unwrap_or_else(|panic| Err(Stop::StoreUnavailable(panic_message(panic.as_ref()))))
}
