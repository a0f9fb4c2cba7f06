//! kill -9, at every recorded step and at any moment.

mod made;
mod node;
mod operation;
mod steps;
mod task;

use std::env;
use std::time::Duration;

use futures::future::join_all;
use muster_core::action::ActionKind;
use muster_core::ids::{ActionId, NodeId};
use muster_store::reads::ActionQuery;
use muster_testkit::world::{Control, Outcome, Replica, Verb};
use muster_testkit::{Dice, database_test};
use rstest::rstest;

use crate::facts;
use crate::harness::{Harness, Kind};
use operation::KilledOperation;
use steps::{BRIEF, KillPoint, OF_CLUSTERS, OF_NODES, OPERATIONS};
use task::Task;

/// Harnesses that run concurrently: on a server, engines mostly wait until the lease of a dead one has expired.
const LANES: usize = 4;

/// An operation, and the moment at which its engine is killed.
type Kill = (KilledOperation, Moment);

#[derive(Debug)]
enum Moment {
    /// At the n-th call of a verb; the call then arrives although its engine is dead, or is lost.
    Call(Verb, u32, Control),
    /// That long after the operation was requested.
    Later(Duration),
}

#[rstest]
#[case::clusters_sqlite(Kind::Sqlite, OF_CLUSTERS)]
#[case::clusters_postgres(Kind::Postgres, OF_CLUSTERS)]
#[case::nodes_sqlite(Kind::Sqlite, OF_NODES)]
#[case::nodes_postgres(Kind::Postgres, OF_NODES)]
#[tokio::test]
async fn an_engine_killed_at_any_recorded_step_is_survived_by_its_action(
    #[case] kind: Kind,
    #[case] steps: &[KillPoint],
) {
    let calls = steps
        .iter()
        .flat_map(|(operation, verb, afters)| afters.iter().map(|after| (*operation, *verb, *after)));
    let kills = calls.enumerate().map(|(place, (operation, verb, after))| {
        let way = if place % 2 == 0 { Control::Release } else { Control::Drop };
        (operation, Moment::Call(verb, after, way))
    });
    survive(kind, 0, kills.collect()).await;
}

#[database_test]
async fn an_engine_killed_at_any_moment_is_survived_by_its_action(kind: Kind) {
    let mut dice = Dice::roll();
    let kills =
        env::var("MUSTER_CHAOS_KILLS").map_or(OPERATIONS.len(), |kills| kills.parse().expect("a number"));
    let operations = OPERATIONS.iter().copied().cycle().take(kills);
    let kills =
        operations.map(|operation| (operation, Moment::Later(dice.moment(Duration::from_millis(60)))));
    // Slow enough that moments are spread over the whole of an action.
    survive(kind, 4, kills.collect()).await;
}

#[database_test]
async fn changes_of_few_commits_are_done_once_despite_kills(kind: Kind) {
    let mut dice = Dice::roll();
    let operations = BRIEF.iter().copied().cycle().take(3 * BRIEF.len());
    let kills = operations.map(|operation| (operation, Moment::Later(dice.moment(Duration::from_millis(8)))));
    survive(kind, 0, kills.collect()).await;
}

/// Each operation is finished by the next engine, in a world whose calls take a number of milliseconds.
async fn survive(kind: Kind, millis: u64, kills: Vec<Kill>) {
    let mut lanes = Vec::new();
    for part in kills.chunks(kills.len().div_ceil(LANES)) {
        let Some(harness) = Harness::open(kind).await else { return };
        lanes.push(one_after_another(harness, millis, part));
    }
    join_all(lanes).await;
}

async fn one_after_another(harness: Harness, millis: u64, kills: &[Kill]) {
    for verb in [Verb::Start, Verb::Stop, Verb::Create, Verb::Delete, Verb::Operate] {
        harness.world.control(Control::Slow(verb, millis)).await;
    }
    let mut engine = harness.engine().await;
    for (operation, moment) in kills {
        eprintln!("{operation:?}, killed {moment:?}");
        let task = Task::prepare(*operation, &harness, &engine).await;
        let (begun, way) = match moment {
            Moment::Call(verb, after, way) => {
                let held = harness.world.count(*verb, Outcome::Held);
                harness.world.control(Control::Hold(*verb, *after)).await;
                let begun = task.begin(&harness, &engine).await;
                harness.world.until(*verb, Outcome::Held, held + 1).await;
                (begun, Some(way.clone()))
            }
            Moment::Later(moment) => {
                let begun = task.begin(&harness, &engine).await;
                tokio::time::sleep(*moment).await;
                (begun, None)
            }
        };
        engine = next(&harness, engine, way).await;
        task.finish(&harness, &engine, begun).await;
    }
    end(&harness, engine).await;
}

#[database_test]
async fn an_action_survives_any_number_of_engines(harness: Harness) {
    let mut engine = harness.engine().await;
    let task = Task::prepare(KilledOperation::Grow, &harness, &engine).await;
    harness.world.control(Control::Hold(Verb::Start, 0)).await;
    let begun = task.begin(&harness, &engine).await;
    for number in 1..=5 {
        harness
            .world
            .until_log("three starts by one more engine", |log| starts_held(log) >= 3 * number)
            .await;
        engine = next(&harness, engine, None).await;
    }
    harness.world.control(Control::Drop).await;
    task.finish(&harness, &engine, begun).await;
    end(&harness, engine).await;
}

#[database_test]
async fn members_that_were_operated_are_not_operated_again(harness: Harness) {
    let engine = harness.engine().await;
    let task = Task::prepare(KilledOperation::Operate, &harness, &engine).await;
    harness.world.control(Control::Hold(Verb::Operate, 2)).await;
    let begun = task.begin(&harness, &engine).await;
    harness.world.until(Verb::Operate, Outcome::Held, 1).await;
    let done =
        harness.world.log().into_iter().filter(|entry| entry.verb == Verb::Operate && entry.is_accepted());
    for node in done.filter_map(|entry| entry.node) {
        // The result of a node is recorded while the others are in progress, not when all have ended.
        engine.end(part_for(&harness, node).await).await;
    }
    let engine = next(&harness, engine, Some(Control::Drop)).await;
    task.finish(&harness, &engine, begun).await;
    assert_eq!(harness.world.count(Verb::Operate, Outcome::Done), 3, "{}", harness.world.tail());
    end(&harness, engine).await;
}

/// The child action of an operation that is about a node.
async fn part_for(harness: &Harness, node: NodeId) -> ActionId {
    let store = harness.store().await;
    let kinds = vec![ActionKind::NodeOperation];
    let parts = store.actions(&ActionQuery { node: Some(node), kinds, ..ActionQuery::default() }).await;
    store.close().await;
    parts.expect("the store answers").items[0].id
}

fn starts_held(log: &[muster_testkit::world::Entry]) -> usize {
    log.iter().filter(|entry| entry.verb == Verb::Start && entry.outcome == Outcome::Held).count()
}

/// Kills an engine, releases its pending calls, and starts another.
async fn next(harness: &Harness, engine: Replica, way: Option<Control>) -> Replica {
    engine.kill().await;
    if let Some(way) = way {
        harness.world.control(way).await;
    }
    harness.engine().await
}

async fn end(harness: &Harness, engine: Replica) {
    assert!(engine.stop().await.success());
    facts::no_locks(harness).await;
}
