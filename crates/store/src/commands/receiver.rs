//! The commands that write receivers.

use futures::future::BoxFuture;
use muster_core::event::Event;
use muster_core::ids::ReceiverId;
use muster_core::receiver::Receiver;

use crate::error::StoreError;
use crate::rows::{events, receivers};
use crate::transaction::{Command, Transaction};
use crate::value::args;

/// Inserts or updates a receiver.
#[derive(Debug, Clone)]
pub struct PutReceiver {
    /// The receiver.
    pub receiver: Receiver,
    /// The events to record.
    pub events: Vec<Event>,
}

impl Command for PutReceiver {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        Box::pin(async move {
            receivers::put(tx, &self.receiver).await?;
            events::insert(tx, &self.events).await
        })
    }
}

/// Removes a receiver.
#[derive(Debug, Clone)]
pub struct DeleteReceiver {
    /// The receiver.
    pub id: ReceiverId,
    /// The events to record, if the receiver is removed.
    pub events: Vec<Event>,
}

impl Command for DeleteReceiver {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        Box::pin(async move {
            if tx.execute("DELETE FROM receivers WHERE id = $1", args![self.id.to_string()]).await? > 0 {
                events::insert(tx, &self.events).await?;
            }
            Ok(())
        })
    }
}
