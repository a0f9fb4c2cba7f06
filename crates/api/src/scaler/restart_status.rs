//! Reports whether nodes were restarted since a given time, and whether they are ready.

use std::collections::HashSet;

use axum::response::Response;
use http::StatusCode;
use muster_core::cluster::Cluster;
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole, NodeStatus};
use muster_core::restart::HeadRestart;
use muster_core::time::Timestamp;
use serde_json::{Map, Value, json};

use super::call::ScalerCall;
use super::object::{is_of_domino, namespace};
use super::scaler_error::{ScalerError, answer};
use super::stamp;

const NOT_RESTARTED: &str = "not_restarted";
const NOT_READY: &str = "restarted_but_not_ready";
const READY: &str = "restarted_and_ready";
const COUNTS_OK: &str = "restarted_and_ready_counts_ok";
const NO_HEAD: &str = "head_pod_not_found";

/// Reports the restart of the head.
pub(super) async fn of_head(call: &ScalerCall) -> Result<Response, ScalerError> {
    let since = since(call)?;
    let cluster = call.cluster().await.map_err(|error| without_head(call, error, since))?;
    let head = RoleNodes::read(call, &cluster, NodeRole::Head, since).await?;
    let (restarted, ready) = (head.are_restarted(), head.are_ready());
    let status = match (restarted, ready) {
        (false, _) => NOT_RESTARTED,
        (true, false) => NOT_READY,
        (true, true) => READY,
    };
    let node = head.present.first();
    let expected = || {
        if is_of_domino(&cluster) {
            call.kind.head_pod(&cluster.name)
        } else {
            format!("{}-head", cluster.name)
        }
    };
    let pod = node.map_or_else(expected, |head| head.name.clone());
    let body = json!({
        "ok": restarted && ready,
        "restarted": restarted,
        "ready": ready,
        "status": status,
        "namespace": namespace(&cluster),
        "pod": pod,
        "creationTimestamp": head.oldest().map(stamp::show),
        "started_at": stamp::show(since),
        "evaluated_with": "started_at",
    });
    Ok(answer(StatusCode::OK, &body))
}

/// Reports the restart of the head or of the workers, with the numbers of nodes.
pub(super) async fn of_nodes(call: &ScalerCall) -> Result<Response, ScalerError> {
    let (role, component) = match call.node_type.as_str() {
        "head" => (NodeRole::Head, call.kind.head()),
        "worker" => (NodeRole::Worker, "worker"),
        _ => return Err(ScalerError::bad_request("node type must be one of ['head', 'worker']")),
    };
    let since = since(call)?;
    let cluster = call.cluster().await?;
    let nodes = RoleNodes::read(call, &cluster, role, since).await?;
    let desired = match role {
        NodeRole::Head => 1,
        // Include changes that are accepted and have not started.
        _ => {
            let changed = call.service().with_pending_changes(vec![cluster.clone()]).await?;
            changed.first().unwrap_or(&cluster).desired()
        }
    };
    let (running, ready) = (nodes.present.len(), nodes.ready());
    let counts_fit = running == ready && usize::try_from(desired) == Ok(running);
    let restarted = nodes.are_restarted() || (desired == 0 && running == 0);
    let status = match (restarted, running == ready, counts_fit) {
        (false, _, _) => NOT_RESTARTED,
        (true, false, _) => NOT_READY,
        (true, true, false) => READY,
        (true, true, true) => COUNTS_OK,
    };
    let body = json!({
        "ok": status == COUNTS_OK,
        "status": status,
        "restarted": restarted,
        "node_type": call.node_type,
        "desired_replicas": desired,
        "running_pods": running,
        "ready_pods": ready,
        "ready_equals_running": running == ready,
        "oldestCreationTimestamp": nodes.oldest().map(stamp::show),
        "namespace": namespace(&cluster),
        "statefulset": call.kind.stateful_set(&cluster.name, component),
        "started_at": stamp::show(since),
        "evaluated_with": "statefulset_pods",
    });
    Ok(answer(StatusCode::OK, &body))
}

/// Reads the time since which the nodes should have been restarted.
fn since(call: &ScalerCall) -> Result<Timestamp, ScalerError> {
    let given = call.parameter("started_at").and_then(stamp::read);
    given.ok_or_else(|| ScalerError::bad_request("started_at (ISO-8601) is required"))
}

/// Completes the error for a missing cluster by the fields of this response; returns other errors unchanged.
fn without_head(call: &ScalerCall, error: ScalerError, since: Timestamp) -> ScalerError {
    if error.status != StatusCode::NOT_FOUND {
        return error;
    }
    let more = Map::from_iter([
        ("status".to_owned(), NO_HEAD.into()),
        ("ok".to_owned(), false.into()),
        ("restarted".to_owned(), false.into()),
        ("ready".to_owned(), false.into()),
        ("namespace".to_owned(), call.api.settings.compute_namespace.clone().into()),
        ("pod".to_owned(), Value::from(call.kind.head_pod(&call.name))),
        ("started_at".to_owned(), stamp::show(since).into()),
    ]);
    ScalerError::new(StatusCode::NOT_FOUND, NO_HEAD, error.message).with(more)
}

