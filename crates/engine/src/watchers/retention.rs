//! Purges history that is older than its retention.

use std::sync::Arc;
use std::time::Duration;

use muster_core::time::{TimeSpan, Timestamp};
use muster_store::commands::Purge;

use crate::context::Context;

/// The name of the duty.
const DUTY: &str = "janitor";

/// The interval at which history is purged.
const PERIOD: Duration = Duration::from_mins(1);

/// Rows that are deleted per commit, so that writers do not wait long.
const BATCH: u32 = 1_000;

pub(crate) async fn run(context: Arc<Context>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            () = context.stopping.cancelled() => return,
        }
        if let Err(error) = purge_history(&context).await {
            tracing::warn!(%error, "cannot purge old history");
        }
    }
}

async fn purge_history(context: &Context) -> Result<(), muster_store::StoreError> {
    if !context.holds_duty(DUTY).await? {
        return Ok(());
    }
    let ago = |span: TimeSpan| Timestamp::from_micros(context.clock.now().micros() - span.micros());
    loop {
        let command = Purge {
            history_before: ago(context.config.retention),
            requests_before: ago(context.config.request_memory),
            limit: BATCH,
        };
        let purged = context.store.purge(command).await?;
        if purged.rows < u64::from(BATCH) || context.stopping.is_cancelled() {
            return Ok(());
        }
    }
}
