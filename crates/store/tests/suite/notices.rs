//! What replicas are told, also when it cannot be said what.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use muster_core::action::{ActionKind, ActionStatus, OnConflict};
use muster_store::commands::End;
use muster_store::{Listener, Store, Touched};
use muster_testkit::database_test;
use parking_lot::Mutex;
use tokio::sync::broadcast::Receiver;

use crate::harness::{self, Harness, Kind, action_id, claim, living, record, request};

/// Longer than anything here takes; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// More actions than one notice can name.
const MANY: u128 = 200;

async fn hears(commits: &mut Receiver<Touched>, expected: Touched) {
    let heard = async { while commits.recv().await.expect("a store that tells") != expected {} };
    tokio::time::timeout(PATIENCE, heard).await.unwrap_or_else(|_| panic!("never told of {expected:?}"));
}

/// A replica that is certainly listening, with what it is told from then on.
async fn listening(harness: &Harness) -> (Store, Receiver<Touched>) {
    let replica = harness.replica().await.expect("PostgreSQL has replicas");
    let mut commits = replica.subscribe();
    hears(&mut commits, Touched::Everything).await;
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
    hears(&mut commits, Touched::Everything).await;
    replica.close().await;
}

#[tokio::test]
async fn the_last_commit_of_a_replica_that_stops_is_announced() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let (replica, mut commits) = listening(&harness).await;
    harness.create(1).await;
    harness.store.close().await;
    hears(&mut commits, Touched::Action(action_id(1))).await;
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
            missing.remove(&commits.recv().await.expect("a store that tells"));
        }
    };
    let notified = tokio::time::timeout(PATIENCE, notified).await;
    assert!(notified.is_ok(), "no notice of {missing:?}");
    replica.close().await;
}

#[tokio::test]
async fn whoever_was_cut_off_reads_everything_again() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let (replica, mut commits) = listening(&harness).await;
    harness.cut_listeners().await;
    hears(&mut commits, Touched::Everything).await;
    harness.create(1).await;
    hears(&mut commits, Touched::Action(action_id(1))).await;
    replica.close().await;
}

/// Everything that was told since it was last asked.
#[derive(Default)]
struct Heard(Mutex<Vec<Touched>>);

impl Heard {
    fn of(store: &Store) -> Arc<Self> {
        let heard = Arc::new(Self::default());
        let listener: Weak<Self> = Arc::downgrade(&heard);
        store.listen(listener);
        heard
    }

    fn take(&self) -> Vec<Touched> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Listener for Heard {
    fn on_commit(&self, touched: &[Touched]) {
        self.0.lock().extend(touched);
    }
}

#[database_test]
async fn whoever_listens_knows_of_a_commit_before_whoever_asked_for_it_has_an_answer(harness: Harness) {
    let heard = Heard::of(&harness.store);
    for number in 1..=3 {
        harness.create(number).await;
        let told = heard.take();
        assert!(told.contains(&Touched::Action(action_id(number))), "{told:?}");
        assert!(told.contains(&Touched::Work), "{told:?}");
    }
}

#[database_test]
async fn an_end_tells_whoever_looks_for_work_only_if_something_waits(harness: Harness) {
    let store = &harness.store;
    let heard = Heard::of(store);
    let engine = living(store, 9).await;
    for (number, waiting) in [(1, false), (3, true)] {
        harness.create(number).await;
        let claimed = store.claim(claim(engine)).await.unwrap().remove(0);
        if waiting {
            let cluster = harness::cluster(number).id;
            let behind = request(number + 1, ActionKind::ClusterDelete, cluster, OnConflict::Queue);
            store.accept(behind).await.unwrap();
        }
        heard.take();
        let mut end = record(&claimed);
        end.end = Some(End { status: ActionStatus::Succeeded, reason: String::new() });
        store.record(end).await.unwrap();
        let told = heard.take();
        assert!(told.contains(&Touched::Action(action_id(number))), "{told:?}");
        assert_eq!(told.contains(&Touched::Work), waiting, "{told:?}");
    }
}
