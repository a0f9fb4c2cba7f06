//! kill -9, at every recorded step and at any moment.

mod deed;

use std::env;
use std::time::Duration;

use muster_testkit::Dice;
use muster_testkit::world::{Control, Outcome, Replica, Verb};
use rstest::rstest;

use crate::facts;
use crate::ground::{Ground, Kind};
use deed::{Deed, Task};

/// The moments between two records: a call that an engine has begun and has no answer to.
const STEPS: &[(Deed, Verb, u32)] = &[
    (Deed::Create, Verb::Create, 0),
    (Deed::Create, Verb::Observe, 0),
    (Deed::Create, Verb::Start, 0),
    (Deed::Create, Verb::Observe, 1),
    (Deed::Create, Verb::Start, 1),
    (Deed::Create, Verb::Start, 3),
    (Deed::Create, Verb::Observe, 2),
    (Deed::Grow, Verb::Observe, 0),
    (Deed::Grow, Verb::Start, 0),
    (Deed::Grow, Verb::Start, 2),
    (Deed::Grow, Verb::Observe, 1),
    (Deed::Shrink, Verb::Stop, 0),
    (Deed::Shrink, Verb::Stop, 1),
    (Deed::Shrink, Verb::Observe, 1),
    (Deed::Delete, Verb::Stop, 0),
    (Deed::Delete, Verb::Stop, 3),
    (Deed::Delete, Verb::Delete, 0),
    (Deed::Heal, Verb::Observe, 0),
    (Deed::Heal, Verb::Observe, 1),
    (Deed::Heal, Verb::Start, 0),
    (Deed::Heal, Verb::Observe, 2),
    (Deed::ScaleIn, Verb::Stop, 0),
    (Deed::ScaleIn, Verb::Stop, 2),
    (Deed::ScaleIn, Verb::Observe, 1),
    (Deed::Remove, Verb::Stop, 0),
    (Deed::Remove, Verb::Stop, 2),
    (Deed::Remove, Verb::Observe, 1),
];

const DEEDS: [Deed; 8] = [
    Deed::Create,
    Deed::Grow,
    Deed::Shrink,
    Deed::Delete,
    Deed::Heal,
    Deed::ScaleIn,
    Deed::Remove,
    Deed::Add,
];

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_engine_killed_at_any_recorded_step_is_survived_by_its_action(#[case] kind: Kind) {
    let Some(ground) = Ground::open(kind).await else { return };
    let mut engine = ground.engine().await;
    for (place, (deed, verb, after)) in STEPS.iter().copied().enumerate() {
        eprintln!("{deed:?}, killed at {verb:?} after {after}");
        let task = Task::prepare(deed, &ground, &engine).await;
        let held = ground.world.count(verb, Outcome::Held);
        ground.world.tell(Control::Hold(verb, after)).await;
        let begun = task.begin(&ground, &engine).await;
        ground.world.until(verb, Outcome::Held, held + 1).await;
        // What was under way gets there although its engine is dead, or gets lost: both happen.
        let way = if place % 2 == 0 { Control::Release } else { Control::Drop };
        engine = next(&ground, engine, Some(way)).await;
        task.finish(&ground, &engine, begun).await;
    }
    end(&ground, engine).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_engine_killed_at_any_moment_is_survived_by_its_action(#[case] kind: Kind) {
    let Some(ground) = Ground::open(kind).await else { return };
    let mut dice = Dice::roll();
    let kills: u32 = env::var("MUSTER_CHAOS_KILLS").map_or(10, |kills| kills.parse().expect("a number"));
    for verb in [Verb::Start, Verb::Stop, Verb::Create, Verb::Delete] {
        // So that moments are spread over the whole of an action.
        ground.world.tell(Control::Slow(verb, 4)).await;
    }
    let mut engine = ground.engine().await;
    for number in 0..kills {
        let deed = dice.pick(&DEEDS);
        let moment = dice.moment(Duration::from_millis(60));
        eprintln!("kill {number}: {deed:?}, killed after {moment:?}");
        let task = Task::prepare(deed, &ground, &engine).await;
        let begun = task.begin(&ground, &engine).await;
        tokio::time::sleep(moment).await;
        engine = next(&ground, engine, None).await;
        task.finish(&ground, &engine, begun).await;
    }
    end(&ground, engine).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn nodes_that_are_added_are_added_once_whoever_is_killed_meanwhile(#[case] kind: Kind) {
    let Some(ground) = Ground::open(kind).await else { return };
    let mut dice = Dice::roll();
    let mut engine = ground.engine().await;
    for _ in 0..5 {
        let task = Task::prepare(Deed::Add, &ground, &engine).await;
        let begun = task.begin(&ground, &engine).await;
        // There is nothing to be held at: it is a few commits, and over in as many milliseconds.
        tokio::time::sleep(dice.moment(Duration::from_millis(8))).await;
        engine = next(&ground, engine, None).await;
        task.finish(&ground, &engine, begun).await;
    }
    end(&ground, engine).await;
}

#[rstest]
#[case::sqlite(Kind::Sqlite)]
#[case::postgres(Kind::Postgres)]
#[tokio::test]
async fn an_action_survives_any_number_of_engines(#[case] kind: Kind) {
    let Some(ground) = Ground::open(kind).await else { return };
    let mut engine = ground.engine().await;
    let task = Task::prepare(Deed::Grow, &ground, &engine).await;
    ground.world.tell(Control::Hold(Verb::Start, 0)).await;
    let begun = task.begin(&ground, &engine).await;
    for number in 1..=5 {
        ground.world.until_log("three starts by one more engine", |log| starts_held(log) >= 3 * number).await;
        engine = next(&ground, engine, None).await;
    }
    ground.world.tell(Control::Drop).await;
    task.finish(&ground, &engine, begun).await;
    end(&ground, engine).await;
}

fn starts_held(log: &[muster_testkit::world::Entry]) -> usize {
    log.iter().filter(|entry| entry.verb == Verb::Start && entry.outcome == Outcome::Held).count()
}

/// Kills an engine, lets go what it left, and starts another.
async fn next(ground: &Ground, engine: Replica, way: Option<Control>) -> Replica {
    engine.kill().await;
    if let Some(way) = way {
        ground.world.tell(way).await;
    }
    ground.engine().await
}

async fn end(ground: &Ground, engine: Replica) {
    assert!(engine.stop().await.success());
    facts::no_locks(ground).await;
}
