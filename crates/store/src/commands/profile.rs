//! The commands that write profiles.

use futures::future::BoxFuture;
use muster_core::event::Event;
use muster_core::ids::ProfileId;
use muster_core::profile::Profile;
use muster_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::error::StoreError;
use crate::rows::{events, profiles};
use crate::transaction::{Command, Transaction};
use crate::value::{args, json};

/// Stores a profile.
#[derive(Debug, Clone)]
pub struct InsertProfile {
    /// The profile.
    pub profile: Profile,
    /// The events to record.
    pub events: Vec<Event>,
}

impl Command for InsertProfile {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        Box::pin(async move {
            profiles::insert(tx, &self.profile).await?;
            events::insert(tx, &self.events).await
        })
    }
}

/// Writes a profile's name and metadata; its properties cannot be changed.
#[derive(Debug, Clone)]
pub struct UpdateProfile {
    /// The profile.
    pub id: ProfileId,
    /// The name.
    pub name: String,
    /// The metadata of users.
    pub metadata: Map<String, Value>,
    /// The present time.
    pub now: Timestamp,
    /// The events to record.
    pub events: Vec<Event>,
}

impl Command for UpdateProfile {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        const UPDATE: &str = "UPDATE profiles SET name = $2, metadata = $3, updated_at = $4 WHERE id = $1";
        Box::pin(async move {
            tx.execute(UPDATE, args![self.id.to_string(), &self.name, json(&self.metadata), self.now])
                .await?;
            events::insert(tx, &self.events).await
        })
    }
}

/// Removes a profile, unless a cluster or node was created from it, or an open action refers to it.
#[derive(Debug, Clone)]
pub struct DeleteProfile {
    /// The profile.
    pub id: ProfileId,
    /// The events to record, if the profile is removed.
    pub events: Vec<Event>,
}

impl Command for DeleteProfile {
    /// True if the profile was removed.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        const DELETE: &str = "DELETE FROM profiles WHERE id = $1 \
                              AND NOT EXISTS (SELECT 1 FROM clusters c WHERE c.profile_id = $1 AND c.deleted_at IS NULL) \
                              AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.profile_id = $1) \
                              AND NOT EXISTS (SELECT 1 FROM actions a WHERE a.ended_at IS NULL \
                                              AND a.inputs LIKE '%\"profile_id\":\"' || $1 || '\"%')";
        Box::pin(async move {
            // Lock the row first: requests that refer to the profile hold its row, and their rows are visible to the
            // next statement only.
            let hold = format!("SELECT id FROM profiles WHERE id = $1{}", tx.dialect().for_update());
            if tx.row(hold, args![self.id.to_string()]).await?.is_none() {
                return Ok(false);
            }
            let removed = tx.execute(DELETE, args![self.id.to_string()]).await? > 0;
            if removed {
                events::insert(tx, &self.events).await?;
            }
            Ok(removed)
        })
    }
}
