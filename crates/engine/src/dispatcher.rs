//! Takes actions as long as there are hands for them.

use std::sync::Arc;
use std::time::Duration;

use muster_store::commands::Claim;
use tokio::sync::Semaphore;

use crate::engine::Inner;
use crate::handlers;
use crate::runner;

/// Claims whenever there may be work: told by commits, and now and then without being told.
pub(crate) async fn run(inner: Arc<Inner>) {
    let hands = Arc::new(Semaphore::new(usize::try_from(inner.config.parallel_actions).unwrap_or(1)));
    let period: Duration = inner.config.safety_period.into();
    loop {
        // One hand at least has to be free, or a claimed action would wait in a running state.
        let Ok(hand) = Arc::clone(&hands).acquire_owned().await else { return };
        drop(hand);
        if inner.stopping.is_cancelled() {
            return;
        }
        let taken = claim(&inner, &hands).await;
        if taken > 0 {
            continue;
        }
        tokio::select! {
            () = inner.hub.work.notified() => {}
            () = tokio::time::sleep(period) => {}
            () = inner.stopping.cancelled() => return,
        }
    }
}

async fn claim(inner: &Arc<Inner>, hands: &Arc<Semaphore>) -> usize {
    let life = inner.life();
    if life.is_over(inner.clock.now()) {
        return 0;
    }
    let command = Claim {
        engine: life.id,
        instances: inner.instances(),
        kinds: handlers::KNOWN.to_vec(),
        limit: u32::try_from(hands.available_permits()).unwrap_or(u32::MAX),
        now: inner.clock.now(),
    };
    let claimed = match inner.store.claim(command).await {
        Ok(claimed) => claimed,
        Err(error) => {
            tracing::warn!(%error, "cannot claim");
            return 0;
        }
    };
    let count = claimed.len();
    for action in claimed {
        // Fewer were asked for than there are hands, so this does not wait.
        let Ok(hand) = Arc::clone(hands).acquire_owned().await else { return count };
        let (inner, life) = (Arc::clone(inner), Arc::clone(&life));
        inner.metrics.begun(action.taken_over);
        inner.tasks.clone().spawn(async move {
            let metrics = inner.metrics.clone();
            Box::pin(runner::run(inner, life, action)).await;
            metrics.left();
            drop(hand);
        });
    }
    count
}
