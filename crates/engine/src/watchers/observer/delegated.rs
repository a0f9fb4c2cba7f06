//! Records observations of delegated clusters outside any action in rows and events. Changes are never reverted.

use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::ephemeral::AppStanding;
use muster_core::event::{Event, Level};
use muster_core::node::Node;
use muster_core::time::Timestamp;
use muster_core::usage::{AmountsRecord, RequestedAmounts};
use muster_store::StoreError;
use muster_store::commands::Mirror;

use crate::context::Context;
use crate::events::{self, reason};
use crate::ports::provider::{ObjectSpec, ObjectState, Observed};
use crate::reconcile::delegated::mirror::{self, MirroredRows};
use crate::reconcile::delegated::mirror_events::{ignore_other_objects, to_events};
use crate::reconcile::delegated::plan;
use crate::watchers::observer::ObserveOutcome;

/// Records the observation of one cluster.
pub(crate) async fn record_observation(
    context: &Context,
    duty: String,
    cluster: Cluster,
    nodes: Vec<Node>,
    observed: Observed,
) -> Result<ObserveOutcome, StoreError> {
    let observed = ignore_other_objects(&cluster, observed);
    let now = context.clock.now();
    let mirror = match &observed.object {
        ObjectState::Unknown => return Ok(ObserveOutcome::Pending),
        // No object was ever observed: the creation failed, or has not written it yet.
        ObjectState::Absent if cluster.observed.object.is_none() => return Ok(ObserveOutcome::InSync),
        // The remaining parts may be deleted with the object or outlive it, which is unknown until it has happened.
        ObjectState::Absent if !observed.remaining.is_empty() => return Ok(ObserveOutcome::Pending),
        ObjectState::Absent => return end(context, duty, &cluster, now).await,
        ObjectState::Present(spec) => {
            let mut mirror =
                mirror::mirror(&cluster, &nodes, &observed, Some(spec), (None, |_: &Node| false), now);
            let resized = mirror.cluster.generation != cluster.generation;
            evaluate(&mut mirror, &nodes, spec, &observed, resized);
            mirror
        }
    };
    if mirror.is_same_as(&cluster) {
        return Ok(ObserveOutcome::InSync);
    }
    let MirroredRows { cluster: after, new, changed, gone, events, object } = mirror;
    let mut events = to_events(None, &after, events, now);
    if let Some(changed) = events.iter_mut().find(|event| event.reason == reason::CHANGED_ELSEWHERE) {
        Box::pin(record_amounts(context, &cluster, &after, changed)).await?;
    }
    let command = Mirror {
        duty,
        engine: context.lease().id,
        read_at: cluster.updated_at,
        events,
        cluster: Cluster { updated_at: Some(now), ..after },
        new_nodes: new,
        nodes: changed,
        gone_nodes: gone,
        object,
    };
    Ok(context.store.mirror(command).await?.into())
}

/// Records what a cluster requests in the event of a change that was made elsewhere.
async fn record_amounts(
    context: &Context,
    before: &Cluster,
    after: &Cluster,
    changed: &mut Event,
) -> Result<(), StoreError> {
    let profile = context.store.profile(after.profile_id).await?;
    let amounts = |cluster| RequestedAmounts::of_cluster(cluster, profile.as_ref());
    AmountsRecord::write(&mut changed.data, Some(amounts(before)), amounts(after));
    Ok(())
}

/// Marks the row of a cluster as deleted that was deleted elsewhere.
async fn end(
    context: &Context,
    duty: String,
    cluster: &Cluster,
    now: Timestamp,
) -> Result<ObserveOutcome, StoreError> {
    let (reason, message) = Box::pin(why_deleted(context, cluster)).await?;
    let mut event = events::of_cluster(None, cluster, Level::Warn, reason, &message, now);
    // The amounts are recorded now, because the profile is deleted with the cluster.
    Box::pin(record_amounts(context, cluster, cluster, &mut event)).await?;
    let command = Mirror {
        duty,
        engine: context.lease().id,
        read_at: cluster.updated_at,
        cluster: Cluster {
            status: ClusterStatus::Deleted,
            status_reason: message,
            updated_at: Some(now),
            deleted_at: Some(now),
            ..cluster.clone()
        },
        new_nodes: Vec::new(),
        nodes: Vec::new(),
        gone_nodes: Vec::new(),
        object: None,
        events: vec![event],
    };
    // Another object of the same name may exist already, restored from a copy.
    Ok(ObserveOutcome::from(context.store.mirror(command).await?).and_repeat())
}

/// Returns why a cluster is gone: Kubernetes removes objects that an app owns together with the app.
async fn why_deleted(context: &Context, cluster: &Cluster) -> Result<(&'static str, String), StoreError> {
    if let Some(mark) = cluster.ephemeral.as_deref()
        && context.marked_app(cluster, mark).await?.standing == AppStanding::Gone
    {
        return Ok((reason::DELETED_WITH_APP, format!("it was deleted with its app '{mark}'")));
    }
    Ok((reason::DELETED_ELSEWHERE, "it was deleted elsewhere".to_owned()))
}

/// Evaluates the status of the cluster, with the obstacles that keep it from its goal.
fn evaluate(
    mirror: &mut MirroredRows,
    before: &[Node],
    spec: &ObjectSpec,
    observed: &Observed,
    resized: bool,
) {
    let counts = mirror.counts(before);
    let cluster = &mut mirror.cluster;
    let (status, mut reason) = if spec.suspended {
        (ClusterStatus::Suspended, "it is suspended".to_owned())
    } else {
        counts.evaluate(cluster, "NODE_CHECK")
    };
    // All members may work while new clients cannot reach the cluster: it is incomplete.
    let works = matches!(status, ClusterStatus::Active | ClusterStatus::Warning);
    let status = if works && !spec.missing.is_empty() { ClusterStatus::Critical } else { status };
    let obstacles = plan::obstacles(cluster.has_head, spec, &observed.members);
    if !matches!(status, ClusterStatus::Active | ClusterStatus::Suspended) && !obstacles.is_empty() {
        reason = format!("{reason} {}", obstacles.join("; "));
    }
    // The status reason of the last action stays while nothing changes.
    if status != cluster.status || status != ClusterStatus::Active || resized {
        (cluster.status, cluster.status_reason) = (status, reason);
    }
}
