//! Receivers: webhook URLs by which callers without an account trigger an action of a cluster.

use http::StatusCode;
use muster_core::action::ActionKind;
use muster_core::receiver::ReceiverKind;
use muster_core::spec::listed;
use muster_service::lists::{ReceiverQuery, ReceiverSort};
use muster_service::receivers::{NewReceiver, ReceiverUpdate};
use serde_json::Value;

use super::call::ClusteringCall;
use super::field_reader::{FieldReader, unacceptable};
use super::query::keys;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::show;
use super::version::MicroVersion;

const SORTS: [(&str, ReceiverSort); 6] = [
    ("name", ReceiverSort::Name),
    ("type", ReceiverSort::Kind),
    ("action", ReceiverSort::Action),
    ("cluster_id", ReceiverSort::Cluster),
    ("created_at", ReceiverSort::CreatedAt),
    ("user", ReceiverSort::User),
];

/// The version that added the filter by user.
const BY_USER: MicroVersion = MicroVersion(4);

pub(super) async fn list(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let query = &call.query;
    let mut filters = vec!["name", "type", "cluster_id", "action"];
    if call.version >= BY_USER {
        filters.push("user");
    }
    query.only(&keys(&filters), false)?;
    let wanted = ReceiverQuery {
        limit: Some(query.limit()?),
        marker: query.marker()?,
        sort: query.sort(&SORTS, ReceiverSort::Name)?,
        project: None,
        names: query.texts("name"),
        kinds: query.variants("type")?,
        clusters: query.texts("cluster_id"),
        actions: query.variants("action")?,
        users: query.texts("user"),
    };
    let receivers = call.list(wanted).await?;
    let shown = receivers.iter().map(|receiver| show::receiver(receiver, &call.base));
    Ok(Reply::of("receivers", shown.collect::<Vec<_>>()))
}

pub(super) async fn show(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let receiver = call.receiver(call.path(0)).await?;
    Ok(Reply::of("receiver", show::receiver(&receiver, &call.base)))
}

/// Parses the action of a receiver, which has to be an action of a cluster.
fn action(given: &Value) -> Result<ActionKind, SenlinError> {
    let known = given.as_str().and_then(|name| name.parse::<ActionKind>().ok());
    known.filter(|kind| kind.as_str().starts_with("CLUSTER_")).ok_or_else(|| unacceptable(given, "action"))
}

pub(super) async fn create(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.new_object("receiver")?);
    let name = form.name("name")?.unwrap_or_default();
    let kind: Option<ReceiverKind> = form.one_of("type")?;
    let cluster = form.text("cluster_id")?;
    let kind_of_action = form.any("action").map(action).transpose()?;
    let actor = form.map("actor")?.unwrap_or_default();
    let params = form.map("params")?.unwrap_or_default();
    form.require("name").require("type").done()?;
    if kind == Some(ReceiverKind::Message) {
        return Err(SenlinError::bad(
            "Receivers of type 'message' need a message queue, which this server does not have: use type 'webhook'",
        ));
    }
    let cluster = cluster
        .ok_or_else(|| SenlinError::bad("Cluster identity is required for creating webhook receiver"))?;
    let action = kind_of_action
        .ok_or_else(|| SenlinError::bad("Action name is required for creating webhook receiver"))?;
    if action == ActionKind::ClusterCreate {
        let never = listed([ActionKind::ClusterCreate.as_str()]);
        return Err(SenlinError::bad(format!("Action name cannot be any of {never}")));
    }
    let found = call.named_cluster(cluster).await?;
    let cluster_id = found
        .ok_or_else(|| SenlinError::bad(format!("The referenced cluster '{cluster}' could not be found")))?
        .id;
    let new = NewReceiver { name: name.to_owned(), cluster_id, action, actor, params };
    let receiver = call.service().create_receiver(&call.writer()?, new).await?;
    Ok(Reply::of("receiver", show::receiver(&receiver, &call.base)).status(StatusCode::CREATED))
}

pub(super) async fn update(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.changed_object("receiver")?);
    let name = form.name("name")?;
    let kind_of_action = form.any("action").map(action).transpose()?;
    let params = form.map("params")?;
    form.done()?;
    let receiver = call.receiver(call.path(0)).await?;
    let update = ReceiverUpdate { name: name.map(str::to_owned), action: kind_of_action, params };
    if update.is_empty() {
        return Err(SenlinError::bad("No property needs an update"));
    }
    let receiver = call.service().update_receiver(&call.writer()?, receiver, update).await?;
    Ok(Reply::of("receiver", show::receiver(&receiver, &call.base)))
}

pub(super) async fn delete(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let receiver = call.receiver(call.path(0)).await?;
    call.service().delete_receiver(&call.writer()?, &receiver).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// Refuses every request: only receivers of type `message` are notified, and these are not supported.
pub(super) async fn notify(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    call.receiver(call.path(0)).await?;
    Err(SenlinError::bad("Notifying non-message receiver is not allowed"))
}
