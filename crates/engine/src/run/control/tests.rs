use std::collections::HashMap;

use muster_core::action::ActionKind;
use muster_core::sample;
use muster_store::Store;
use rstest::rstest;
use tempfile::TempDir;
use tokio::sync::Semaphore;

use super::*;
use crate::config::Config;
use crate::context::ContextParts;
use crate::metrics::Metrics;
use crate::policy::Policies;
use crate::ports::clock::Clock;
use crate::ports::webhook::NoWebhooks;

const NOW: Timestamp = Timestamp::from_micros(100_000_000);

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        NOW
    }
}

/// The causes for which an action may have to stop, by rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Cause {
    Nothing,
    EngineStops,
    Timeout,
    Signal,
    LeaseExpires,
}

/// A control of an action that began 10 s ago and may take 60 s, with all causes up to this one.
async fn control(cause: Cause) -> (TempDir, RunControl) {
    let folder = tempfile::tempdir().unwrap();
    let parts = ContextParts {
        store: Store::open_file(&folder.path().join("muster.db")).await.unwrap(),
        providers: HashMap::new(),
        policies: Policies::standard(),
        hooks: Arc::new(NoWebhooks),
        clock: Arc::new(FixedClock),
        config: Config::default(),
        metrics: Metrics::default(),
    };
    let context = Arc::new(Context::new(parts));
    if cause >= Cause::EngineStops {
        context.stopping.cancel();
    }
    let timeout = TimeSpan::from_secs(if cause >= Cause::Timeout { 10 } else { 60 });
    let lease = Lease::new();
    lease.renew(if cause >= Cause::LeaseExpires { NOW } else { NOW.after(TimeSpan::from_secs(15)) });
    let action = Action {
        started_at: Some(Timestamp::from_micros(90_000_000)),
        timeout,
        control: (cause >= Cause::Signal).then_some(action::Control::Cancel),
        ..sample::action(5, ActionKind::ClusterResize, sample::cluster(1, 0, None).id)
    };
    (folder, RunControl::new(&context, &lease, &Arc::new(action), None))
}

#[rstest]
#[case::nothing(Cause::Nothing, "Ok(())")]
#[case::engine_stops(Cause::EngineStops, "Err(HandOver)")]
#[case::timeout(Cause::Timeout, "Err(TimedOut)")]
#[case::signal(Cause::Signal, "Err(Cancelled)")]
#[case::lease(Cause::LeaseExpires, "Err(Fenced)")]
#[tokio::test]
async fn of_several_causes_the_gravest_stops_an_action(#[case] cause: Cause, #[case] expected: &str) {
    let (_folder, control) = control(cause).await;
    assert_eq!(format!("{:?}", control.check()), expected);
}

#[tokio::test]
async fn a_step_ends_at_its_deadline_or_with_the_timeout_of_its_action() {
    let (_folder, mut control) = control(Cause::Nothing).await;
    assert_eq!(control.time_left(), TimeSpan::from_secs(50));
    control.deadline = Some(NOW.after(TimeSpan::from_secs(20)));
    assert_eq!(control.time_left(), TimeSpan::from_secs(20));
    control.deadline = Some(NOW.after(TimeSpan::from_secs(90)));
    assert_eq!(control.time_left(), TimeSpan::from_secs(50));
    control.deadline = Some(NOW);
    assert!(matches!(control.check(), Err(Stop::TimedOut)));
}

#[tokio::test]
async fn the_signal_that_a_commit_returns_counts_at_once() {
    let (_folder, control) = control(Cause::Nothing).await;
    control.take_signal(Some(action::Control::Suspend), control.signals_version(), false);
    assert!(matches!(control.check(), Err(Stop::Suspended)));
    control.take_signal(None, control.signals_version(), false);
    assert!(control.check().is_ok(), "it was withdrawn");
}

#[tokio::test]
async fn only_cancelled_children_that_are_open_are_excluded() {
    let (_folder, control) = control(Cause::Nothing).await;
    let mut children = Children::new(&control.action, None);
    let nodes = [sample::node(1).id, sample::node(2).id];
    let begun = children.begin_all(&muster_core::change::Change::LeaveNode, &nodes, NOW);
    control.received.lock().cancelled_children = begun.iter().map(|child| child.id).collect();
    children.open.remove(&nodes[0]);
    assert_eq!(control.cancelled(&children), [(nodes[1], begun[1].id)]);
    control.interrupted_or_child_cancelled(&children).await.unwrap();
}

#[tokio::test]
async fn a_waiting_action_occupies_no_slot() {
    let (_folder, mut control) = control(Cause::Nothing).await;
    let slots = Arc::new(Semaphore::new(1));
    control.slot = Slot::take(&slots).await;
    assert_eq!(slots.available_permits(), 0);
    let wait = async {
        tokio::task::yield_now().await;
        slots.available_permits()
    };
    assert_eq!(control.yield_slot_while(wait).await, 1);
    assert_eq!(slots.available_permits(), 0);
}
