//! Databases that are unavailable for a while, or locked by another process.

use std::process::Command;
use std::time::Duration;

use muster_testkit::Dice;
use muster_testkit::world::{Control, Outcome, Pace, Verb, WORLD_CLUSTER};
use muster_testkit::{Database, Process};
use rstest::rstest;

use crate::facts::{self, Expected};
use crate::harness::{Harness, Kind, PACE, UNHURRIED, created, grow, new_cluster, succeeded};

/// A lease that has expired by the time an action is read again.
const HASTY: Pace = Pace { lease: 300, heartbeat: 75, safety: 100 };

/// A second database of the same server, from which the first is cut off.
async fn console() -> Database {
    muster_testkit::postgres().await.expect("it was there a moment ago").database().await
}

async fn end_sessions(console: &Database, name: &str) {
    let sql =
        format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'");
    console.psql(&sql).await;
}

#[tokio::test]
async fn actions_end_although_their_sessions_are_killed_again_and_again() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let console = console().await;
    let mut dice = Dice::roll();
    let engine = harness.engine_at(UNHURRIED).await;
    let cluster = created(&engine, 1).await;
    harness.world.control(Control::Slow(Verb::Start, 10)).await;
    for round in 1..=6 {
        let resize = grow(&engine, cluster, 2).await;
        for _ in 0..3 {
            tokio::time::sleep(dice.moment(Duration::from_millis(15))).await;
            end_sessions(&console, harness.name()).await;
        }
        succeeded(&engine.end(resize).await);
        let workers = 1 + 2 * round;
        let made = usize::try_from(workers).unwrap() + 1;
        facts::agree(&harness, cluster, Expected { workers: Some(workers), made, again: 0 }).await;
    }
    assert!(engine.stop().await.success());
    facts::no_locks(&harness).await;
}

#[rstest]
#[case::for_less_than_the_lease(UNHURRIED, "trying again")]
#[case::for_more_than_the_lease(HASTY, "cannot read the action")]
#[tokio::test]
async fn an_action_continues_once_the_database_is_back(#[case] pace: Pace, #[case] words: &str) {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let console = console().await;
    let engine = harness.engine_at(pace).await;
    let cluster = created(&engine, 1).await;
    harness.world.control(Control::Hold(Verb::Start, 0)).await;
    let resize = grow(&engine, cluster, 2).await;
    harness.world.until(Verb::Start, Outcome::Held, 2).await;
    let name = harness.name();
    console.psql(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).await;
    end_sessions(&console, name).await;
    harness.world.control(Control::Release).await;
    engine.says(words).await;
    console.psql(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).await;
    succeeded(&engine.end(resize).await);
    facts::agree(&harness, cluster, Expected { workers: Some(3), made: 4, again: 0 }).await;
    assert!(engine.stop().await.success());
    facts::no_locks(&harness).await;
}

/// Holds the file for writing, for two seconds.
const LOCK: &str = "import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute('BEGIN IMMEDIATE')
print('locked', flush=True)
time.sleep(2)
connection.execute('COMMIT')";

#[rstest]
#[case::for_less_than_the_lease(UNHURRIED)]
#[case::for_more_than_the_lease(PACE)]
#[tokio::test]
async fn nothing_is_lost_while_another_process_locks_the_file(#[case] pace: Pace) {
    let Some(harness) = Harness::open(Kind::Sqlite).await else { return };
    let engine = harness.engine_at(pace).await;
    let cluster = created(&engine, 1).await;
    harness.world.control(Control::Hold(Verb::Start, 0)).await;
    let resize = grow(&engine, cluster, 2).await;
    harness.world.until(Verb::Start, Outcome::Held, 2).await;
    let mut command = Command::new("python3");
    command.args(["-c", LOCK]).arg(harness.file());
    let mut locker = Process::spawn("locker", &command);
    locker.wait_for_line("locked", Duration::from_secs(10)).await;
    harness.world.control(Control::Release).await;
    // Requested while no write is possible: the request waits.
    let second = new_cluster();
    let create = engine.create(second, WORLD_CLUSTER, 2).await.id;
    succeeded(&engine.end(resize).await);
    succeeded(&engine.end(create).await);
    assert!(locker.wait_for_exit(Duration::from_secs(10)).await.success());
    facts::agree(&harness, cluster, Expected { workers: Some(3), made: 4, again: 0 }).await;
    facts::agree(&harness, second, Expected { workers: Some(2), made: 3, again: 0 }).await;
    assert!(engine.stop().await.success());
    facts::no_locks(&harness).await;
}
