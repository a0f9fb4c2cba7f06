//! Decides if a cluster is deleted when the driver of its app ends.
//!
//! Pure: the mark and the state of the app are passed in. *Unknown* is never taken for *gone*.

use crate::string_enum::string_enum;

string_enum! {
    /// The end of an app, as its driver reports it.
    AppStatus, "app-status" {
        /// The command of the driver has exited by itself.
        Completed = "completed",
        /// The driver was terminated before its command exited.
        Terminated = "terminated",
    }
}

/// The end of a driver, as its request to delete a cluster reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverEnd {
    /// The status that the driver reports.
    pub status: AppStatus,
    /// The exit status of its command, which matters only for Jobs; absent if unknown.
    pub exit_code: Option<i32>,
}

/// The state of a cluster's ephemeral mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkState {
    /// The cluster has no mark: it is not ephemeral.
    Absent,
    /// The mark names another app than the request.
    OfAnother,
    /// The app of the request was not found by any name, so that it may be the marked one.
    OfUnknown,
    /// The mark names the app of the request.
    OfApp,
    /// The mark could not be read.
    Unreadable,
}

/// The observed state of the app that a cluster is marked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppStanding {
    /// The app certainly does not exist or is being deleted, or its owner is being deleted or scaled to 0.
    Gone,
    /// The app exists, and this many drivers should run; absent counts as one.
    Wanted(Option<u32>),
    /// The app is a Job that has neither completed nor failed.
    Job(JobProgress),
    /// The app could not be observed.
    Unknown,
}

/// The progress of a Job that has neither completed nor failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobProgress {
    /// The number of pods that have to succeed; absent for a Job that ends with its last pod.
    pub completions: Option<u32>,
    /// The number of pods that have succeeded.
    pub succeeded: u32,
    /// The number of pods that have not ended.
    pub active: u32,
}

impl JobProgress {
    /// Returns true if one more success completes the Job. Without a number of completions, a Job is complete when all
    /// its pods have ended.
    fn completes_with_one(self) -> bool {
        match self.completions {
            Some(completions) => completions <= self.succeeded.saturating_add(1),
            None => self.active <= 1,
        }
    }
}

string_enum! {
    /// The rule by which a cluster is not deleted.
    LeaveRule, "rule" {
        /// The cluster belongs to no app.
        NotEphemeral = "NotEphemeral",
        /// The cluster belongs to another app.
        NotLinked = "NotLinked",
        /// The app of the cluster still has drivers.
        StillWanted = "StillWanted",
        /// The Job that the cluster belongs to has not finished.
        JobUnfinished = "JobUnfinished",
    }
}

impl LeaveRule {
    /// The message for users. Scripts compare the first three, so they must not change.
    pub const fn message(self) -> &'static str {
        match self {
            Self::NotEphemeral => "cluster is not ephemeral",
            Self::NotLinked => "cluster is not linked to app",
            Self::StillWanted => "driver replica count > 0 (or > 1 for completed app)",
            Self::JobUnfinished => "job is not finished",
        }
    }
}

/// The decision about the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EphemeralDecision {
    /// The cluster is deleted.
    Delete,
    /// The cluster stays, by this rule.
    Leave(LeaveRule),
    /// The cluster stays for now, because a fact that matters is unknown; the decision is repeated later.
    Later,
}

