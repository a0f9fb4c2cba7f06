//! What is seen of a cluster that an operator drives, outside any action: written down, told, and never undone.

use muster_core::action::Action;
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::{Event, Level};
use muster_core::ids::EventId;
use muster_core::node::Node;
use muster_core::status;
use muster_core::time::Timestamp;
use muster_store::StoreError;
use muster_store::commands::{Mirror as Command, Mirrored};
use serde_json::Map;

use super::mirror::{self, Mirror, Told};
use super::plan;
use crate::engine::Inner;
use crate::events::{self, reason};
use crate::observer::Looked;
use crate::provider::{Heard, Object, Observed, Spec};

/// Writes what a look at one cluster changes.
pub(crate) async fn look_at(
    inner: &Inner,
    duty: String,
    cluster: Cluster,
    nodes: Vec<Node>,
    seen: Observed,
) -> Result<Looked, StoreError> {
    let seen = identified(&cluster, seen);
    let now = inner.clock.now();
    let mirror = match &seen.object {
        Object::Unknown => return Ok(Looked::Open),
        // Its creation failed or has not come so far: nothing was there that could be missed.
        Object::Absent if cluster.observed.object.is_none() => return Ok(Looked::Settled),
        Object::Absent => return end(inner, duty, &cluster, now).await,
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
        engine: inner.life().id,
        read_at: cluster.updated_at,
        events: tell(None, &after, told, now),
        cluster: Cluster { updated_at: Some(now), ..after },
        new_nodes: new,
        nodes: changed,
        gone_nodes: gone,
    };
    Ok(looked(inner.store.mirror(command).await?))
}

/// Only the object that the row knows counts: another one of the same name is another cluster.
pub(super) fn identified(cluster: &Cluster, mut seen: Observed) -> Observed {
    if let (Some(known), Object::Present(spec)) = (&cluster.observed.object, &seen.object)
        && *known != spec.identity
    {
        seen.object = Object::Absent;
        seen.members.clear();
    }
    seen
}

/// The row of a cluster that somebody else deleted becomes history.
async fn end(inner: &Inner, duty: String, cluster: &Cluster, now: Timestamp) -> Result<Looked, StoreError> {
    let message = "it was deleted elsewhere";
    let event = events::of_cluster(None, cluster, Level::Warn, reason::DELETED_ELSEWHERE, message, now);
    let command = Command {
        duty,
        engine: inner.life().id,
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
    Ok(match looked(inner.store.mirror(command).await?) {
        // Something else may stand in its place already, made from a copy.
        Looked::Settled => Looked::Open,
        looked => looked,
    })
}

fn looked(mirrored: Mirrored) -> Looked {
    match mirrored {
        Mirrored::Written => Looked::Settled,
        // Whoever has the cluster sees the same world; afterwards it is looked at again.
        Mirrored::Busy => Looked::Open,
        Mirrored::NotOurs => Looked::NotOurs,
    }
}

/// How the cluster is, and what keeps it from being as it should.
fn evaluate(mirror: &mut Mirror, before: &[Node], spec: &Spec, seen: &Observed, resized: bool) {
    let (active, head) = mirror.counts(before);
    let cluster = &mut mirror.cluster;
    let (word, mut words) = if spec.suspended {
        (ClusterStatus::Suspended, "it is suspended".to_owned())
    } else {
        status::evaluate(cluster, active, head, "NODE_CHECK")
    };
    // All may work, and nobody new find it.
    let word =
        if word == ClusterStatus::Active && !spec.missing.is_empty() { ClusterStatus::Warning } else { word };
    let obstacles = plan::obstacles(cluster.has_head, spec, &seen.members);
    if !matches!(word, ClusterStatus::Active | ClusterStatus::Suspended) && !obstacles.is_empty() {
        words = format!("{words} {}", obstacles.join("; "));
    }
    // The words of the action that brought it there stay while nothing changes.
    if word != cluster.status || word != ClusterStatus::Active || resized {
        (cluster.status, cluster.status_reason) = (word, words);
    }
}

/// Events for what an observation tells.
pub(super) fn tell(
    action: Option<&Action>,
    cluster: &Cluster,
    told: Vec<Told>,
    now: Timestamp,
) -> Vec<Event> {
    let event = |told| match told {
        Told::ChangedElsewhere(what) => {
            events::of_cluster(action, cluster, Level::Info, reason::CHANGED_ELSEWHERE, &what, now)
        }
        Told::Lost(node) => {
            events::of_node(action, &node, Level::Warn, reason::NODE_LOST, &node.status_reason, now)
        }
        Told::Heard(heard, node) => hearsay(cluster, &heard, node.as_deref()),
    };
    told.into_iter().map(event).collect()
}

/// What others told, as an event of ours: under their id, so that it is told once.
fn hearsay(cluster: &Cluster, heard: &Heard, node: Option<&Node>) -> Event {
    let level = if heard.is_warning { Level::Warn } else { Level::Info };
    let (reason, message) = (&heard.reason, &heard.message);
    let event = match node {
        Some(node) => events::of_node(None, node, level, reason, message, heard.at),
        None => events::of_cluster(None, cluster, level, reason, message, heard.at),
    };
    let data = Map::from_iter([("object".to_owned(), format!("{}/{}", heard.kind, heard.object).into())]);
    Event { id: EventId::from_uuid(heard.id), data, ..event }
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::never_seen(None, true)]
    #[case::the_same(Some("one"), true)]
    #[case::another_of_the_same_name(Some("two"), false)]
    fn only_the_object_that_the_row_knows_counts(#[case] known: Option<&str>, #[case] present: bool) {
        let mut cluster = sample::cluster(1, 0, None);
        cluster.observed.object = known.map(str::to_owned);
        let object = Object::Present(Spec { identity: "one".to_owned(), ..Spec::default() });
        let seen = identified(&cluster, Observed { object, ..Observed::default() });
        assert_eq!(matches!(seen.object, Object::Present(_)), present, "{seen:?}");
    }
}
