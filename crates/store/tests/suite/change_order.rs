//! The order of changes on PostgreSQL, where transactions commit in another order than they began.

use std::collections::BTreeSet;

use muster_store::Store;
use muster_store::reads::{Changed, Position};
use sqlx::{Connection as _, Executor as _, PgConnection};

use crate::changes::{everything, follow, names, newest};
use crate::harness::{self, Harness, Kind, creation};
use crate::lists::deleted;
use crate::raw::RawDatabase;
use crate::versions::version_1;

/// The changes that a new watch gets at once when it begins at a position.
async fn changes_after(store: &Store, after: Position) -> Vec<Changed> {
    store.clusters_changed(everything(after, 10)).await.expect("the store answers").clusters
}

/// Checks that a watch gets a change at once, although a transaction of this session has written and stays open.
async fn is_not_delayed_by(harness: &Harness, mut session: PgConnection) {
    for sql in ["CREATE TABLE theirs (id BIGINT)", "BEGIN", "INSERT INTO theirs VALUES (1)"] {
        session.execute(sql).await.expect("the statement runs");
    }
    let start = newest(&harness.store).await;
    harness.create(1).await;
    assert_eq!(names(&changes_after(&harness.store, start).await), ["c1"]);
    session.close().await.expect("the session ends");
}

#[tokio::test]
async fn an_open_transaction_in_another_database_delays_nothing() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let other = muster_testkit::postgres().await.expect("there is one").database().await;
    let session = PgConnection::connect(other.url()).await.unwrap();
    is_not_delayed_by(&harness, session).await;
}

#[tokio::test]
async fn an_open_transaction_of_another_program_delays_nothing() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let session = harness.session().await;
    is_not_delayed_by(&harness, session).await;
}

#[tokio::test]
async fn a_change_that_is_overtaken_by_a_later_one_is_delivered_once_it_commits() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let other = harness.replica().await.expect("PostgreSQL has replicas");
    let held = harness.hold("INSERT ON clusters", "NEW.name = 'c1'").await;
    let start = newest(&harness.store).await;
    let first = harness.store.accept(creation(1));
    let second = async {
        harness.until_a_session_waits("advisory").await;
        other.accept(creation(2)).await.unwrap();
        let changes = other.clusters_changed(everything(start, 10)).await.unwrap();
        let begun_meanwhile = newest(&other).await;
        held.close().await.unwrap();
        (changes, begun_meanwhile)
    };
    let (accepted, (changes, begun_meanwhile)) = futures::join!(first, second);
    accepted.unwrap();
    let mut seen = changes.clusters;
    seen.extend(changes_after(&other, changes.position).await);
    let seen: BTreeSet<&str> = names(&seen).into_iter().collect();
    assert_eq!(seen, BTreeSet::from(["c1", "c2"]));
    let late = changes_after(&other, begun_meanwhile).await;
    assert!(names(&late).contains(&"c1"), "a watch that began meanwhile never gets it: {:?}", names(&late));
}

#[tokio::test]
async fn a_change_that_is_undone_delays_nothing() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let start = newest(&harness.store).await;
    harness.create(1).await;
    let mut again = creation(2);
    again.cluster.as_mut().expect("a cluster").cluster.name = "c1".to_owned();
    harness.store.accept(again).await.unwrap_err();
    harness.create(3).await;
    assert_eq!(names(&changes_after(&harness.store, start).await), ["c1", "c3"]);
}

#[tokio::test]
async fn a_change_that_commits_late_is_not_missed() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let other = harness.replica().await.expect("PostgreSQL has replicas");
    let start = newest(&harness.store).await;
    let writes = (1..=30).map(|number| {
        let store = if number % 2 == 0 { harness.store.clone() } else { other.clone() };
        async move { store.accept(creation(number)).await.unwrap() }
    });
    let distinct =
        |changed: &[Changed]| changed.iter().map(|changed| changed.cluster.id).collect::<BTreeSet<_>>();
    let follow = follow(&harness.store, start, 4, |changed| distinct(changed).len() == 30);
    futures::future::join(futures::future::join_all(writes), follow).await;
}

/// The numbers of a database whose transaction ids were far higher than those of the server that has it now.
const FROM_A_BUSIER_SERVER: &str = "UPDATE clusters SET change = change + 1000000000000, born = born + 1000000000000; \
     INSERT INTO counters (name, value) VALUES ('forgotten', 1000000000000) \
         ON CONFLICT (name) DO UPDATE SET value = excluded.value";

#[tokio::test]
async fn changes_continue_above_those_of_an_earlier_server() {
    let Some(database) = version_1(Kind::Postgres).await else { return };
    database.execute(FROM_A_BUSIER_SERVER).await;
    let known = Position::at(highest_change(&database).await);
    let store = database.open().await;
    let bounds = store.change_bounds().await.unwrap();
    assert!((bounds.oldest..=bounds.last).contains(&known.change), "{known:?} cannot be resumed: {bounds:?}");
    store.accept(creation(1)).await.unwrap();
    let changes = changes_after(&store, known).await;
    assert_eq!(names(&changes), ["c1"]);
    assert!(changes[0].born > known.known_until, "it seems to be known already");
}

async fn highest_change(database: &RawDatabase) -> i64 {
    let clusters = database.table("clusters").await;
    clusters.values().filter_map(|row| row["change"].as_i64()).max().expect("there are clusters")
}

#[tokio::test]
async fn a_watch_continues_where_the_database_was_dumped_and_restored() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let start = newest(&harness.store).await;
    harness.create(1).await;
    harness.create(2).await;
    let (_, position) = follow(&harness.store, start, 10, |changed| changed.len() == 2).await;
    deleted(&harness, 1).await;
    let restored = harness.database().dump_and_restore().await;
    let store = Store::connect(restored.url()).await.unwrap();
    let bounds = store.change_bounds().await.unwrap();
    assert!((bounds.oldest..=bounds.last).contains(&position.change), "{position:?}, {bounds:?}");
    store.accept(creation(3)).await.unwrap();
    let changes = changes_after(&store, position).await;
    let gone = |changed: &Changed| {
        changed.cluster.id == harness::cluster(1).id && changed.cluster.deleted_at.is_some()
    };
    assert!(
        changes.iter().any(|changed| gone(changed) && changed.born <= position.known_until),
        "{:?}",
        names(&changes)
    );
    assert!(
        changes.iter().any(|changed| changed.cluster.name == "c3" && changed.born > position.known_until)
    );
    store.close().await;
}
