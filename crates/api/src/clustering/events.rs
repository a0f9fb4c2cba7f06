//! Events: lists and details.

use muster_core::action::ActionKind;
use muster_service::lists::{EventQuery, EventSort};
use serde_json::Value;

use super::call::ClusteringCall;
use super::query::keys;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::show;

const SORTS: [(&str, EventSort); 8] = [
    ("timestamp", EventSort::At),
    ("level", EventSort::Level),
    ("otype", EventSort::ObjectKind),
    ("oname", EventSort::ObjectName),
    ("action", EventSort::Reason),
    ("status", EventSort::Phase),
    ("oid", EventSort::Object),
    ("cluster_id", EventSort::Cluster),
];

pub(super) async fn list(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let query = &call.query;
    query.only(&keys(&["oname", "otype", "oid", "cluster_id", "action", "level"]), false)?;
    let wanted = EventQuery {
        limit: Some(query.limit()?),
        marker: query.marker()?,
        sort: query.sort(&SORTS, EventSort::At)?,
        object_names: query.texts("oname"),
        object_kinds: query.texts("otype"),
        objects: query.texts("oid"),
        clusters: call.listed_clusters().await?,
        reasons: query.texts("action").into_iter().map(known_reason).collect::<Result<_, _>>()?,
        levels: query.variants("level")?,
        ..EventQuery::default()
    };
    let events = call.list(wanted).await?;
    Ok(Reply::of("events", events.iter().map(show::event).collect::<Vec<Value>>()))
}

/// Refuses a filter that does not parse as the name of an action, and returns it otherwise as it was given.
fn known_reason(given: String) -> Result<String, SenlinError> {
    match given.parse::<ActionKind>() {
        Ok(_) => Ok(given),
        Err(_) => Err(SenlinError::form(format!("Field value {given} is invalid"))),
    }
}

pub(super) async fn show(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    Ok(Reply::of("event", show::event(&call.event(call.path(0)).await?)))
}
