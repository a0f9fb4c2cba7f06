use muster_core::action::ActionKind;
use muster_core::ids::ClusterId;
use muster_core::sample;
use muster_core::time::Timestamp;
use uuid::Uuid;

use super::*;

fn checked(milestone: Milestone, status: ActionStatus, applied: bool) -> Result<(), ErrorKind> {
    let cluster = ClusterId::from_uuid(Uuid::from_u128(1));
    let action = Action {
        status,
        applied_at: applied.then_some(Timestamp::from_micros(1)),
        ..sample::action(2, ActionKind::ClusterResize, cluster)
    };
    let refused = Wait { milestone, at_most: TimeSpan::from_secs(30) }.check(&action);
    refused.map_err(|refusal| {
        assert_eq!(refusal.action, Some(action.id), "{refusal}");
        refusal.kind
    })
}

#[test]
fn a_milestone_that_was_reached_stays_reached_whatever_comes_after() {
    for status in [ActionStatus::Running, ActionStatus::Failed, ActionStatus::Cancelled] {
        assert_eq!(checked(Milestone::Applied, status, true), Ok(()), "{status}");
    }
    assert_eq!(checked(Milestone::Applied, ActionStatus::Failed, false), Err(ErrorKind::Impossible));
    assert_eq!(checked(Milestone::Reached, ActionStatus::Failed, true), Err(ErrorKind::Impossible));
    assert_eq!(checked(Milestone::Reached, ActionStatus::Running, true), Err(ErrorKind::TimedOut));
}
