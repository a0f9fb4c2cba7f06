//! Notices to other replicas of the commits of this one.
//!
//! A transaction that has a NOTIFY takes a lock of the whole server when it commits, and holds it until the commit is
//! flushed: such commits are flushed one after the other, those of other databases too. So notices are sent behind the
//! commits, those that gather meanwhile in one, by transactions that write nothing and wait for no disk. Notices of a
//! replica that dies in between are lost, as notices may be anyway: a task that waits for one reads again now and then.

use std::time::Duration;

use parking_lot::Mutex;
use sqlx::PgPool;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::listen::CHANNEL;
use crate::notice;
use crate::transaction::Touched;

/// More changes than fit into one notice.
const MOST: usize = 256;

/// The time-out of a notice.
const SEND_LIMIT: Duration = Duration::from_secs(5);

/// The delay after a notice could not be sent.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Sends the notices of one replica.
pub(crate) struct Notifier {
    /// A connection of its own: notices wait for no command.
    pub(crate) pool: PgPool,
    /// The id of this replica in notices to others.
    from: String,
    pending: Mutex<Vec<Touched>>,
    added: Notify,
}

impl Notifier {
    pub(crate) fn new(pool: PgPool, from: &str) -> Self {
        Self { pool, from: from.to_owned(), pending: Mutex::default(), added: Notify::new() }
    }

    /// Sends this soon.
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

    /// Sends what is pending; false if that was not possible, then it stays so.
    pub(crate) async fn send(&self) -> bool {
        let touched = std::mem::take(&mut *self.pending.lock());
        if touched.is_empty() {
            return true;
        }
        let payload = format!("{} {}", self.from, notice::payload(&touched));
        let sent = sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(payload).execute(&self.pool);
        let sent = matches!(timeout(SEND_LIMIT, sent).await, Ok(Ok(_)));
        if !sent {
            // Others may have missed more than that since.
            *self.pending.lock() = vec![Touched::Everything];
        }
        sent
    }
}
