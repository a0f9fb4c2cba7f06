//! The world executes only calls with a valid fence.

use uuid::Uuid;

use super::*;

fn call(verb: Verb, node: u128, fence: i64) -> WorldCall {
    let node = Some((NodeId::from_uuid(Uuid::from_u128(node)), format!("n-{node}")));
    WorldCall { verb, cluster: ClusterId::from_uuid(Uuid::from_u128(1)), node, fence: Fence(fence) }
}

fn outcome(state: &mut WorldState, verb: Verb, node: u128, fence: i64) -> Outcome {
    state.execute(&call(verb, node, fence)).0
}

#[test]
fn a_lower_fence_is_refused_and_changes_nothing() {
    let mut state = WorldState::default();
    assert_eq!(outcome(&mut state, Verb::Start, 1, 7), Outcome::Made);
    assert_eq!(outcome(&mut state, Verb::Stop, 1, 6), Outcome::Refused);
    assert_eq!(outcome(&mut state, Verb::Start, 2, 6), Outcome::Refused);
    assert_eq!(state.running.len(), 1);
}

#[test]
fn fences_are_kept_per_cluster() {
    let mut state = WorldState::default();
    outcome(&mut state, Verb::Start, 1, 7);
    let other = WorldCall { cluster: ClusterId::from_uuid(Uuid::from_u128(2)), ..call(Verb::Start, 2, 3) };
    assert_eq!(state.execute(&other).0, Outcome::Made);
}

#[test]
fn a_node_is_made_once_however_often_it_is_started() {
    let mut state = WorldState::default();
    let outcomes = [1, 2, 3].map(|fence| outcome(&mut state, Verb::Start, 1, fence));
    assert_eq!(outcomes, [Outcome::Made, Outcome::There, Outcome::There]);
    assert_eq!(state.running.len(), 1);
}

#[test]
fn the_call_that_is_to_fail_fails_alone() {
    let mut state = WorldState::default();
    state.obey(&Control::FailAt { verb: Verb::Start, call: 2, transient: true });
    let outcomes = [1, 2, 3].map(|node| outcome(&mut state, Verb::Start, node, 1));
    assert_eq!(outcomes, [Outcome::Made, Outcome::Failed, Outcome::Made]);
}

#[test]
fn calls_are_held_after_as_many_as_may_pass() {
    let mut state = WorldState::default();
    state.obey(&Control::Hold(Verb::Start, 1));
    assert!(!state.holds(Verb::Stop));
    assert!(!state.holds(Verb::Start));
    assert!(state.holds(Verb::Start));
    state.obey(&Control::Release);
    assert!(!state.holds(Verb::Start));
}

#[test]
fn what_dies_after_its_start_is_seen_as_ended() {
    let mut state = WorldState::default();
    state.obey(&Control::DieAfterStart(1));
    outcome(&mut state, Verb::Start, 1, 1);
    let node = NodeId::from_uuid(Uuid::from_u128(1));
    let WorldAnswer::Observation(seen) = state.observe(&[node]) else { panic!("an observation") };
    assert!(matches!(seen[&node], Observation::Exited { .. }), "{seen:?}");
    assert_eq!(outcome(&mut state, Verb::Start, 1, 1), Outcome::Made, "it can be started again");
}

#[test]
fn a_lie_changes_what_is_said_and_not_what_is() {
    let mut state = WorldState::default();
    outcome(&mut state, Verb::Start, 1, 1);
    let node = NodeId::from_uuid(Uuid::from_u128(1));
    state.obey(&Control::Lie(Some(FalseObservation::Absent)));
    let WorldAnswer::Observation(seen) = state.observe(&[node]) else { panic!("an observation") };
    assert_eq!(seen[&node], Observation::Absent);
    assert_eq!(outcome(&mut state, Verb::Start, 1, 1), Outcome::There);
    state.obey(&Control::Lie(None));
    let WorldAnswer::Observation(seen) = state.observe(&[node]) else { panic!("an observation") };
    assert!(matches!(seen[&node], Observation::Running { .. }), "{seen:?}");
}
