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
        Box::pin(async move {
            let sql = format!(
                "INSERT INTO receivers ({}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) \
                 ON CONFLICT (id) DO UPDATE SET name = excluded.name, action = excluded.action, \
                 params = excluded.params, updated_at = excluded.updated_at",
                receivers::COLUMNS
            );
            tx.execute(sql, receivers::values(&self.receiver)).await?;
            Ok(())
        })
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
