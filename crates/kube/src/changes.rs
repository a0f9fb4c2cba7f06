//! What is told of changes.

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_engine::provider::Change;
use tokio::sync::broadcast;

/// Changes as they are sent; what was missed, before or on the way, counts as everything.
pub(crate) fn told(changes: broadcast::Receiver<Change>) -> BoxStream<'static, Change> {
    let missed = stream::once(std::future::ready(Change::Everything));
    let told = stream::unfold(changes, |mut changes| async {
        match changes.recv().await {
            Ok(change) => Some((change, changes)),
            Err(broadcast::error::RecvError::Lagged(_)) => Some((Change::Everything, changes)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    });
    missed.chain(told).boxed()
}
