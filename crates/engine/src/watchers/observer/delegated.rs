//! Observation of delegated clusters outside any action: recorded in rows and events, and never reverted.

use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::Level;
use muster_core::node::Node;
use muster_core::time::Timestamp;
use muster_store::StoreError;
use muster_store::commands::{Mirror as Command, Mirrored};

use crate::context::Context;
use crate::events::{self, reason};
use crate::ports::provider::{Object, Observed, Spec};
use crate::reconcile::delegated::mirror::{self, Mirror};
use crate::reconcile::delegated::mirror_events::{identified, tell};
use crate::reconcile::delegated::plan;
use crate::watchers::observer::Looked;

/// Records the observation of one cluster.
pub(crate) async fn look_at(
    context: &Context,
    duty: String,
    cluster: Cluster,
    nodes: Vec<Node>,
    seen: Observed,
) -> Result<Looked, StoreError> {
    let seen = identified(&cluster, seen);
    let now = context.clock.now();
    let mirror = match &seen.object {
        Object::Unknown => return Ok(Looked::Open),
        // Its creation failed or is not that far: there was no object that could be missing.
        Object::Absent if cluster.observed.object.is_none() => return Ok(Looked::Settled),
        Object::Absent => return end(context, duty, &cluster, now).await,
        Object::Present(spec) => {
            let mut mirror = mirror::mirror(&cluster, &nodes, &seen, Some(spec), |_| false, now);
            let resized = mirror.cluster.generation != cluster.generation;
            evaluate(&mut mirror, &nodes, spec, &seen, resized);
            mirror
        }
    };
    if mirror.is_same_as(&cluster) {
        return Ok(Looked::Settled);
    }
    let Mirror { cluster: after, new, changed, gone, told } = mirror;
    let command = Command {
        duty,
        engine: context.lease().id,
        read_at: cluster.updated_at,
        events: tell(None, &after, told, now),
        cluster: Cluster { updated_at: Some(now), ..after },
        new_nodes: new,
        nodes: changed,
        gone_nodes: gone,
    };
    Ok(looked(context.store.mirror(command).await?))
}

/// Marks the row of a cluster deleted that was deleted elsewhere.
async fn end(
    context: &Context,
    duty: String,
    cluster: &Cluster,
    now: Timestamp,
) -> Result<Looked, StoreError> {
    let message = "it was deleted elsewhere";
    let event = events::of_cluster(None, cluster, Level::Warn, reason::DELETED_ELSEWHERE, message, now);
    let command = Command {
        duty,
        engine: context.lease().id,
        read_at: cluster.updated_at,
        cluster: Cluster {
            status: ClusterStatus::Deleted,
            status_reason: message.to_owned(),
            updated_at: Some(now),
            deleted_at: Some(now),
            ..cluster.clone()
        },
        new_nodes: Vec::new(),
        nodes: Vec::new(),
        gone_nodes: Vec::new(),
        events: vec![event],
    };
    Ok(match looked(context.store.mirror(command).await?) {
        // Another object of the same name may exist already, restored from a copy.
        Looked::Settled => Looked::Open,
        looked => looked,
    })
}

fn looked(mirrored: Mirrored) -> Looked {
    match mirrored {
        Mirrored::Written => Looked::Settled,
        // The action that holds the cluster observes it itself; it is observed again afterwards.
        Mirrored::Busy => Looked::Open,
        Mirrored::NotOurs => Looked::NotOurs,
    }
}

/// Evaluates the status of the cluster, and what keeps it from its goal.
fn evaluate(mirror: &mut Mirror, before: &[Node], spec: &Spec, seen: &Observed, resized: bool) {
    let counts = mirror.counts(before);
    let cluster = &mut mirror.cluster;
    let (word, mut words) = if spec.suspended {
        (ClusterStatus::Suspended, "it is suspended".to_owned())
    } else {
        counts.evaluate(cluster, "NODE_CHECK")
    };
    // All members may work while new clients cannot reach the cluster.
    let word =
        if word == ClusterStatus::Active && !spec.missing.is_empty() { ClusterStatus::Warning } else { word };
    let obstacles = plan::obstacles(cluster.has_head, spec, &seen.members);
    if !matches!(word, ClusterStatus::Active | ClusterStatus::Suspended) && !obstacles.is_empty() {
        words = format!("{words} {}", obstacles.join("; "));
    }
    // The status reason of the last action stays while nothing changes.
    if word != cluster.status || word != ClusterStatus::Active || resized {
        (cluster.status, cluster.status_reason) = (word, words);
    }
}
