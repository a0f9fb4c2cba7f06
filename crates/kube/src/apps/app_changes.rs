//! The changes of labelled apps.

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_engine::ports::provider::AppChange;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::untyped_object::UntypedObject;
use crate::watches::WatchSink;

/// Publishes that a labelled app has changed. A watch by label also reports an app as deleted when only its label was
/// removed, so the subscriber reads the app.
pub(super) struct AppChangeSink {
    changes: broadcast::Sender<AppChange>,
}

impl AppChangeSink {
    pub(super) const fn new(changes: broadcast::Sender<AppChange>) -> Self {
        Self { changes }
    }

    fn publish(&self, change: AppChange) {
        // Without a subscriber the change is lost, which does no harm: a new subscriber observes everything.
        let _ = self.changes.send(change);
    }

    fn publish_object(&self, object: &UntypedObject) {
        let uid = object.body["metadata"]["uid"].as_str().unwrap_or_default();
        self.publish(AppChange::App(uid.to_owned()));
    }
}

impl WatchSink<UntypedObject> for AppChangeSink {
    fn begin(&self) -> u64 {
        0
    }

    fn apply(&self, object: UntypedObject, listed_since: Option<u64>) {
        if listed_since.is_none() {
            self.publish_object(&object);
        }
    }

    fn delete(&self, object: UntypedObject) {
        self.publish_object(&object);
    }

    fn synced(&self, _: u64) {
        self.publish(AppChange::Everything);
    }

    fn lost(&self, _: String) {}
}

/// Returns the changes of a channel. If some were missed, everything counts as changed.
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
