//! An engine that is paused longer than its lease, while another engine takes its actions over.

use std::collections::BTreeSet;

use muster_testkit::world::{Control, Outcome, Verb, WORLD_NODE};

use crate::facts::{self, Expected};
use crate::harness::{Harness, Kind, grow, new_cluster, succeeded};

#[tokio::test]
async fn an_engine_that_slept_too_long_does_nothing_twice_and_begins_again() {
    let Some(harness) = Harness::open(Kind::Postgres).await else { return };
    let world = &harness.world;
    let sleeper = harness.engine().await;
    let cluster = new_cluster();
    // More nodes than are started at once: when the engine is paused, some starts are in progress and some have not
    // begun.
    world.control(Control::Hold(Verb::Start, 0)).await;
    let create = sleeper.create(cluster, WORLD_NODE, 8).await.id;
    world.until(Verb::Start, Outcome::Held, 4).await;
    sleeper.pause();
    let overtaken = world.log().last().unwrap().fence;

    let other = harness.engine().await;
    world.until(Verb::Start, Outcome::Held, 8).await;
    world.control(Control::Release).await;
    let action = other.end(create).await;
    succeeded(&action);
    assert!(action.fence > overtaken, "{:?} {overtaken:?}", action.fence);
    assert_eq!(action.owner, Some(other.first_id()));
    let refused: Vec<_> = world.log().into_iter().filter(|entry| entry.outcome == Outcome::Refused).collect();
    assert_eq!(refused.len(), 4, "what it had under way\n{}", world.tail());
    assert!(refused.iter().all(|entry| entry.fence == overtaken));

    sleeper.wake();
    assert!(other.stop().await.success());
    let resize = grow(&sleeper, cluster, 2).await;
    let action = sleeper.end(resize).await;
    succeeded(&action);
    assert_eq!(action.owner, Some(sleeper.id().await));
    assert_ne!(action.owner, Some(sleeper.first_id()), "it continues under a new name");
    facts::agree(&harness, cluster, Expected { workers: Some(10), made: 10, again: 0 }).await;
    let accepted: BTreeSet<_> =
        world.log().iter().filter(|entry| entry.is_accepted()).map(|entry| entry.fence).collect();
    assert!(
        !world
            .log()
            .iter()
            .any(|entry| { entry.fence == overtaken && entry.verb == Verb::Start && entry.is_accepted() })
    );
    assert_eq!(accepted.len(), 3, "the first look, the other's work, and the new life's\n{}", world.tail());
    assert!(sleeper.stop().await.success());
    facts::no_locks(&harness).await;
}