/// The existing nodes of a role, compared with the time of a restart.
struct RoleNodes {
    present: Vec<Node>,
    since: Timestamp,
    /// The UIDs of the heads that restarts have replaced since then.
    replaced: HashSet<String>,
    /// True if a restart was requested since then and has not begun: it waits for another change of the cluster.
    restart_waits: bool,
}

impl RoleNodes {
    async fn read(
        call: &ScalerCall,
        cluster: &Cluster,
        role: NodeRole,
        since: Timestamp,
    ) -> Result<Self, ScalerError> {
        let mut nodes = call.service().members(cluster).await?;
        let of_role = nodes.iter().filter(|node| node.role == role).map(|node| node.id).collect();
        nodes.retain(|node| {
            node.role == role && node.physical_id.is_some() && node.status != NodeStatus::Deleting
        });
        let restarts = match role {
            NodeRole::Head => call.service().restarts_of(cluster).await?,
            _ => Vec::new(),
        };
        Ok(Self::since(since, &of_role, nodes, restarts))
    }

    /// Compares nodes with the restarts since a time, of which clients know the whole seconds only. `of_role` are all
    /// nodes of the role, also those that do not exist now.
    fn since(
        since: Timestamp,
        of_role: &HashSet<NodeId>,
        present: Vec<Node>,
        restarts: Vec<HeadRestart>,
    ) -> Self {
        let is_meant = |restart: &HeadRestart| {
            let began = restart.replaced.as_ref().map(|replaced| replaced.at);
            let latest = began.map_or(restart.requested_at, |at| at.max(restart.requested_at));
            stamp::whole_seconds(latest) >= stamp::whole_seconds(since)
        };
        let mut compared = Self { present, since, replaced: HashSet::new(), restart_waits: false };
        for restart in restarts.into_iter().filter(is_meant) {
            match restart.replaced {
                Some(replaced) => drop(compared.replaced.insert(replaced.uid)),
                None => {
                    let is_of_role = restart.node.is_some_and(|node| of_role.contains(&node));
                    compared.restart_waits |= restart.is_open && is_of_role;
                }
            }
        }
        compared
    }

    /// Returns true if nodes exist and all of them were created since that time.
    fn are_restarted(&self) -> bool {
        let is_new = |node: &Node| {
            let is_late = node.started_at().is_some_and(|at| at >= self.since);
            is_late && node.member_uid().is_none_or(|uid| !self.replaced.contains(&uid))
        };
        !self.restart_waits && !self.present.is_empty() && self.present.iter().all(is_new)
    }

    fn are_ready(&self) -> bool {
        !self.present.is_empty() && self.ready() == self.present.len()
    }

    fn ready(&self) -> usize {
        self.present.iter().filter(|node| node.status == NodeStatus::Active).count()
    }

    fn oldest(&self) -> Option<Timestamp> {
        self.present.iter().filter_map(Node::started_at).min()
    }
}

#[cfg(test)]
mod tests {
    use muster_core::restart::ReplacedHead;
    use muster_core::sample;

    use super::*;

    const fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    /// A head that was started in second 5.
    fn head() -> Node {
        let mut head = Node { role: NodeRole::Head, status: NodeStatus::Active, ..sample::node(1) };
        head.physical_id = Some("new".to_owned());
        head.set_started_at(at(5));
        head
    }

    fn restart(requested_at: Timestamp, replaced: Option<&str>) -> HeadRestart {
        let replaced =
            replaced.map(|uid| ReplacedHead { name: "h".to_owned(), uid: uid.to_owned(), at: requested_at });
        HeadRestart { requested_at, node: Some(head().id), is_open: true, replaced }
    }

    fn is_restarted(restarts: Vec<HeadRestart>) -> bool {
        let heads = HashSet::from([head().id]);
        RoleNodes::since(at(5), &heads, vec![head()], restarts).are_restarted()
    }

    #[test]
    fn a_head_is_restarted_once_no_restart_since_then_waits_or_replaces_it() {
        assert!(is_restarted(vec![restart(at(5), Some("old"))]));
        assert!(!is_restarted(vec![restart(at(5), Some("new"))]), "it is the one that is replaced");
        assert!(!is_restarted(vec![restart(at(6), None), restart(at(5), Some("old"))]), "a second one waits");
        assert!(is_restarted(vec![restart(at(4), None)]), "of an earlier request");
        let ended = HeadRestart { is_open: false, ..restart(at(6), None) };
        assert!(is_restarted(vec![ended]), "it was cancelled");
        let of_worker = HeadRestart { node: Some(sample::node(2).id), ..restart(at(6), None) };
        assert!(is_restarted(vec![of_worker]), "a worker is recovered");
    }
}
