//! Decides about one cluster whose app was observed. Pure: the time is passed in.

use std::time::Duration;

use tokio::time::Instant;

/// The observed state of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AppPresence {
    /// The app wants its cluster.
    Present,
    /// The app is gone; its pods may still run.
    Gone {
        /// True if pods of the app still run.
        has_pods: bool,
    },
    /// The app could not be observed.
    Unknown,
}

/// The next step for the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AppReaction {
    /// Wait for the next observation.
    Wait,
    /// Warn the users of the cluster.
    Warn,
    /// Delete the cluster.
    End,
}

/// Returns the time since which the app has been gone and without pods, without interruption, and the next step.
pub(super) fn decide(
    gone_since: Option<Instant>,
    presence: AppPresence,
    grace: Duration,
    now: Instant,
) -> (Option<Instant>, AppReaction) {
    match (presence, gone_since) {
        (AppPresence::Present | AppPresence::Unknown | AppPresence::Gone { has_pods: true }, _) => {
            (None, AppReaction::Wait)
        }
        (AppPresence::Gone { has_pods: false }, None) => (Some(now), AppReaction::Warn),
        (AppPresence::Gone { has_pods: false }, Some(since)) if now >= since + grace => {
            (Some(since), AppReaction::End)
        }
        (AppPresence::Gone { has_pods: false }, Some(since)) => (Some(since), AppReaction::Wait),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const GRACE: Duration = Duration::from_secs(30);
    const GONE: AppPresence = AppPresence::Gone { has_pods: false };

    #[rstest]
    #[case::it_is_there(Some(0), AppPresence::Present, 60, None, AppReaction::Wait)]
    #[case::it_has_just_gone(None, GONE, 60, Some(60), AppReaction::Warn)]
    #[case::its_pods_still_run(None, AppPresence::Gone { has_pods: true }, 60, None, AppReaction::Wait)]
    #[case::a_pod_has_come_back(Some(0), AppPresence::Gone { has_pods: true }, 60, None, AppReaction::Wait)]
    #[case::grace(Some(31), GONE, 60, Some(31), AppReaction::Wait)]
    #[case::grace_is_over(Some(30), GONE, 60, Some(30), AppReaction::End)]
    #[case::unknown_is_not_gone(Some(0), AppPresence::Unknown, 60, None, AppReaction::Wait)]
    fn an_app_has_to_be_gone_for_the_whole_grace(
        #[case] since: Option<u64>,
        #[case] presence: AppPresence,
        #[case] now: u64,
        #[case] remembered: Option<u64>,
        #[case] step: AppReaction,
    ) {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let decided = decide(since.map(at), presence, GRACE, at(now));
        assert_eq!(decided, (remembered.map(at), step));
    }
}
