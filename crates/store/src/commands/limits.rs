//! The commands of the watcher of idle timeouts and lifetimes.

use futures::future::BoxFuture;
use muster_core::action::Action;
use muster_core::event::Event;
use muster_core::ids::{ClusterId, EngineId};
use muster_core::limits::{ExpiryState, Limits};
use muster_core::time::{TimeSpan, Timestamp};

use super::{Accept, duty};
use crate::error::StoreError;
use crate::rows::events;
use crate::transaction::{Command, Touched, Transaction};
use crate::value::args;

/// Records the expiry states of clusters with limits.
#[derive(Debug, Clone)]
pub struct RecordExpiryState {
    /// The duty that the writer must still hold.
    pub duty: String,
    /// The writer.
    pub engine: EngineId,
    /// The states by cluster.
    pub states: Vec<(ClusterId, ExpiryState)>,
    /// The events to record.
    pub events: Vec<Event>,
}

impl Command for RecordExpiryState {
    /// True if the states were written; false if another engine holds the duty now.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        const NOTE: &str = "UPDATE clusters SET idle_since = $2, idle_warned_at = $3, lifetime_warned_at = $4, change = $5 \
                            WHERE id = $1 AND deleted_at IS NULL";
        Box::pin(async move {
            if !duty::is_held(tx, &self.duty, self.engine).await? {
                return Ok(false);
            }
            let change = tx.change().await?;
            for (id, ExpiryState { idle_since, idle_warned_at, lifetime_warned_at }) in &self.states {
                let row = args![id.to_string(), *idle_since, *idle_warned_at, *lifetime_warned_at, change];
                tx.execute(NOTE, row).await?;
                tx.touch(Touched::Cluster(*id));
            }
            events::insert(tx, &self.events).await?;
            Ok(true)
        })
    }
}

/// Deletes a cluster that has exceeded a limit, if that is still so.
#[derive(Debug, Clone)]
pub struct Expire {
    /// The duty that the writer must still hold.
    pub duty: String,
    /// The writer.
    pub engine: EngineId,
    /// The cluster.
    pub cluster: ClusterId,
    /// The limits that the decision was based on; if they have changed, the cluster is spared.
    pub limits: Limits,
    /// For an idle cluster, the `updated_at` that the decision was based on: the cluster is spared if it has changed
    /// since.
    pub unused: Option<Option<Timestamp>>,
    /// The deletion.
    pub accept: Accept,
}

/// The outcome of [`Expire`].
#[derive(Debug, Clone)]
pub enum Expired {
    /// The cluster is being deleted by this action.
    Deleting(Box<Action>),
    /// The cluster is in use, or its limits have changed.
    Spared,
    /// Another engine holds the duty now.
    NotOurs,
}

impl Command for Expire {
    type Output = Expired;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Expired, StoreError>> {
        Box::pin(async move {
            if !duty::is_held(tx, &self.duty, self.engine).await? {
                return Ok(Expired::NotOurs);
            }
            if !self.is_over(tx).await? {
                return Ok(Expired::Spared);
            }
            Ok(Expired::Deleting(Box::new(self.accept.accept(tx).await?.action)))
        })
    }
}

impl Expire {
    /// Returns true if the decision still applies to the present row.
    async fn is_over(&self, tx: &mut Transaction<'_>) -> Result<bool, StoreError> {
        const OPEN: &str =
            "SELECT 1 FROM actions WHERE cluster_id = $1 AND parent_id IS NULL AND ended_at IS NULL LIMIT 1";
        const JOB: &str = "SELECT 1 FROM jobs j JOIN tasks t ON t.id = j.task_id \
                           WHERE j.cluster_id = $1 AND t.ended_at IS NULL LIMIT 1";
        let id = self.cluster.to_string();
        let present = format!(
            "SELECT idle_timeout, max_lifetime, updated_at FROM clusters WHERE id = $1 AND deleted_at IS NULL{}",
            tx.dialect().for_update()
        );
        let Some(row) = tx.row(present, args![&id]).await? else { return Ok(false) };
        let limits = Limits {
            idle_timeout: row.opt_int(0)?.map(TimeSpan::from_micros),
            max_lifetime: row.opt_int(1)?.map(TimeSpan::from_micros),
        };
        if limits != self.limits {
            return Ok(false);
        }
        match self.unused {
            None => Ok(true),
            Some(changed) if row.opt_time(2)? != changed => Ok(false),
            // Spared while an action on the cluster or a job has not ended.
            Some(_) => {
                Ok(tx.row(OPEN, args![&id]).await?.is_none() && tx.row(JOB, args![&id]).await?.is_none())
            }
        }
    }
}
