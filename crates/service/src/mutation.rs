//! The common part of every change: replays a repeated request, and waits for a milestone.

use std::pin::Pin;

use muster_core::action::{Action, ActionKind, ActionStatus, Milestone};
use muster_core::cluster::Cluster;
use muster_core::ids::ActionId;
use muster_core::time::TimeSpan;
use muster_engine::Caller;

use crate::access::Access;
use crate::authorize::Resource;
use crate::error::{ErrorKind, Obstacle, ServiceError};
use crate::find::is_permitted;
use crate::owned;
use crate::service::Service;

#[cfg(test)]
mod tests;

/// The milestone that a request waits for, with a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MilestoneWait {
    /// The milestone that the action has to reach.
    pub milestone: Milestone,
    /// The longest wait.
    pub at_most: TimeSpan,
}

impl MilestoneWait {
    /// Refuses if the action has not reached the milestone. A reached milestone counts even if the action failed
    /// later, because the response must not depend on a race.
    fn check(&self, action: &Action) -> Result<(), ServiceError> {
        if action.has_reached(self.milestone) {
            return Ok(());
        }
        let verb = match action.status {
            ActionStatus::Cancelled => "was cancelled",
            status if status.is_final() => "has failed",
            _ => return Err(not_yet(action, &format!("been {}", self.milestone), self)),
        };
        let reason = owned::refusal(action);
        let kind = reason.as_deref().map_or(ErrorKind::Impossible, ErrorKind::of_refusal);
        let refused = ServiceError::new(kind, format!("{} {verb}: {}", action.kind, action.status_reason));
        let obstacle = reason.map(Obstacle::Provider);
        let refused = if is_name_taken(kind, action) {
            refused.code("ClusterNameTaken")
        } else {
            refused.code("ActionFailed")
        };
        Err(ServiceError { obstacle, ..refused.about(action.id) })
    }
}

/// Returns true if the creation of a cluster was refused because an object that was not observed yet has its name.
fn is_name_taken(refused: ErrorKind, action: &Action) -> bool {
    refused == ErrorKind::Exists && action.kind == ActionKind::ClusterCreate
}

/// A future that finds the object of a request, authorizes and submits. It is boxed, because it is large and not
/// always run.
pub type Submission<'a, E> = Pin<Box<dyn Future<Output = Result<Action, E>> + Send + 'a>>;

/// A request that changes an object.
#[derive(Debug, Clone)]
pub struct Mutation {
    /// The caller, with the authorization of the operation.
    pub access: Access,
    /// The caller as the action records it, with the request id.
    pub caller: Caller,
    /// The milestone that the response waits for.
    pub wait: MilestoneWait,
}

impl Service {
    /// Submits a change unless the same request was submitted before, waits, and returns the cluster after the wait.
    ///
    /// `submit` is not run for a repeated request, so that a retry gets the response of the first attempt. The response
    /// has the cluster, so the caller must still be permitted to perform the operation on it.
    pub async fn mutate<E: From<ServiceError>>(
        &self,
        mutation: &Mutation,
        submit: Submission<'_, E>,
    ) -> Result<(Cluster, Action), E> {
        let replayed = self.engine.replayed(&mutation.caller).await.map_err(ServiceError::from)?;
        let action = match replayed {
            Some(action) if self.permits_replay(&mutation.access, &action).await? => action,
            Some(hidden) => {
                // What the request names does not exist for the caller, and only `submit` has its API's error for that.
                submit.await?;
                return Err(not_there(hidden.id).into());
            }
            None => submit.await?,
        };
        let outcome = self.outcome(action.clone(), &mutation.wait).await;
        if let Err(error) = &outcome
            && is_name_taken(error.kind, &action)
            && let Err(failed) = Box::pin(self.discard_refused(&mutation.caller, action.id)).await
        {
            tracing::warn!(error = %failed.message, action = %action.id, "cannot delete a cluster that was refused");
        }
        Ok(outcome?)
    }

    /// Returns true if the caller may perform the operation of a repeated request on the cluster of its action, and
    /// false if that cluster does not exist for the caller. A role may have been revoked since the first attempt.
    async fn permits_replay(&self, access: &Access, action: &Action) -> Result<bool, ServiceError> {
        let Some(id) = action.cluster_id else { return Ok(false) };
        let Some(cluster) = self.store().cluster(id).await? else { return Ok(false) };
        let what = format!("cluster '{}'", cluster.name);
        is_permitted(access, Resource { what: &what, project: &cluster.project, owner: &cluster.owner })
    }

    /// Waits for the milestone, and returns the cluster after the wait.
    async fn outcome(&self, action: Action, wait: &MilestoneWait) -> Result<(Cluster, Action), ServiceError> {
        let id = action.id;
        let action = self.wait(action, wait).await?;
        wait.check(&action)?;
        let missing = || not_there(id);
        let cluster = action.cluster_id.ok_or_else(missing)?;
        let cluster = self.engine.store().cluster(cluster).await;
        let cluster = cluster.map_err(|error| ServiceError::from(error).about(id))?;
        Ok((cluster.ok_or_else(missing)?, action))
    }

    /// Waits until an action has ended.
    pub async fn wait_for_end(&self, action: Action, at_most: TimeSpan) -> Result<Action, ServiceError> {
        let wait = MilestoneWait { milestone: Milestone::Reached, at_most };
        let action = self.wait(action, &wait).await?;
        if action.status.is_final() { Ok(action) } else { Err(not_yet(&action, "ended", &wait)) }
    }

    /// Waits until the milestone is reached, the wait times out or the server stops.
    async fn wait(&self, action: Action, wait: &MilestoneWait) -> Result<Action, ServiceError> {
        let id = action.id;
        if action.has_reached(wait.milestone) || action.status.is_final() {
            return Ok(action);
        }
        let reached = tokio::select! {
            reached = self.engine.wait(id, wait.milestone, wait.at_most) => reached,
            () = self.closing().cancelled() => {
                let message = format!(
                    "the server is stopping, and {} has not been {} yet; it continues as action {id}: \
                     get that action when a server answers again",
                    action.kind, wait.milestone
                );
                return Err(ServiceError::new(ErrorKind::Unavailable, message).code("ServerStopping").about(id));
            }
        };
        reached.map_err(|error| ServiceError::from(error).about(id))
    }
}

/// The error for an action whose cluster does not exist any more, or not for this caller.
fn not_there(action: ActionId) -> ServiceError {
    ServiceError::not_found("the cluster no longer exists").about(action)
}

/// The error for a milestone that was not reached in time, while the action continues.
fn not_yet(action: &Action, what: &str, wait: &MilestoneWait) -> ServiceError {
    let (kind, id) = (action.kind, action.id);
    let message = if wait.at_most == TimeSpan::default() {
        format!("{kind} has not {what} yet, and wait_timeout is 0s; it continues as action {id}")
    } else {
        format!("{kind} has not {what} within {}; it continues as action {id}", wait.at_most)
    };
    ServiceError::new(ErrorKind::TimedOut, message).about(id)
}
