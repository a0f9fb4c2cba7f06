use muster_core::limits::Limits;
use muster_core::sample;
use rstest::rstest;

use super::*;

const fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

/// A cluster created at 1000 with an idle timeout of 100 s and the given lifetime.
fn cluster(max_lifetime: Option<u32>) -> Cluster {
    let limits = Limits {
        idle_timeout: Some(TimeSpan::from_secs(100)),
        max_lifetime: max_lifetime.map(TimeSpan::from_secs),
    };
    Cluster {
        status: ClusterStatus::Active,
        created_at: Some(at(1000)),
        limits,
        ..sample::cluster(1, 0, None)
    }
}

fn idle(since: i64) -> Activity {
    Activity::IdleSince(at(since))
}

#[rstest]
#[case::busy(Some(Activity::Busy), 2000, None, false, 2025)]
#[case::silent(Some(Activity::Unknown), 2000, None, false, 2025)]
#[case::not_asked(None, 1200, None, false, 0)]
#[case::just_idle(Some(idle(1005)), 1010, None, false, 1035)]
#[case::idle_since_before_it_was_there(Some(idle(7)), 1010, None, false, 1035)]
#[case::soon_to_be_warned(Some(idle(1000)), 1080, None, false, 1090)]
#[case::to_be_warned(Some(idle(1000)), 1090, None, true, 1100)]
#[case::over(Some(idle(1000)), 1100, Some(ExpiryReason::Idle), false, 1125)]
#[case::from_the_future(Some(idle(9000)), 1100, None, false, 1125)]
fn it_ends_only_when_it_says_that_nothing_ran_for_long_enough(
    #[case] said: Option<Activity>,
    #[case] now: i64,
    #[case] end: Option<ExpiryReason>,
    #[case] warned: bool,
    #[case] next: i64,
) {
    let decision = decide(&cluster(None), said, WatchState::default(), at(now));
    assert_eq!((decision.end, !decision.warn.is_empty(), decision.next), (end, warned, Some(at(next))));
}

#[rstest]
#[case::silent(Activity::Unknown, 1100, Some(ExpiryReason::Idle))]
#[case::silent_and_not_over(Activity::Unknown, 1080, None)]
#[case::idle(idle(1), 1100, Some(ExpiryReason::Idle))]
#[case::busy(Activity::Busy, 1100, None)]
fn a_cluster_whose_creation_failed_ends_too(
    #[case] said: Activity,
    #[case] now: i64,
    #[case] end: Option<ExpiryReason>,
) {
    let status = ClusterStatus::Error;
    let failed =
        Cluster { status, init_at: at(900), created_at: None, updated_at: Some(at(1000)), ..cluster(None) };
    assert!(is_query_due(&failed, WatchState::default(), at(now)), "it is asked");
    assert_eq!(decide(&failed, Some(said), WatchState::default(), at(now)).end, end);
}

#[test]
fn each_idle_time_is_warned_of_once() {
    let mut cluster = cluster(None);
    let mut warned = |said, now| {
        let decision = decide(&cluster, Some(said), WatchState::default(), at(now));
        cluster.expiry_state = decision.expiry_state;
        !decision.warn.is_empty()
    };
    assert!(warned(idle(1000), 1090));
    assert!(!warned(idle(1000), 1095));
    // A framework may report a slightly different time with each query.
    assert!(!warned(idle(1001), 1096));
    assert!(!warned(Activity::Busy, 1097));
    assert!(!warned(idle(1098), 1180));
    assert!(warned(idle(1098), 1190));
}

#[rstest]
#[case::long_before(1500, None, false, 1900)]
#[case::soon(1900, None, true, 2000)]
#[case::over(2000, Some(ExpiryReason::Lifetime), false, 2025)]
fn a_lifetime_ends_whatever_runs(
    #[case] now: i64,
    #[case] end: Option<ExpiryReason>,
    #[case] warned: bool,
    #[case] next: i64,
) {
    let mut cluster = cluster(Some(1000));
    if end.is_none() {
        cluster.limits.idle_timeout = None;
    }
    let decision = decide(&cluster, Some(Activity::Busy), WatchState::default(), at(now));
    assert_eq!((decision.end, !decision.warn.is_empty(), decision.next), (end, warned, Some(at(next))));
    cluster.expiry_state = decision.expiry_state;
    let again = decide(&cluster, Some(Activity::Busy), WatchState::default(), at(now));
    assert!(again.warn.is_empty(), "it is said once");
    cluster.limits.max_lifetime = Some(TimeSpan::from_secs(2000));
    let extended = decide(&cluster, Some(Activity::Busy), WatchState::default(), at(2990));
    assert_eq!(extended.warn, [ExpiryReason::Lifetime], "another end is another warning");
}

#[test]
fn nothing_is_asked_while_something_is_under_way() {
    let resizing = Cluster { status: ClusterStatus::Resizing, ..cluster(None) };
    assert!(!is_query_due(&resizing, WatchState::default(), at(2000)));
    assert_eq!(decide(&resizing, None, WatchState::default(), at(2000)).next, None);
    let uncreated = Cluster { created_at: None, status: ClusterStatus::Creating, ..cluster(None) };
    assert!(!is_query_due(&uncreated, WatchState::default(), at(2000)));
    let queried_at = WatchState { queried_at: Some(at(2000)), deletion_requested_at: None };
    assert!(!is_query_due(&cluster(None), queried_at, at(2024)), "not so soon again");
    assert!(is_query_due(&cluster(None), queried_at, at(2025)));
}

#[test]
fn a_deletion_that_ends_nothing_is_not_tried_again_at_once() {
    let deletion_requested_at = WatchState { queried_at: None, deletion_requested_at: Some(at(2000)) };
    let decision = decide(&cluster(Some(1000)), None, deletion_requested_at, at(2001));
    assert_eq!((decision.end, decision.next), (None, Some(at(2060))));
    assert_eq!(
        decide(&cluster(Some(1000)), None, deletion_requested_at, at(2060)).end,
        Some(ExpiryReason::Lifetime)
    );
    let deleting = Cluster { status: ClusterStatus::Deleting, ..cluster(Some(1000)) };
    assert_eq!(decide(&deleting, None, WatchState::default(), at(2500)).end, None);
}