/// Decides if a cluster is deleted on behalf of the driver of an app.
pub fn decide(mark: MarkState, app: AppStanding, end: DriverEnd) -> EphemeralDecision {
    match mark {
        MarkState::Unreadable => return EphemeralDecision::Later,
        MarkState::Absent => return EphemeralDecision::Leave(LeaveRule::NotEphemeral),
        MarkState::OfAnother => return EphemeralDecision::Leave(LeaveRule::NotLinked),
        // Without its pod, the app of a driver cannot be identified. The cluster is deleted only if the marked app is
        // gone as well.
        MarkState::OfUnknown => {
            return match app {
                AppStanding::Gone => EphemeralDecision::Delete,
                AppStanding::Unknown => EphemeralDecision::Later,
                AppStanding::Wanted(_) | AppStanding::Job(_) => {
                    EphemeralDecision::Leave(LeaveRule::NotLinked)
                }
            };
        }
        MarkState::OfApp => {}
    }
    match (app, end.status) {
        (AppStanding::Unknown, _) => EphemeralDecision::Later,
        (AppStanding::Gone, _) => EphemeralDecision::Delete,
        (AppStanding::Job(job), AppStatus::Completed)
            if end.exit_code == Some(0) && job.completes_with_one() =>
        {
            EphemeralDecision::Delete
        }
        (AppStanding::Job(_), _) => EphemeralDecision::Leave(LeaveRule::JobUnfinished),
        (AppStanding::Wanted(replicas), status) => match (replicas.unwrap_or(1), status) {
            (0, _) | (1, AppStatus::Completed) => EphemeralDecision::Delete,
            _ => EphemeralDecision::Leave(LeaveRule::StillWanted),
        },
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::AppStatus::{Completed, Terminated};
    use super::LeaveRule::{JobUnfinished, NotEphemeral, NotLinked, StillWanted};
    use super::MarkState::{Absent, OfAnother, OfApp, OfUnknown, Unreadable};
    use super::*;

    const fn wanted(replicas: u32) -> AppStanding {
        AppStanding::Wanted(Some(replicas))
    }

    const fn job(completions: Option<u32>, succeeded: u32) -> AppStanding {
        AppStanding::Job(JobProgress { completions, succeeded, active: 1 })
    }

    const TWO_ACTIVE: AppStanding =
        AppStanding::Job(JobProgress { completions: None, succeeded: 0, active: 2 });

    const GONE: AppStanding = AppStanding::Gone;
    const DELETE: EphemeralDecision = EphemeralDecision::Delete;

    const fn leave(rule: LeaveRule) -> EphemeralDecision {
        EphemeralDecision::Leave(rule)
    }

    /// The rows of the table of rules in `docs/apps.md`. Rows 1 and 2 are requests without an app or without its
    /// status.
    #[rstest]
    #[case::row_3_no_mark_is_left(Absent, GONE, Completed, leave(NotEphemeral))]
    #[case::row_4_shared(Absent, wanted(1), Completed, leave(NotEphemeral))]
    #[case::row_5_of_another(OfAnother, wanted(0), Completed, leave(NotLinked))]
    #[case::row_6(OfApp, wanted(0), Completed, DELETE)]
    #[case::row_7(OfApp, wanted(0), Terminated, DELETE)]
    #[case::row_8(OfApp, wanted(1), Completed, DELETE)]
    #[case::row_9(OfApp, wanted(1), Terminated, leave(StillWanted))]
    #[case::row_10(OfApp, wanted(2), Completed, leave(StillWanted))]
    #[case::row_11(OfApp, wanted(2), Terminated, leave(StillWanted))]
    #[case::row_12_absent_is_one(OfApp, AppStanding::Wanted(None), Completed, DELETE)]
    #[case::row_13_absent_is_one(OfApp, AppStanding::Wanted(None), Terminated, leave(StillWanted))]
    #[case::row_14_the_app_is_gone(OfApp, GONE, Terminated, DELETE)]
    #[case::row_15_its_pod_is_there(OfApp, GONE, Completed, DELETE)]
    #[case::row_16_its_pod_is_gone_too(OfUnknown, GONE, Terminated, DELETE)]
    #[case::row_16_but_the_marked_app_exists(OfUnknown, wanted(0), Completed, leave(NotLinked))]
    #[case::row_16_and_it_cannot_be_observed(
        OfUnknown,
        AppStanding::Unknown,
        Completed,
        EphemeralDecision::Later
    )]
    #[case::row_17_the_app_cannot_be_observed(
        OfApp,
        AppStanding::Unknown,
        Completed,
        EphemeralDecision::Later
    )]
    #[case::row_18_the_mark_cannot_be_read(Unreadable, GONE, Completed, EphemeralDecision::Later)]
    #[case::of_another_that_is_gone(OfAnother, GONE, Terminated, leave(NotLinked))]
    fn clusters_are_deleted_by_the_table(
        #[case] mark: MarkState,
        #[case] app: AppStanding,
        #[case] status: AppStatus,
        #[case] expected: EphemeralDecision,
    ) {
        assert_eq!(decide(mark, app, DriverEnd { status, exit_code: None }), expected);
    }

    #[rstest]
    #[case::last_success(job(Some(3), 2), Completed, Some(0), DELETE)]
    #[case::more_to_do(job(Some(3), 1), Completed, Some(0), leave(JobUnfinished))]
    #[case::no_completions_are_one(job(None, 0), Completed, Some(0), DELETE)]
    #[case::another_pod_works_on(TWO_ACTIVE, Completed, Some(0), leave(JobUnfinished))]
    #[case::an_unknown_exit_status_is_no_success(job(None, 0), Completed, None, leave(JobUnfinished))]
    #[case::failed_and_may_be_retried(job(None, 0), Completed, Some(7), leave(JobUnfinished))]
    #[case::terminated(job(Some(1), 0), Terminated, Some(0), leave(JobUnfinished))]
    #[case::finished_or_deleted(GONE, Terminated, Some(1), DELETE)]
    #[case::other_kinds_do_not_ask_for_it(wanted(1), Completed, Some(7), DELETE)]
    fn jobs_keep_their_cluster_until_their_last_success(
        #[case] app: AppStanding,
        #[case] status: AppStatus,
        #[case] exit_code: Option<i32>,
        #[case] expected: EphemeralDecision,
    ) {
        assert_eq!(decide(OfApp, app, DriverEnd { status, exit_code }), expected);
    }

    #[test]
    fn messages_are_those_that_scripts_compare() {
        let messages = [NotEphemeral, NotLinked, StillWanted].map(LeaveRule::message);
        assert_eq!(
            messages,
            [
                "cluster is not ephemeral",
                "cluster is not linked to app",
                "driver replica count > 0 (or > 1 for completed app)"
            ]
        );
    }
}
