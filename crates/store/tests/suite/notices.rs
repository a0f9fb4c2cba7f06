//! What replicas are told, also when it cannot be said what.

use std::time::Duration;

use muster_store::{Store, Touched};
use tokio::sync::broadcast::Receiver;

use crate::fixture::{Fixture, Kind, action_id, claim, living};

/// Longer than anything here takes; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// More actions than one notice can name.
const MANY: u128 = 200;

async fn hears(commits: &mut Receiver<Touched>, expected: Touched) {
    let heard = async { while commits.recv().await.expect("a store that tells") != expected {} };
    tokio::time::timeout(PATIENCE, heard).await.unwrap_or_else(|_| panic!("never told of {expected:?}"));
}

/// A replica that is certainly listening, with what it is told from then on.
async fn listening(fixture: &Fixture) -> (Store, Receiver<Touched>) {
    let replica = fixture.replica().await.expect("PostgreSQL has replicas");
    let mut commits = replica.subscribe();
    hears(&mut commits, Touched::Everything).await;
    (replica, commits)
}

#[tokio::test]
async fn a_commit_that_touches_too_much_for_a_notice_makes_other_replicas_read_everything_again() {
    let Some(fixture) = Fixture::open(Kind::Postgres).await else { return };
    for number in 1..=MANY {
        fixture.create(number).await;
    }
    let engine = living(&fixture.store, 1).await;
    let (replica, mut commits) = listening(&fixture).await;
    let mut all = claim(engine);
    all.limit = u32::try_from(MANY).unwrap();
    let claimed = fixture.store.claim(all).await.unwrap();
    assert_eq!(claimed.len(), usize::try_from(MANY).unwrap());
    hears(&mut commits, Touched::Everything).await;
    replica.close().await;
}

#[tokio::test]
async fn whoever_was_cut_off_reads_everything_again() {
    let Some(fixture) = Fixture::open(Kind::Postgres).await else { return };
    let (replica, mut commits) = listening(&fixture).await;
    fixture.cut_listeners().await;
    hears(&mut commits, Touched::Everything).await;
    fixture.create(1).await;
    hears(&mut commits, Touched::Action(action_id(1))).await;
    replica.close().await;
}
