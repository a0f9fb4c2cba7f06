//! The listener for the notices of commits that replicas send each other.

use std::time::Duration;

use sqlx::postgres::PgListener;
use sqlx::{Executor as _, PgPool};
use tokio::time::timeout;

use crate::notice::touched_in;
use crate::shared::Shared;
use crate::transaction::Touched;

/// The channel on which replicas notify each other of commits.
pub(crate) const CHANNEL: &str = "muster_touched";

/// The silence after which a listener probes its connection, which may have been cut without a notice.
const PROBE_AFTER: Duration = Duration::from_secs(15);

/// The time-out of a probe.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// The delay before another listener is opened.
const REOPEN_DELAY: Duration = Duration::from_secs(1);

/// Follows the notices of all replicas for as long as the pool is open.
pub(crate) async fn follow(pool: PgPool, shared: Shared) {
    while !pool.is_closed() {
        let Ok(Ok(mut listener)) = timeout(PROBE_LIMIT, open(&pool)).await else {
            tokio::time::sleep(REOPEN_DELAY).await;
            continue;
        };
        // Unknown notices were missed while there was no listener.
        shared.notify(&[Touched::Everything]);
        while is_alive(&mut listener, &shared).await {}
    }
}

async fn open(pool: &PgPool) -> Result<PgListener, sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// Waits for a notice and forwards it, or probes the connection after a while without one; false once the connection is
/// lost.
async fn is_alive(listener: &mut PgListener, shared: &Shared) -> bool {
    let Ok(received) = timeout(PROBE_AFTER, listener.try_recv()).await else {
        return matches!(timeout(PROBE_LIMIT, listener.execute("SELECT 1")).await, Ok(Ok(_)));
    };
    let Ok(Some(notice)) = received else { return false };
    // Listeners of this process were notified of its own commits when they were made.
    let others = notice.payload().split_once(' ').filter(|(from, _)| *from != shared.id());
    if let Some((_, touched)) = others {
        shared.notify(&touched_in(touched).collect::<Vec<_>>());
    }
    true
}
