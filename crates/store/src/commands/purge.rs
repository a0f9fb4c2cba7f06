//! History does not grow for ever.

use futures::future::BoxFuture;
use muster_core::action::ActionKind;
use muster_core::ids::ClusterId;
use muster_core::time::Timestamp;

use crate::error::StoreError;
use crate::reads::FORGOTTEN;
use crate::transaction::{Command, MANY, Transaction};
use crate::value::args;

/// Removes what ended before a moment.
#[derive(Debug, Clone)]
pub struct Purge {
    /// Deleted clusters, ended actions and events older than this go.
    pub history_before: Timestamp,
    /// Request ids older than this go.
    pub requests_before: Timestamp,
    /// At most so many clusters, actions and events at once, so that writers do not wait long.
    pub limit: u32,
}

/// The number of removed rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// All together.
    pub rows: u64,
}

impl Command for Purge {
    type Output = Purged;

    fn rows(&self) -> usize {
        MANY
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Purged, StoreError>> {
        // A follower from before the newest purged change would never be notified of their end.
        const FORGET: &str = "INSERT INTO counters (name, value) \
                              SELECT $1, max(change) FROM clusters WHERE deleted_at < $2 HAVING count(*) > 0 \
                              ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE excluded.value > counters.value";
        const WAITS: &str = "DELETE FROM task_waits WHERE NOT EXISTS (SELECT 1 FROM actions a WHERE a.id = task_waits.action_id)";
        // The task of a template stays for as long as the template.
        const TASKS: &str = "DELETE FROM tasks WHERE ended_at < $1 \
                                 AND NOT EXISTS (SELECT 1 FROM image_templates i WHERE i.task_id = tasks.id)";
        // Jobs go with their tasks.
        const JOBS: &str =
            "DELETE FROM jobs WHERE NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = jobs.task_id)";
        // Apps that have ended and use nothing any more.
        const APPS: &str = "DELETE FROM apps WHERE ended_at < $1 \
                                AND NOT EXISTS (SELECT 1 FROM app_uses u WHERE u.app_id = apps.id)";
        Box::pin(async move {
            let limit = self.limit;
            tx.execute(FORGET, args![FORGOTTEN, self.history_before]).await?;
            let mut rows = 0;
            // Leftovers of a deleted cluster are still being collected under its row.
            let unused = " AND NOT EXISTS (SELECT 1 FROM actions a WHERE a.cluster_id = clusters.id AND a.ended_at IS NULL)";
            for (table, column, rest) in
                [("events", "at", ""), ("actions", "ended_at", ""), ("clusters", "deleted_at", unused)]
            {
                let sql = format!(
                    "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE {column} < $1{rest} LIMIT {limit})"
                );
                rows += tx.execute(sql, args![self.history_before]).await?;
            }
            rows += tx.execute(WAITS, args![]).await?;
            rows += tx.execute(TASKS, args![self.history_before]).await?;
            rows += tx.execute(JOBS, args![]).await?;
            rows += tx.execute(APPS, args![self.history_before]).await?;
            let requests = "DELETE FROM idempotency WHERE created_at < $1";
            rows += tx.execute(requests, args![self.requests_before]).await?;
            Ok(Purged { rows })
        })
    }
}

/// Removes the checks of a cluster and of its nodes that have ended: checks every minute would otherwise accumulate.
#[derive(Debug, Clone)]
pub struct ForgetChecks {
    /// The cluster.
    pub cluster: ClusterId,
}

impl Command for ForgetChecks {
    type Output = Purged;

    fn rows(&self) -> usize {
        MANY
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Purged, StoreError>> {
        const CHECKS: &str =
            "DELETE FROM actions WHERE cluster_id = $1 AND kind IN ($2, $3) AND ended_at IS NOT NULL";
        Box::pin(async move {
            let (all, one) = (ActionKind::ClusterCheck.as_str(), ActionKind::NodeCheck.as_str());
            let rows = tx.execute(CHECKS, args![self.cluster.to_string(), all, one]).await?;
            Ok(Purged { rows })
        })
    }
}
