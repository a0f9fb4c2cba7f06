//! Waiting for a milestone of an action.

use std::time::Duration;

use muster_core::action::{Action, Milestone};
use muster_core::ids::ActionId;
use muster_core::image_template::ImageTemplate;
use muster_core::job::Job;
use muster_core::time::TimeSpan;
use muster_store::StoreError;

use crate::context::Engine;
use crate::notify::Topic;

/// The wait for the first notification of an action before its row is read.
const FIRST_READ_AFTER: Duration = Duration::from_millis(5);

impl Engine {
    /// Waits until an action has reached a milestone or has ended, at most for `at_most`, and returns the action.
    pub async fn wait(
        &self,
        id: ActionId,
        milestone: Milestone,
        at_most: TimeSpan,
    ) -> Result<Action, StoreError> {
        // `Topic::Action` reports no progress: a wait for the end is not woken by every step.
        let reached = milestone == Milestone::Reached;
        let topic = if reached { Topic::Action(id) } else { Topic::Progress(id) };
        let follow = self.context.notifier.subscribe(topic);
        // A new action sends a notification soon, which saves a read. The wait is short, because a notification from
        // before the subscription is missed.
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

    /// Waits until a condition holds for a job or the job has ended, at most for `at_most`, and returns the job as it
    /// then is.
    pub async fn wait_for_job(
        &self,
        job: &Job,
        is_met: impl Fn(&Job) -> bool,
        at_most: TimeSpan,
    ) -> Result<Job, StoreError> {
        let follow = self.context.notifier.subscribe(Topic::Task(job.task.id));
        let deadline = tokio::time::sleep(at_most.into());
        tokio::pin!(deadline);
        loop {
            let version = follow.version();
            let missing = || StoreError::NotFound { kind: "job", given: job.id.to_string() };
            let job = self.context.store.job(job.id).await?.ok_or_else(missing)?;
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

    /// Waits until the build of an image has ended, at most for `at_most`, and returns the template as it then is; none
    /// if it was deleted meanwhile.
    pub async fn wait_for_build(
        &self,
        template: ImageTemplate,
        at_most: TimeSpan,
    ) -> Result<Option<ImageTemplate>, StoreError> {
        let follow = self.context.notifier.subscribe(Topic::Task(template.task.id));
        let deadline = tokio::time::sleep(at_most.into());
        tokio::pin!(deadline);
        loop {
            let version = follow.version();
            let found = self.context.store.image_template(&template.namespace, &template.name).await?;
            let Some(found) = found.filter(|found| found.id == template.id) else { return Ok(None) };
            if found.task.status.is_ended() {
                return Ok(Some(found));
            }
            tokio::select! {
                () = follow.changed_since(version) => {}
                () = tokio::time::sleep(self.context.config.safety_period.into()) => {}
                () = &mut deadline => return Ok(Some(found)),
            }
        }
    }
}
