//! Notifies subscribers of the store's commits, by topic.

use std::collections::HashMap;
use std::sync::Arc;

use muster_core::ids::{ActionId, ClusterId, TaskId};
use muster_store::{Listener, Touched};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

/// A topic of notifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// An action ended, changed its owner or received a signal.
    Action(ActionId),
    /// An action ended, changed its owner, received a signal or made progress.
    Progress(ActionId),
    /// The provider reported a change of a cluster.
    World(ClusterId),
    /// The row of a cluster changed.
    Cluster(ClusterId),
    /// A task was stored or requeued.
    Tasks,
    /// A task made progress, ended, or was asked to end.
    Task(TaskId),
}

/// Wakes subscribers of actions and clusters, and the dispatcher.
#[derive(Default)]
pub(crate) struct Notifier {
    waiting: Mutex<HashMap<Topic, TopicListeners>>,
    /// Notified when an action may be ready to be claimed.
    pub(crate) work: Notify,
}

struct TopicListeners {
    /// Counts notifications, so that none is lost when a wait is dropped.
    version: Arc<watch::Sender<u64>>,
    listeners: usize,
}

impl Notifier {
    /// Subscribes to a topic until the subscription is dropped.
    pub(crate) fn subscribe(self: &Arc<Self>, topic: Topic) -> Subscription {
        let mut waiting = self.waiting.lock();
        let entry =
            waiting.entry(topic).or_insert_with(|| TopicListeners { version: Arc::default(), listeners: 0 });
        entry.listeners += 1;
        Subscription { notifier: Arc::clone(self), topic, version: Arc::clone(&entry.version) }
    }

    pub(crate) fn notify(&self, topic: Topic) {
        let waiting = self.waiting.lock();
        if let Some(entry) = waiting.get(&topic) {
            entry.version.send_modify(|version| *version += 1);
        }
    }

    /// Wakes all subscribers.
    pub(crate) fn notify_all(&self) {
        self.work.notify_one();
        let waiting = self.waiting.lock();
        for entry in waiting.values() {
            entry.version.send_modify(|version| *version += 1);
        }
    }
}

impl Listener for Notifier {
    fn on_commit(&self, touched: &[Touched]) {
        for touched in touched {
            match touched {
                Touched::Work => self.work.notify_one(),
                Touched::Tasks => self.notify(Topic::Tasks),
                Touched::Task(id) => self.notify(Topic::Task(*id)),
                Touched::Action(id) => {
                    self.notify(Topic::Action(*id));
                    self.notify(Topic::Progress(*id));
                }
                Touched::Progress(id) => self.notify(Topic::Progress(*id)),
                Touched::Cluster(id) => self.notify(Topic::Cluster(*id)),
                Touched::Apps => {}
                Touched::Everything => self.notify_all(),
            }
        }
    }
}

/// A subscription to a topic.
pub(crate) struct Subscription {
    notifier: Arc<Notifier>,
    topic: Topic,
    version: Arc<watch::Sender<u64>>,
}

impl Subscription {
    /// Returns the current version. Callers take it before a read, so that they miss no change during the read.
    pub(crate) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Returns when the topic may have changed since that version. Cancel-safe.
    pub(crate) async fn changed_since(&self, version: u64) {
        let mut present = self.version.subscribe();
        // The sender is held here too, so this cannot fail.
        drop(present.wait_for(|present| *present != version).await);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut waiting = self.notifier.waiting.lock();
        if let Some(entry) = waiting.get_mut(&self.topic) {
            entry.listeners -= 1;
            if entry.listeners == 0 {
                waiting.remove(&self.topic);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_notice_is_not_lost_with_a_wait_that_is_given_up() {
        let notifier = Arc::new(Notifier::default());
        let topic = Topic::Action(ActionId::from_uuid(Uuid::from_u128(1)));
        let (follow, other) = (notifier.subscribe(topic), notifier.subscribe(topic));
        let before = follow.version();
        assert!(follow.changed_since(before).now_or_never().is_none(), "nothing has happened");
        notifier.notify(topic);
        for _ in 0..2 {
            assert!(follow.changed_since(before).now_or_never().is_some(), "a notification was forgotten");
        }
        assert!(other.changed_since(before).now_or_never().is_some(), "one listener took it from another");
        assert!(follow.changed_since(follow.version()).now_or_never().is_none(), "old news");
    }

    #[test]
    fn progress_wakes_only_its_subscribers() {
        let notifier = Arc::new(Notifier::default());
        let id = ActionId::from_uuid(Uuid::from_u128(1));
        let (action, progress) =
            (notifier.subscribe(Topic::Action(id)), notifier.subscribe(Topic::Progress(id)));
        notifier.on_commit(&[Touched::Progress(id)]);
        assert_eq!((action.version(), progress.version()), (0, 1));
        notifier.on_commit(&[Touched::Action(id)]);
        assert_eq!((action.version(), progress.version()), (1, 2), "an end is a step too");
    }

    #[test]
    fn progress_of_a_task_wakes_only_those_who_follow_it() {
        let notifier = Arc::new(Notifier::default());
        let id = TaskId::from_uuid(Uuid::from_u128(1));
        let other = notifier.subscribe(Topic::Task(TaskId::from_uuid(Uuid::from_u128(2))));
        let (tasks, task) = (notifier.subscribe(Topic::Tasks), notifier.subscribe(Topic::Task(id)));
        notifier.on_commit(&[Touched::Task(id)]);
        assert_eq!((tasks.version(), task.version(), other.version()), (0, 1, 0));
    }

    #[test]
    fn all_subscribers_wake_when_everything_may_have_changed() {
        let notifier = Arc::new(Notifier::default());
        let action = notifier.subscribe(Topic::Action(ActionId::from_uuid(Uuid::now_v7())));
        let world = notifier.subscribe(Topic::World(ClusterId::from_uuid(Uuid::now_v7())));
        let (first, second) = (action.version(), world.version());
        notifier.on_commit(&[Touched::Everything]);
        assert!(action.changed_since(first).now_or_never().is_some(), "who waits for an action sleeps on");
        assert!(world.changed_since(second).now_or_never().is_some(), "who waits for the world sleeps on");
        assert!(notifier.work.notified().now_or_never().is_some(), "the dispatcher sleeps on");
    }
}
