//! Collects leftover objects of deleted clusters: an engine that was paused may write one after another engine has
//! ended its action.

use std::sync::Arc;

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::cluster::Cluster;
use muster_core::time::{TimeSpan, Timestamp};
use muster_store::commands::Observe;
use muster_store::reads::{ActionQuery, ActionSort};
use muster_store::{Direction, StoreError};

use crate::admission::submit;
use crate::context::Context;
use crate::ports::provider::Provider;
use crate::watchers::observer::{ObserveOutcome, duty};

/// The delay after a failed or cancelled collection before the next one is submitted. The action itself has retried
/// transient errors, such as an unreachable server.
const RETRY_AFTER: TimeSpan = TimeSpan::from_secs(600);

/// The time after the deletion of its cluster from which a created object counts as restored from a backup.
const RESTORED_AFTER: TimeSpan = TimeSpan::from_secs(3600);

/// Submits the deletion of an object whose cluster is deleted, if Muster created and deleted that cluster. An object
/// that others deleted and restored from a backup is another cluster.
pub(crate) async fn collect(
    context: &Context,
    provider: &Arc<dyn Provider>,
    history: &Cluster,
) -> Result<ObserveOutcome, StoreError> {
    let operator = Arc::clone(provider).operator_provider();
    let Some(operator) = operator.filter(|operator| operator.discovered().contains(&history.id)) else {
        return Ok(ObserveOutcome::InSync);
    };
    if history.is_external() {
        return Ok(ObserveOutcome::InSync);
    }
    let (now, last) = (context.clock.now(), last_deletion(context, history, &[]).await?);
    // The deletion may be purged before the row. An earlier collection proves it: none is submitted without a deletion.
    let was_deleted_here = last.as_ref().is_some_and(Action::collects_garbage)
        || last_deletion(context, history, &[ActionStatus::Succeeded]).await?.is_some();
    if !was_deleted_here {
        operator.disown(history.id);
        return Ok(ObserveOutcome::InSync);
    }
    if !last.is_none_or(|last| is_collection_due(&last, now)) {
        return Ok(ObserveOutcome::Pending);
    }
    match operator.describe(history.id).await {
        Ok(Some(found)) if is_restored(found.created_at, history.deleted_at) => {
            operator.disown(history.id);
            return Ok(ObserveOutcome::InSync);
        }
        Ok(_) => {}
        Err(error) => {
            tracing::debug!(%error, "cannot read when an object was created");
            return Ok(ObserveOutcome::Pending);
        }
    }
    let (duty, engine) = (duty(provider), context.lease().id);
    let (clusters, orphans, events) = (Vec::new(), Vec::new(), Vec::new());
    let healing = vec![submit::garbage_collection(context, history)];
    let command = Observe { duty, engine, clusters, orphans, events, healing, now };
    // The observation is repeated until the object is gone, however the action ends.
    Ok(ObserveOutcome::from(context.store.observe(command).await?).and_repeat())
}

/// Returns true if an object was restored from a backup: it was created long after its cluster was deleted, when no
/// engine could still be about to write it.
fn is_restored(created: Option<Timestamp>, deleted: Option<Timestamp>) -> bool {
    created.zip(deleted).is_some_and(|(created, deleted)| created > deleted.after(RESTORED_AFTER))
}

/// Returns the last deletion of a cluster, of those in one of these states if any are given.
async fn last_deletion(
    context: &Context,
    history: &Cluster,
    statuses: &[ActionStatus],
) -> Result<Option<Action>, StoreError> {
    let query = ActionQuery {
        cluster: Some(history.id),
        kinds: vec![ActionKind::ClusterDelete],
        statuses: statuses.to_vec(),
        sort: vec![(ActionSort::CreatedAt, Direction::Descending)],
        limit: Some(1),
        ..ActionQuery::default()
    };
    Ok(context.store.actions(&query).await?.items.pop())
}

/// Returns true if an existing object needs another deletion after the last one.
fn is_collection_due(last: &Action, now: Timestamp) -> bool {
    let Some(ended) = last.ended_at else { return false };
    // After a success the object was gone, so it was written again since.
    last.status == ActionStatus::Succeeded || now >= ended.after(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::before(Some(50), Some(100), false)]
    #[case::soon_after(Some(3_000), Some(100), false)]
    #[case::long_after(Some(3_701), Some(100), true)]
    #[case::unknown(None, Some(100), false)]
    fn what_is_made_long_after_the_deletion_is_restored(
        #[case] created: Option<i64>,
        #[case] deleted: Option<i64>,
        #[case] restored: bool,
    ) {
        let seconds = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        assert_eq!(is_restored(created.map(seconds), deleted.map(seconds)), restored);
    }

    #[rstest]
    #[case::waiting(ActionStatus::Ready, None, false)]
    #[case::written_again(ActionStatus::Succeeded, Some(100), true)]
    #[case::failed_just_now(ActionStatus::Failed, Some(100), false)]
    #[case::failed_long_ago(ActionStatus::Failed, Some(100 - 600), true)]
    #[case::cancelled_just_now(ActionStatus::Cancelled, Some(100), false)]
    fn a_collection_is_due_once(#[case] status: ActionStatus, #[case] ended: Option<i64>, #[case] due: bool) {
        let seconds = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let cluster = sample::cluster(0, 0, None).id;
        let deletion = sample::action(1, ActionKind::ClusterDelete, cluster);
        let last = Action { status, ended_at: ended.map(seconds), ..deletion };
        assert_eq!(is_collection_due(&last, seconds(100)), due);
    }
}
