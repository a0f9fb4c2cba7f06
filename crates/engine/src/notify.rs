//! Hears of the store's commits, and wakes just those that wait for something.

use std::collections::HashMap;
use std::sync::Arc;

use muster_core::ids::{ActionId, ClusterId};
use muster_store::{Listener, Touched};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

/// What can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// An action ended, changed slots or was told something.
    Action(ActionId),
    /// The same, or it has come nearer to its end.
    Progress(ActionId),
    /// Something in the world changed that belongs to a cluster.
    World(ClusterId),
}

/// Wakes whoever waits for an action or a cluster's world, and whoever looks for work.
#[derive(Default)]
pub(crate) struct Notifier {
    waiting: Mutex<HashMap<Topic, Waiting>>,
    /// Something may be claimed.
    pub(crate) work: Notify,
}

struct Waiting {
    /// How often it may have changed; counted, so that nothing is lost with a wait that is given up.
    version: Arc<watch::Sender<u64>>,
    listeners: usize,
}

impl Notifier {
    /// Begins to listen for a topic, until the answer is dropped.
    pub(crate) fn subscribe(self: &Arc<Self>, topic: Topic) -> Subscription {
        let mut waiting = self.waiting.lock();
        let entry = waiting.entry(topic).or_insert_with(|| Waiting { version: Arc::default(), listeners: 0 });
        entry.listeners += 1;
        Subscription { notifier: Arc::clone(self), topic, version: Arc::clone(&entry.version) }
    }

    pub(crate) fn notify(&self, topic: Topic) {
        let waiting = self.waiting.lock();
        if let Some(entry) = waiting.get(&topic) {
            entry.version.send_modify(|version| *version += 1);
        }
    }

    /// Everybody looks again.
    pub(crate) fn notify_all(&self) {
        self.work.notify_one();
        let waiting = self.waiting.lock();
        for entry in waiting.values() {
            entry.version.send_modify(|version| *version += 1);
        }
    }
}

impl Listener for Notifier {
    fn told(&self, touched: &[Touched]) {
        for touched in touched {
            match touched {
                Touched::Work => self.work.notify_one(),
                Touched::Action(id) => {
                    self.notify(Topic::Action(*id));
                    self.notify(Topic::Progress(*id));
                }
                Touched::Progress(id) => self.notify(Topic::Progress(*id)),
                Touched::Cluster(_) => {}
                Touched::Everything => self.notify_all(),
            }
        }
    }
}

/// Somebody's interest in a topic.
pub(crate) struct Subscription {
    notifier: Arc<Notifier>,
    topic: Topic,
    version: Arc<watch::Sender<u64>>,
}

impl Subscription {
    /// Taken before a look, so that nothing that happens during the look is missed.
    pub(crate) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Returns when it may have changed since that version; however often it is asked, and given up.
    pub(crate) async fn changed_since(&self, version: u64) {
        let mut present = self.version.subscribe();
        // The sender is ours too, so this cannot fail.
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
            assert!(follow.changed_since(before).now_or_never().is_some(), "it was told, and then forgotten");
        }
        assert!(other.changed_since(before).now_or_never().is_some(), "one listener took it from another");
        assert!(follow.changed_since(follow.version()).now_or_never().is_none(), "old news");
    }

    #[test]
    fn steps_on_the_way_wake_only_those_who_look_at_them() {
        let notifier = Arc::new(Notifier::default());
        let id = ActionId::from_uuid(Uuid::from_u128(1));
        let (action, progress) =
            (notifier.subscribe(Topic::Action(id)), notifier.subscribe(Topic::Progress(id)));
        notifier.told(&[Touched::Progress(id)]);
        assert_eq!((action.version(), progress.version()), (0, 1));
        notifier.told(&[Touched::Action(id)]);
        assert_eq!((action.version(), progress.version()), (1, 2), "an end is a step too");
    }

    #[test]
    fn whoever_waits_for_anything_wakes_when_everything_may_have_changed() {
        let notifier = Arc::new(Notifier::default());
        let action = notifier.subscribe(Topic::Action(ActionId::from_uuid(Uuid::now_v7())));
        let world = notifier.subscribe(Topic::World(ClusterId::from_uuid(Uuid::now_v7())));
        let (first, second) = (action.version(), world.version());
        notifier.told(&[Touched::Everything]);
        assert!(action.changed_since(first).now_or_never().is_some(), "who waits for an action sleeps on");
        assert!(world.changed_since(second).now_or_never().is_some(), "who waits for the world sleeps on");
        assert!(notifier.work.notified().now_or_never().is_some(), "nobody looks for work");
    }
}
