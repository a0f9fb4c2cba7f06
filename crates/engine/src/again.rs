//! Actions that could not go on: put back, and tried again after a pause that holds nobody's hands.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use muster_core::action::Action;
use muster_store::StoreError;
use muster_store::commands::{Claimed, PutBack, Ticket};

use crate::engine::{Inner, Life};
use crate::hands::Hand;
use crate::runner;
use crate::work::{Stop, time_left};

/// Tries of an action after which a panic ends it: what panics again and again is a defect, and waiting does not mend it.
const TRIES: u32 = 5;

/// Puts an action back until its next try; how often that happened is kept with it.
pub(crate) async fn put_back(
    inner: &Arc<Inner>,
    ticket: Ticket,
    action: &Action,
    why: &str,
) -> Result<(), StoreError> {
    let now = inner.clock.now();
    let tries = action.tries.saturating_add(1);
    // Its time may be over before: then it ends on time.
    let pause = inner.config.pause(tries).min(time_left(action, now));
    let millis = pause.micros() / 1000;
    let put = PutBack {
        ticket,
        not_before: Some(now.after(pause)),
        suspend: false,
        count: true,
        reason: format!("Try {tries}: {why}; the next one follows in {millis} ms."),
        now,
    };
    inner.store.put_back(put).await?;
    tracing::warn!(action = %action.id, tries, why, millis, "put back");
    let inner = Arc::clone(inner);
    inner.tasks.clone().spawn(async move {
        tokio::select! {
            () = tokio::time::sleep(pause.into()) => inner.hub.work.notify_one(),
            () = inner.stopping.cancelled() => {}
        }
    });
    Ok(())
}

/// Runs a claimed action, and does not let a panic go unanswered; false if it may be nobody's.
pub(crate) async fn run(inner: Arc<Inner>, life: Arc<Life>, claimed: Claimed, hand: Hand) -> bool {
    let action = claimed.action.clone();
    let run = runner::run(Arc::clone(&inner), Arc::clone(&life), claimed, hand);
    let panic = match AssertUnwindSafe(run).catch_unwind().await {
        Ok(ended) => return ended,
        Err(panic) => panic,
    };
    match after_panic(&inner, &life, &action, &words_of(panic.as_ref())).await {
        Ok(()) => true,
        Err(stop) => {
            tracing::warn!(action = %action.id, ?stop, "cannot put back what panicked");
            false
        }
    }
}

async fn after_panic(inner: &Arc<Inner>, life: &Arc<Life>, action: &Action, words: &str) -> Result<(), Stop> {
    let tries = action.tries.saturating_add(1);
    if tries < TRIES {
        let ticket = life.ticket(action);
        return Ok(put_back(inner, ticket, action, &format!("it crashed: {words}")).await?);
    }
    let reason = format!(
        "It crashed at try {tries} and is not tried again: {words}. This is a defect of Muster: report it with the server's log."
    );
    let end = Box::pin(runner::give_up(inner, life, action, reason));
    let ended = AssertUnwindSafe(end).catch_unwind().await;
    ended.unwrap_or_else(|panic| Err(Stop::Later(words_of(panic.as_ref()))))
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a word".to_owned())
}

/// Runs a task that goes on for as long as the engine does; should it panic, it begins anew.
pub(crate) async fn keep_running<F: Future<Output = ()>>(
    inner: Arc<Inner>,
    name: &str,
    task: impl Fn() -> F,
) {
    const PAUSE: Duration = Duration::from_secs(1);
    while let Err(panic) = AssertUnwindSafe(task()).catch_unwind().await {
        tracing::error!(name, panic = words_of(panic.as_ref()), "crashed; it begins anew");
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = inner.stopping.cancelled() => return,
        }
    }
}
