//! The command that ends the row of a cluster whose provider instance has no engine any more.

use futures::future::BoxFuture;
use muster_core::action::{Action, ActionStatus};
use muster_core::cluster::Cluster;
use muster_core::event::Event;

use crate::error::StoreError;
use crate::rows::{actions, clusters, events};
use crate::transaction::{Command, MANY, Touched, Transaction};
use crate::value::args;

/// Ends the row of a cluster and every action on the cluster, without a call to the provider.
#[derive(Debug, Clone)]
pub struct Abandon {
    /// The deleted cluster, as it is written to history.
    pub cluster: Cluster,
    /// The deletion, which has already ended.
    pub action: Action,
    /// The events to record.
    pub events: Vec<Event>,
}

impl Command for Abandon {
    type Output = Action;

    fn rows(&self) -> usize {
        MANY
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Action, StoreError>> {
        const END: &str = "UPDATE actions SET status = $2, status_reason = $3, ended_at = $4, updated_at = $4, owner = NULL \
                           WHERE cluster_id = $1 AND ended_at IS NULL RETURNING id";
        const UNLOCK: &str = "DELETE FROM locks WHERE target = $1 OR action_id IN (SELECT id FROM actions WHERE cluster_id = $1)";
        Box::pin(async move {
            let id = self.cluster.id.to_string();
            let status = ActionStatus::Cancelled.as_str();
            let reason = "Its cluster was abandoned";
            clusters::update(tx, &self.cluster).await?;
            let now = self.action.created_at;
            let ended = tx.rows(END, args![&id, status, reason, now]).await?;
            for row in ended {
                tx.touch(Touched::Action(row.parse(0)?));
            }
            tx.execute(UNLOCK, args![&id]).await?;
            super::record::forget_cluster(tx, &self.cluster).await?;
            actions::insert(tx, std::slice::from_ref(&self.action)).await?;
            events::insert(tx, &self.events).await?;
            tx.touch(Touched::Action(self.action.id));
            Ok(self.action.clone())
        })
    }
}
