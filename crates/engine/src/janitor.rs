//! Housekeeping: history that is old enough goes.

use std::sync::Arc;
use std::time::Duration;

use muster_core::time::{Span, Timestamp};
use muster_store::commands::{Purge, TakeDuty};

use crate::engine::Inner;

/// Its name among the duties.
const DUTY: &str = "janitor";

/// How often it looks.
const PERIOD: Duration = Duration::from_mins(1);

/// Rows that go at once, so that writers do not wait long.
const BATCH: u32 = 1_000;

pub(crate) async fn run(inner: Arc<Inner>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            () = inner.stopping.cancelled() => return,
        }
        if let Err(error) = clean(&inner).await {
            tracing::warn!(%error, "cannot purge old history");
        }
    }
}

async fn clean(inner: &Inner) -> Result<(), muster_store::StoreError> {
    let duty = TakeDuty { name: DUTY.to_owned(), engine: inner.life().id };
    let ours = inner.store.take_duty(duty).await?;
    inner.metrics.duty(DUTY, ours);
    if !ours {
        return Ok(());
    }
    let ago = |span: Span| Timestamp::from_micros(inner.clock.now().micros() - span.micros());
    loop {
        let command = Purge {
            history_before: ago(inner.config.retention),
            requests_before: ago(inner.config.request_memory),
            limit: BATCH,
        };
        let purged = inner.store.purge(command).await?;
        if purged.rows < u64::from(BATCH) || inner.stopping.is_cancelled() {
            return Ok(());
        }
    }
}
