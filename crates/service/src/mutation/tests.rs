use muster_core::action::{ActionKind, REFUSAL_OUTPUT};
use muster_core::ids::ClusterId;
use muster_core::sample;
use muster_core::time::Timestamp;
use muster_engine::ports::provider::ProviderError;
use rstest::rstest;
use uuid::Uuid;

use super::*;

fn checked(milestone: Milestone, status: ActionStatus, applied: bool) -> Result<(), ErrorKind> {
    let cluster = ClusterId::from_uuid(Uuid::from_u128(1));
    let action = Action {
        status,
        applied_at: applied.then_some(Timestamp::from_micros(1)),
        ..sample::action(2, ActionKind::ClusterResize, cluster)
    };
    let refused = MilestoneWait { milestone, at_most: TimeSpan::from_secs(30) }.check(&action);
    refused.map_err(|refusal| {
        assert_eq!(refusal.action, Some(action.id), "{refusal}");
        refusal.kind
    })
}

#[rstest]
#[case("QuotaExceeded", ErrorKind::OverQuota)]
#[case("Forbidden", ErrorKind::Forbidden)]
#[case("Invalid", ErrorKind::Invalid)]
#[case("Rejected", ErrorKind::Invalid)]
#[case("TooLarge", ErrorKind::Invalid)]
#[case("NotFound", ErrorKind::NotFound)]
#[case("NamespaceTerminating", ErrorKind::Conflict)]
#[case("AlreadyExists", ErrorKind::Exists)]
#[case("Unsupported", ErrorKind::Impossible)]
fn a_refusal_of_kubernetes_decides_on_the_class_of_the_error(#[case] reason: &str, #[case] kind: ErrorKind) {
    let cluster = ClusterId::from_uuid(Uuid::from_u128(1));
    let mut action = sample::action(2, ActionKind::ClusterCreate, cluster);
    action.status = ActionStatus::Failed;
    action.outputs[REFUSAL_OUTPUT] = reason.into();
    let wait = MilestoneWait { milestone: Milestone::Applied, at_most: TimeSpan::from_secs(30) };
    let refused = wait.check(&action).unwrap_err();
    let code = if kind == ErrorKind::Exists { "ClusterNameTaken" } else { "ActionFailed" };
    assert_eq!((refused.kind, refused.code.as_deref()), (kind, Some(code)));
    assert_eq!(refused.obstacle, Some(Obstacle::Provider(reason.to_owned())));
    let direct = ServiceError::from(ProviderError::permanent(reason, "no"));
    assert_eq!((direct.kind, direct.code.as_deref()), (kind, Some(reason)));
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
