//! Actions: lists, details, and signals.

use http::StatusCode;
use muster_core::action::Action;
use muster_service::lists::{ActionQuery, ActionSort};
use muster_service::{Obstacle, ServiceError, SignalKind};
use serde_json::Value;
use uuid::Uuid;

use super::call::ClusteringCall;
use super::field_reader::{FieldReader, unacceptable};
use super::query::keys;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::show;
use super::version::MicroVersion;

const SORTS: [(&str, ActionSort); 5] = [
    ("name", ActionSort::Name),
    ("target", ActionSort::Target),
    ("action", ActionSort::Kind),
    ("created_at", ActionSort::CreatedAt),
    ("status", ActionSort::Status),
];

/// The version that added the filter by cluster.
const BY_CLUSTER: MicroVersion = MicroVersion(14);

/// The version that added suspending and resuming.
const SUSPEND: MicroVersion = MicroVersion(15);

pub(super) async fn list(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let query = &call.query;
    let mut filters = vec!["name", "target", "action", "status"];
    if call.version >= BY_CLUSTER {
        filters.push("cluster_id");
    }
    query.only(&keys(&filters), false)?;
    let wanted = ActionQuery {
        limit: Some(query.limit()?),
        marker: query.marker()?,
        sort: query.sort(&SORTS, ActionSort::CreatedAt)?,
        names: query.texts("name"),
        targets: query.texts("target"),
        clusters: call.listed_clusters().await?,
        kinds: query.variants("action")?,
        statuses: query.variants("status")?,
        parents_wait: true,
        ..ActionQuery::default()
    };
    let actions = call.list(wanted).await?;
    let edges = call.service().dependencies(&actions).await?;
    let shown = actions.iter().map(|action| {
        let edges = edges.get(&action.id).cloned().unwrap_or_default();
        show::action(action, &edges, call.version)
    });
    Ok(Reply::of("actions", shown.collect::<Vec<_>>()))
}

pub(super) async fn show(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let action = call.action(call.path(0)).await?;
    shown(call, &action).await
}

async fn shown(call: &ClusteringCall, action: &Action) -> Result<Reply, SenlinError> {
    let mut edges = call.service().dependencies(std::slice::from_ref(action)).await?;
    let edges = edges.remove(&action.id).unwrap_or_default();
    Ok(Reply::of("action", show::action(action, &edges, call.version)))
}

/// Refuses every request: actions are created by requests about clusters and nodes.
pub(super) fn create(_: &ClusteringCall) -> Result<Reply, SenlinError> {
    Err(SenlinError::forbidden())
}

/// Cancels an action; from 1.15 on also suspends or resumes it.
pub(super) async fn update(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.changed_object("action")?);
    let given = form.any("status");
    form.require("status").done()?;
    let signal = match given.and_then(Value::as_str) {
        Some("CANCELLED") => SignalKind::Cancel,
        Some("SUSPENDED") if call.version >= SUSPEND => SignalKind::Suspend,
        Some("READY") if call.version >= SUSPEND => SignalKind::Resume,
        _ => return Err(unacceptable(given.unwrap_or(&Value::Null), "status")),
    };
    let force = call.query.boolean("force")?.unwrap_or(false);
    // A signal needs the complete id of the action, not a prefix of it.
    let given = call.path(0);
    given.parse::<Uuid>().map_err(|_| SenlinError::missing("action", given))?;
    let action = call.action(given).await?;
    if action.status.is_final() && !force {
        return Err(immutable(&action, action.status.as_str(), OPEN));
    }
    let expected = if signal == SignalKind::Resume { "['SUSPENDED']" } else { OPEN };
    let refused = |error: ServiceError| match error.obstacle {
        Some(Obstacle::ActionStatus(status)) => immutable(&action, status, expected),
        _ => error.into(),
    };
    let signalled = call.service().signal(&action, signal, None).await.map_err(refused)?;
    Ok(shown(call, &signalled).await?.status(StatusCode::ACCEPTED))
}

/// The statuses in which an action can be cancelled or suspended.
const OPEN: &str = "['INIT', 'WAITING', 'READY', 'RUNNING', 'WAITING_LIFECYCLE_COMPLETION']";

/// Returns the error for an action whose status does not allow the signal.
fn immutable(action: &Action, status: &str, expected: &str) -> SenlinError {
    let id = action.id.short();
    let text =
        format!("Action ({id}) is in status ({status}) while expected status must be one of ({expected}).");
    SenlinError::conflict("ActionImmutable", text)
}
