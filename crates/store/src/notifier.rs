//! The notices of this replica's commits to other replicas.
//!
//! A transaction with a NOTIFY takes a lock of the whole server when it commits, and holds the lock until the commit is
//! flushed: such commits, also those of other databases, are flushed one after the other. Therefore notices are sent
//! after the commits, several in one, by transactions that write nothing and wait for no disk. If a replica dies in
//! between, its notices are lost, which can happen to any notice: tasks that wait for a notice also poll.

use std::time::Duration;

use parking_lot::Mutex;
use sqlx::PgPool;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::listen::CHANNEL;
use crate::notice;
use crate::transaction::Touched;

/// The largest number of pending changes, which is more than fit into one notice.
const MOST: usize = 256;

/// The time-out of a notice.
const SEND_LIMIT: Duration = Duration::from_secs(5);

/// The delay after a notice could not be sent.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Sends the notices of one replica.
pub(crate) struct CommitNotifier {
    /// A separate connection, so that notices do not wait for commands.
    pub(crate) pool: PgPool,
    /// The id of this replica in notices to others.
    from: String,
    pending: Mutex<Vec<Touched>>,
    added: Notify,
}

impl CommitNotifier {
    pub(crate) fn new(pool: PgPool, from: &str) -> Self {
        Self { pool, from: from.to_owned(), pending: Mutex::default(), added: Notify::new() }
    }

    /// Queues changes for the next notice.
    pub(crate) fn add(&self, touched: &[Touched]) {
        if touched.is_empty() {
            return;
        }
        let mut pending = self.pending.lock();
        if pending.len() + touched.len() > MOST {
            *pending = vec![Touched::Everything];
        } else {
            let new: Vec<Touched> = touched.iter().filter(|new| !pending.contains(new)).copied().collect();
            pending.extend(new);
        }
        drop(pending);
        self.added.notify_one();
    }

    /// Sends notices for as long as the pool is open.
    pub(crate) async fn run(&self) {
        while !self.pool.is_closed() {
            self.added.notified().await;
            while !self.send().await && !self.pool.is_closed() {
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }

    /// Sends the pending changes. If that fails, returns false and keeps a notice pending.
    pub(crate) async fn send(&self) -> bool {
        let touched = std::mem::take(&mut *self.pending.lock());
        if touched.is_empty() {
            return true;
        }
        let payload = format!("{} {}", self.from, notice::payload(&touched));
        let sent = sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(payload).execute(&self.pool);
        let sent = matches!(timeout(SEND_LIMIT, sent).await, Ok(Ok(_)));
        if !sent {
            // More changes may have been queued since, so that everything counts as touched.
            *self.pending.lock() = vec![Touched::Everything];
        }
        sent
    }
}
