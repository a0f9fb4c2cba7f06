//! Takes actions as long as there are hands for them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_core::action::{Action, ActionStatus, Fence};
use muster_core::ids::ActionId;
use muster_store::commands::{Claim, Claimed, PutBack};
use muster_store::reads::ActionQuery;
use muster_store::{Dialect, StoreError};
use tokio::sync::Semaphore;

use crate::again;
use crate::engine::{Inner, Life};
use crate::handlers;
use crate::hands::Hand;

/// Claims whenever there may be work: told by commits, and now and then without being told.
pub(crate) async fn run(inner: Arc<Inner>) {
    let hands = Arc::new(Semaphore::new(usize::try_from(inner.config.parallel_actions).unwrap_or(1)));
    let held = Arc::new(Held::default());
    let period: Duration = inner.config.safety_period.into();
    loop {
        // One hand at least has to be free, or a claimed action would wait in a running state.
        let Some(hand) = Hand::take(&hands).await else { return };
        drop(hand);
        if inner.stopping.is_cancelled() {
            return;
        }
        if claim(&inner, &hands, &held).await == More::Perhaps {
            continue;
        }
        tokio::select! {
            () = inner.hub.work.notified() => {}
            () = tokio::time::sleep(period) => {}
            () = inner.stopping.cancelled() => return,
        }
    }
}

/// What this engine has in its hands, and whether something may have slipped through them.
#[derive(Default)]
struct Held {
    actions: Mutex<HashSet<(ActionId, Fence)>>,
    astray: AtomicBool,
}

impl Held {
    fn actions(&self) -> MutexGuard<'_, HashSet<(ActionId, Fence)>> {
        self.actions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts back what is ours by its row and in nobody's hands: claimed by a commit whose answer got lost, or let go
    /// by a run that took its lease for over. No other engine would take it while we live.
    async fn put_back_strays(&self, inner: &Inner, life: &Life) -> Result<(), StoreError> {
        if !self.astray.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let statuses = vec![ActionStatus::Running];
        let query = ActionQuery { statuses, top_level: true, ..ActionQuery::default() };
        let running = inner.store.actions(&query).await?.items;
        let stray = |action: &Action| {
            action.owner == Some(life.id) && !self.actions().contains(&(action.id, action.fence))
        };
        for action in running.into_iter().filter(stray) {
            tracing::warn!(action = %action.id, "put back: it was ours, and nobody ran it");
            let ticket = life.ticket(&action);
            let reason = "The action was put back: its engine had lost hold of it.".to_owned();
            let now = inner.clock.now();
            let put = PutBack { ticket, not_before: None, suspend: false, count: false, reason, now };
            match inner.store.put_back(put).await {
                Ok(()) | Err(StoreError::Fenced(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether more can be claimed, as far as a claim shows.
#[derive(PartialEq, Eq)]
enum More {
    Perhaps,
    /// Until somebody tells.
    No,
}

/// Claims as much as there are hands for.
async fn claim(inner: &Arc<Inner>, hands: &Arc<Semaphore>, held: &Arc<Held>) -> More {
    let life = inner.life();
    if life.is_over(inner.clock.now()) {
        return More::No;
    }
    if let Err(error) = held.put_back_strays(inner, &life).await {
        tracing::warn!(%error, "cannot look for what is nobody's");
        held.astray.store(true, Ordering::Release);
    }
    let limit = hands.available_permits();
    if limit == 0 {
        // One that had lent its hand has it again.
        return More::Perhaps;
    }
    let command = Claim {
        engine: life.id,
        instances: inner.instances(),
        kinds: handlers::KNOWN.to_vec(),
        limit: u32::try_from(limit).unwrap_or(u32::MAX),
        now: inner.clock.now(),
    };
    let claimed = match inner.store.claim(command).await {
        Ok(claimed) => claimed,
        Err(error) => {
            tracing::warn!(%error, "cannot claim");
            // It may have been committed all the same.
            held.astray.store(true, Ordering::Release);
            return More::No;
        }
    };
    // Less than was asked for is all there was, and asking again would only keep that from beginning; but on PostgreSQL
    // what others were just looking at was passed over.
    let passed_over = !claimed.is_empty() && inner.store.dialect() == Dialect::Postgres;
    let more = if claimed.len() < limit && !passed_over { More::No } else { More::Perhaps };
    for action in claimed {
        // Fewer were asked for than there were hands, so this waits only for those who had lent theirs.
        let Some(hand) = Hand::take(hands).await else { return more };
        let (inner, life) = (Arc::clone(inner), Arc::clone(&life));
        let mut in_hand = InHand::take(Arc::clone(held), Arc::clone(&inner), &action);
        inner.tasks.clone().spawn(async move {
            in_hand.ended = Box::pin(again::run(inner, life, action, hand)).await;
            drop(in_hand);
        });
    }
    more
}

/// An action in this engine's hands; let go of however its run ends, a panic included.
struct InHand {
    held: Arc<Held>,
    inner: Arc<Inner>,
    key: (ActionId, Fence),
    ended: bool,
}

impl InHand {
    fn take(held: Arc<Held>, inner: Arc<Inner>, claimed: &Claimed) -> Self {
        let key = (claimed.action.id, claimed.action.fence);
        held.actions().insert(key);
        inner.metrics.begun(claimed.taken_over);
        Self { held, inner, key, ended: false }
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.held.actions().remove(&self.key);
        self.inner.metrics.left();
        if !self.ended {
            self.held.astray.store(true, Ordering::Release);
            self.inner.hub.work.notify_one();
        }
    }
}
