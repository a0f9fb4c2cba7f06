//! The commands that bound the growth of history.

use futures::future::BoxFuture;
use muster_core::action::ActionKind;
use muster_core::ids::ClusterId;
use muster_core::time::Timestamp;

use super::Ticket;
use crate::error::StoreError;
use crate::reads::FORGOTTEN;
use crate::transaction::{Command, MANY, Transaction};
use crate::value::args;

/// Removes rows of history and requests that are older than a given time.
#[derive(Debug, Clone)]
pub struct Purge {
    /// The time before which deleted clusters, ended actions, tasks and apps, and events are removed.
    pub history_before: Timestamp,
    /// The time before which request ids are removed.
    pub requests_before: Timestamp,
    /// The largest number of rows of each kind in one command, so that writers do not wait long.
    pub limit: u32,
}

/// The number of removed rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// The number in all tables.
    pub rows: u64,
}

/// Rows that are removed once they are old enough.
struct OldRows {
    table: &'static str,
    /// The columns of the primary key.
    key: &'static str,
    /// The condition of a row that is removed; the time is `$1`. An index must find these rows.
    condition: &'static str,
    /// A table whose rows are removed with these rows, and its column with their ids.
    dependents: Option<(&'static str, &'static str)>,
}

/// The rows that are removed after the retention of history.
const HISTORY: &[OldRows] = &[
    OldRows { table: "events", key: "id", condition: "at < $1", dependents: None },
    OldRows {
        table: "actions",
        key: "id",
        condition: "ended_at < $1",
        dependents: Some(("task_waits", "action_id")),
    },
    OldRows {
        table: "clusters",
        key: "id",
        // An open action may still collect leftovers of a deleted cluster, and needs the cluster's row.
        condition: "deleted_at < $1 \
                    AND NOT EXISTS (SELECT 1 FROM actions a WHERE a.cluster_id = clusters.id AND a.ended_at IS NULL)",
        dependents: None,
    },
    OldRows {
        table: "tasks",
        key: "id",
        // The task of an image template is kept as long as the template.
        condition: "ended_at < $1 AND NOT EXISTS (SELECT 1 FROM image_templates i WHERE i.task_id = tasks.id)",
        dependents: Some(("jobs", "task_id")),
    },
    OldRows {
        table: "apps",
        key: "id",
        // An app whose own cluster still exists is needed for the deletion of that cluster.
        condition: "ended_at < $1 \
                    AND NOT EXISTS (SELECT 1 FROM app_uses u JOIN clusters c ON c.id = u.cluster_id \
                    WHERE u.app_id = apps.id AND u.ephemeral <> 0 AND c.ephemeral IS NOT NULL AND c.deleted_at IS NULL)",
        dependents: Some(("app_uses", "app_id")),
    },
];

/// The ids of requests, which are remembered for a shorter time.
const REQUESTS: OldRows = OldRows {
    table: "idempotency",
    key: "principal, request_id",
    condition: "created_at < $1",
    dependents: None,
};

impl OldRows {
    fn choose(&self, limit: u32) -> String {
        let Self { table, key, condition, .. } = self;
        format!("SELECT {key} FROM {table} WHERE {condition} LIMIT {limit}")
    }

    /// Removes at most `limit` rows that are older than `before`, with their dependents.
    async fn remove(
        &self,
        tx: &mut Transaction<'_>,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64, StoreError> {
        let Self { table, key, .. } = self;
        let chosen = self.choose(limit);
        let Some((dependents, column)) = self.dependents else {
            let sql = format!("DELETE FROM {table} WHERE ({key}) IN ({chosen})");
            return tx.execute(sql, args![before]).await;
        };
        // A row that is being written may be in use again.
        let chosen = format!("{chosen}{}", tx.dialect().skip_locked());
        let chosen = tx.rows(chosen, args![before]).await?;
        let ids = chosen.iter().map(|row| row.text(0)).collect::<Result<Vec<String>, StoreError>>()?;
        let mut removed = 0;
        if !ids.is_empty() {
            for (table, column) in [(dependents, column), (*table, *key)] {
                let (these, ids) = tx.dialect().any_of(column, "$1", &ids);
                removed += tx.execute(format!("DELETE FROM {table} WHERE {these}"), args![ids]).await?;
            }
        }
        Ok(removed)
    }
}

impl Command for Purge {
    type Output = Purged;

    fn rows(&self) -> usize {
        MANY
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Purged, StoreError>> {
        // A watch at an older position than the newest purged change would miss the deletion of purged clusters.
        const FORGET: &str = "INSERT INTO counters (name, value) \
                              SELECT $1, max(change) FROM clusters WHERE deleted_at < $2 HAVING count(*) > 0 \
                              ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE excluded.value > counters.value";
        Box::pin(async move {
            tx.execute(FORGET, args![FORGOTTEN, self.history_before]).await?;
            let mut rows = 0;
            for history in HISTORY {
                rows += history.remove(tx, self.history_before, self.limit).await?;
            }
            rows += REQUESTS.remove(tx, self.requests_before, self.limit).await?;
            Ok(Purged { rows })
        })
    }
}

/// Removes the checks of a cluster and of its nodes that have ended: checks every minute would otherwise accumulate.
#[derive(Debug, Clone)]
pub struct ForgetChecks {
    /// Proof that this engine has claimed the action: checks that a later run recorded must stay.
    pub ticket: Ticket,
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
            self.ticket.check(tx).await?;
            let (all, one) = (ActionKind::ClusterCheck.as_str(), ActionKind::NodeCheck.as_str());
            let rows = tx.execute(CHECKS, args![self.cluster.to_string(), all, one]).await?;
            Ok(Purged { rows })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Dialect;
    use crate::value::Row;
    use crate::{migrate, sqlite};

    #[test]
    fn a_purge_does_not_go_through_rows_that_stay() {
        let mut database = rusqlite::Connection::open_in_memory().unwrap();
        migrate::sqlite(&mut database).unwrap();
        let scans = |sql: &str, arguments| {
            let plan = sqlite::rows(&database, &format!("EXPLAIN QUERY PLAN {sql}"), arguments).unwrap();
            let steps = plan.into_iter().map(|row| Row::Sqlite(row).text(3).unwrap());
            steps.filter(|step| step.starts_with("SCAN")).collect::<Vec<_>>()
        };
        for old in HISTORY.iter().chain([&REQUESTS]) {
            assert!(scans(&old.choose(10), args![1_i64]).is_empty(), "{} are scanned", old.table);
            if let Some((table, column)) = old.dependents {
                let (these, ids) = Dialect::Sqlite.any_of(column, "$1", &["a", "b"]);
                let scanned = scans(&format!("DELETE FROM {table} WHERE {these}"), args![ids]);
                let is_the_list = |step: &String| step.starts_with("SCAN json_each");
                assert!(scanned.iter().all(is_the_list), "{table} are scanned: {scanned:?}");
            }
        }
    }
}
