//! Changes of marked apps.

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_engine::ports::provider::AppChange;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::follow::Takes;
use crate::plain::PlainObject;

/// Publishes that a marked app changed. A watch by label also reports an app as deleted when its label is removed: what
/// happened is found out by a read of the app.
pub(super) struct MarkedApps {
    changes: broadcast::Sender<AppChange>,
}

impl MarkedApps {
    pub(super) const fn new(changes: broadcast::Sender<AppChange>) -> Self {
        Self { changes }
    }

    fn publish(&self, change: AppChange) {
        // Without a reader this is lost: a reader observes everything at its beginning.
        let _ = self.changes.send(change);
    }

    fn changed(&self, object: &PlainObject) {
        let uid = object.body["metadata"]["uid"].as_str().unwrap_or_default();
        self.publish(AppChange::App(uid.to_owned()));
    }
}

impl Takes<PlainObject> for MarkedApps {
    fn begin(&self) -> u64 {
        0
    }

    fn take(&self, object: PlainObject, listed_since: Option<u64>) {
        if listed_since.is_none() {
            self.changed(&object);
        }
    }

    fn drop(&self, object: PlainObject) {
        self.changed(&object);
    }

    fn complete(&self, _: u64) {
        self.publish(AppChange::Everything);
    }

    fn lost(&self, _: String) {}
}

/// The changes of a channel; missed ones count as everything.
pub(super) fn stream(changes: broadcast::Receiver<AppChange>) -> BoxStream<'static, AppChange> {
    stream::unfold(changes, |mut changes| async {
        match changes.recv().await {
            Ok(change) => Some((change, changes)),
            Err(RecvError::Lagged(_)) => Some((AppChange::Everything, changes)),
            Err(RecvError::Closed) => None,
        }
    })
    .boxed()
}
