//! Waiting for a milestone of an action.

use std::time::Duration;

use muster_core::action::{Action, Milestone};
use muster_core::ids::{ActionId, JobId};
use muster_core::job::Job;
use muster_core::time::TimeSpan;
use muster_store::StoreError;

use crate::context::Engine;
use crate::notify::Topic;

/// How long to wait for the first notification of an action before its row is read.
const FIRST_READ_AFTER: Duration = Duration::from_millis(5);

impl Engine {
    /// Waits until an action has reached a milestone or has ended, or the time is over; returns it as it then is.
    pub async fn wait(
        &self,
        id: ActionId,
        milestone: Milestone,
        at_most: TimeSpan,
    ) -> Result<Action, StoreError> {
        // A wait for the end is not woken by every step.
        let reached = milestone == Milestone::Reached;
        let topic = if reached { Topic::Action(id) } else { Topic::Progress(id) };
        let follow = self.context.notifier.subscribe(topic);
        // An action that was just accepted sends a notification soon; one that was sent before the subscription is missed,
        // so that this wait is short.
        let _ = tokio::time::timeout(
            FIRST_READ_AFTER.min(at_most.into()),
            follow.changed_since(follow.version()),
        )
        .await;
        let deadline = tokio::time::sleep(at_most.into());
        tokio::pin!(deadline);
        loop {
            let version = follow.version();
            let missing = || StoreError::NotFound { kind: "action", given: id.to_string() };
            let action = self.context.store.action(id).await?.ok_or_else(missing)?;
            if action.status.is_final() || action.has_reached(milestone) {
                return Ok(action);
            }
            tokio::select! {
                () = follow.changed_since(version) => {}
                () = tokio::time::sleep(self.context.config.safety_period.into()) => {}
                () = &mut deadline => return Ok(action),
            }
        }
    }

    /// Waits until a condition holds for a job or it has ended, or the time is over; returns it as it then is.
    pub async fn wait_for_job(
        &self,
        id: JobId,
        is_met: impl Fn(&Job) -> bool,
        at_most: TimeSpan,
    ) -> Result<Job, StoreError> {
        let follow = self.context.notifier.subscribe(Topic::Tasks);
        let deadline = tokio::time::sleep(at_most.into());
        tokio::pin!(deadline);
        loop {
            let version = follow.version();
            let missing = || StoreError::NotFound { kind: "job", given: id.to_string() };
            let job = self.context.store.job(id).await?.ok_or_else(missing)?;
            if job.task.status.is_ended() || is_met(&job) {
                return Ok(job);
            }
            tokio::select! {
                () = follow.changed_since(version) => {}
                () = tokio::time::sleep(self.context.config.safety_period.into()) => {}
                () = &mut deadline => return Ok(job),
            }
        }
    }
}
