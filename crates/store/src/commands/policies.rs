//! The commands that write policies: plain writes, each with an event.

use futures::future::BoxFuture;
use muster_core::event::Event;
use muster_core::ids::PolicyId;
use muster_core::policy::Policy;
use muster_core::time::Timestamp;

use crate::error::StoreError;
use crate::rows::{events, policies};
use crate::transaction::{Command, Transaction};
use crate::value::args;

/// Stores a policy.
#[derive(Debug, Clone)]
pub struct CreatePolicy {
    /// The policy.
    pub policy: Policy,
    /// The event that is recorded with it.
    pub events: Vec<Event>,
}

impl Command for CreatePolicy {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        Box::pin(async move {
            policies::insert(tx, &self.policy).await?;
            events::insert(tx, &self.events).await
        })
    }
}

/// Renames a policy; no other property of a policy can be changed.
#[derive(Debug, Clone)]
pub struct RenamePolicy {
    /// The policy.
    pub id: PolicyId,
    /// The new name.
    pub name: String,
    /// The present time.
    pub now: Timestamp,
    /// The event that is recorded with it.
    pub events: Vec<Event>,
}

impl Command for RenamePolicy {
    /// The changed policy; `None` if it does not exist.
    type Output = Option<Policy>;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Option<Policy>, StoreError>> {
        const RENAME: &str = "UPDATE policies SET name = $2, updated_at = $3 WHERE id = $1";
        Box::pin(async move {
            let id = self.id.to_string();
            if tx.execute(RENAME, args![&id, &self.name, self.now]).await? == 0 {
                return Ok(None);
            }
            events::insert(tx, &self.events).await?;
            Ok(policies::fetch(tx, "WHERE p.id = $1", args![id]).await?.into_iter().next())
        })
    }
}

/// Removes a policy that is attached to no cluster.
#[derive(Debug, Clone)]
pub struct DeletePolicy {
    /// The policy.
    pub id: PolicyId,
    /// The event that is recorded with it.
    pub events: Vec<Event>,
}

/// The outcome of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// The object was removed.
    Done,
    /// The object is still in use.
    InUse,
    /// The object does not exist.
    Missing,
}

impl Command for DeletePolicy {
    type Output = Removed;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Removed, StoreError>> {
        const USED: &str = "SELECT 1 FROM bindings WHERE policy_id = $1 LIMIT 1";
        Box::pin(async move {
            let id = self.id.to_string();
            if tx.row(USED, args![&id]).await?.is_some() {
                return Ok(Removed::InUse);
            }
            if tx.execute("DELETE FROM policies WHERE id = $1", args![id]).await? == 0 {
                return Ok(Removed::Missing);
            }
            events::insert(tx, &self.events).await?;
            Ok(Removed::Done)
        })
    }
}
