//! Notices between replicas, including those for unknown changes.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use muster_core::action::{ActionKind, ActionStatus, OnConflict};
use muster_store::commands::ActionEnd;
use muster_store::{Listener, Store, Touched};
use muster_testkit::database_test;
use parking_lot::Mutex;
use tokio::sync::broadcast::Receiver;

use crate::harness::{self, Harness, Kind, action_id, claim, living, record, request};

/// A time limit that only a hang reaches.
const PATIENCE: Duration = Duration::from_secs(30);

/// More actions than one notice can name.
const MANY: u128 = 200;

async fn receives(commits: &mut Receiver<Touched>, expected: Touched) {
    let notified = async { while commits.recv().await.expect("a store that notifies") != expected {} };
    tokio::time::timeout(PATIENCE, notified)
        .await
        .unwrap_or_else(|_| panic!("no notification of {expected:?}"));
}

/// A replica whose listener is connected, with its later notifications.
async fn listening(harness: &Harness) -> (Store, Receiver<Touched>) {
    let replica = harness.replica().await.expect("PostgreSQL has replicas");
    let mut commits = replica.subscribe();
    receives(&mut commits, Touched::Everything).await;
    (replica, commits)
}

#[tokio::test]
async fn a_commit_that_touches_too_much_for_a_notice_makes_other_replicas_read_everything_again() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    for number in 1..=MANY {
        harness.create(number).await;
    }
    let engine = living(&harness.store, 1).await;
    let (replica, mut commits) = listening(&harness).await;
    let mut all = claim(engine);
    all.limit = u32::try_from(MANY).unwrap();
    let claimed = harness.store.claim(all).await.unwrap();
    assert_eq!(claimed.len(), usize::try_from(MANY).unwrap());
    receives(&mut commits, Touched::Everything).await;
    replica.close().await;
}

#[tokio::test]
async fn the_last_commit_of_a_replica_that_stops_is_announced() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let (replica, mut commits) = listening(&harness).await;
    harness.create(1).await;
    harness.store.close().await;
    receives(&mut commits, Touched::Action(action_id(1))).await;
    replica.close().await;
}

#[tokio::test]
async fn commits_that_are_made_at_once_are_all_announced() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let (replica, mut commits) = listening(&harness).await;
    futures::future::join_all((1..=60).map(|number| harness.create(number))).await;
    let mut missing: HashSet<Touched> = (1..=60).map(|number| Touched::Action(action_id(number))).collect();
    let notified = async {
        while !missing.is_empty() {
            missing.remove(&commits.recv().await.expect("a store that notifies"));
        }
    };
    let notified = tokio::time::timeout(PATIENCE, notified).await;
    assert!(notified.is_ok(), "no notice of {missing:?}");
    replica.close().await;
}

#[tokio::test]
async fn a_replica_that_was_cut_off_reads_everything_again() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let (replica, mut commits) = listening(&harness).await;
    harness.cut_listeners().await;
    receives(&mut commits, Touched::Everything).await;
    harness.create(1).await;
    receives(&mut commits, Touched::Action(action_id(1))).await;
    replica.close().await;
}

/// All notifications since the last call of `drain`.
#[derive(Default)]
struct Recorder(Mutex<Vec<Touched>>);

impl Recorder {
    fn listen_to(store: &Store) -> Arc<Self> {
        let recorder = Arc::new(Self::default());
        let listener: Weak<Self> = Arc::downgrade(&recorder);
        store.listen(listener);
        recorder
    }

    fn drain(&self) -> Vec<Touched> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Listener for Recorder {
    fn on_commit(&self, touched: &[Touched]) {
        self.0.lock().extend(touched);
    }
}

#[database_test]
async fn listeners_are_notified_of_a_commit_before_its_caller_has_an_answer(harness: Harness) {
    let recorder = Recorder::listen_to(&harness.store);
    for number in 1..=3 {
        harness.create(number).await;
        let notified = recorder.drain();
        assert!(notified.contains(&Touched::Action(action_id(number))), "{notified:?}");
        assert!(notified.contains(&Touched::Work), "{notified:?}");
    }
}

#[database_test]
async fn an_end_notifies_dispatchers_only_if_something_waits(harness: Harness) {
    let store = &harness.store;
    let recorder = Recorder::listen_to(store);
    let engine = living(store, 9).await;
    for (number, waiting) in [(1, false), (3, true)] {
        harness.create(number).await;
        let claimed = store.claim(claim(engine)).await.unwrap().remove(0);
        if waiting {
            let cluster = harness::cluster(number).id;
            let behind = request(number + 1, ActionKind::ClusterDelete, cluster, OnConflict::Queue);
            store.accept(behind).await.unwrap();
        }
        recorder.drain();
        let mut end = record(&claimed);
        end.end = Some(ActionEnd { status: ActionStatus::Succeeded, reason: String::new() });
        store.record(end).await.unwrap();
        let notified = recorder.drain();
        assert!(notified.contains(&Touched::Action(action_id(number))), "{notified:?}");
        assert_eq!(notified.contains(&Touched::Work), waiting, "{notified:?}");
    }
}
