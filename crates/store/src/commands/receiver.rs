//! Writing receivers.

use futures::future::BoxFuture;
use muster_core::ids::ReceiverId;
use muster_core::receiver::Receiver;

use crate::error::StoreError;
use crate::rows::receivers;
use crate::transaction::{Command, Transaction};
use crate::value::args;

/// Stores a receiver, or writes it as it is now.
#[derive(Debug, Clone)]
pub struct PutReceiver {
    /// The receiver.
    pub receiver: Receiver,
}

impl Command for PutReceiver {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        Box::pin(receivers::put(tx, &self.receiver))
    }
}

/// Removes a receiver.
#[derive(Debug, Clone)]
pub struct DeleteReceiver {
    /// The receiver.
    pub id: ReceiverId,
}

impl Command for DeleteReceiver {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        Box::pin(async move {
            tx.execute("DELETE FROM receivers WHERE id = $1", args![self.id.to_string()]).await?;
            Ok(())
        })
    }
}
