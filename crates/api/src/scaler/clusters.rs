//! Reads of clusters: lists and details.

use std::collections::BTreeMap;

use axum::response::Response;
use http::StatusCode;
use muster_core::domino::FLAVOR;
use muster_core::ids::ClusterId;
use muster_service::lists::ClusterQuery;

use super::call::ScalerCall;
use super::object::{Objects, without_secrets};
use super::scaler_error::{ScalerError, answer_json};

/// Lists the clusters of a kind that the caller may see, without secrets, sorted by name.
pub(super) async fn list(call: &ScalerCall) -> Result<Response, ScalerError> {
    let query = ClusterQuery { framework: Some(call.kind.framework()), ..ClusterQuery::default() };
    // Read clusters without a stored object first: an object that is stored between the queries then replaces its
    // cluster, and no cluster is missed.
    let others = ClusterQuery { unless_stored_as: Some(FLAVOR.to_owned()), ..query.clone() };
    let others = call.service().list(&call.access().owned(others)).await?;
    let stored = call.service().stored_objects(&call.access().owned(query), FLAVOR).await?;
    let mut objects = Objects::read(call, &others).await?;
    let rendered =
        others.iter().map(|cluster| ((cluster.name.clone(), cluster.id), objects.show(call, cluster)));
    let mut shown: BTreeMap<(String, ClusterId), String> = rendered.collect();
    shown.extend(stored.into_iter().map(|stored| ((stored.name, stored.cluster), stored.json)));
    let (count, kind) = (shown.len(), call.kind.plural());
    let shown = shown.into_values().map(without_secrets).collect::<Vec<_>>().join(",");
    // Keys are sorted, as in every response of this API.
    Ok(answer_json(StatusCode::OK, &format!(r#"{{"clusters":[{shown}],"count":{count},"kind":"{kind}"}}"#)))
}

/// Shows one cluster.
pub(super) async fn show(call: &ScalerCall) -> Result<Response, ScalerError> {
    let cluster = call.cluster().await?;
    let mut objects = Objects::read(call, std::slice::from_ref(&cluster)).await?;
    Ok(answer_json(StatusCode::OK, &objects.show(call, &cluster)))
}
