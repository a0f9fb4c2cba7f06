//! The stream of changes that providers report.

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::ports::provider::WorldChange;

impl WorldChange {
    /// Returns the changes of a channel as a stream. [`WorldChange::Everything`] begins it, and replaces changes that
    /// the receiver missed.
    pub fn stream(changes: broadcast::Receiver<Self>) -> BoxStream<'static, Self> {
        let sent = stream::unfold(changes, |mut changes| async {
            match changes.recv().await {
                Ok(change) => Some((change, changes)),
                Err(RecvError::Lagged(_)) => Some((Self::Everything, changes)),
                Err(RecvError::Closed) => None,
            }
        });
        stream::iter([Self::Everything]).chain(sent).boxed()
    }
}
