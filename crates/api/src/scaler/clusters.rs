//! Lists of clusters, and one of them.

use axum::response::Response;
use http::StatusCode;
use muster_service::lists::{ClusterQuery, ClusterSort, Direction};
use serde_json::{Value, json};

use super::call::Call;
use super::object::{Objects, blank_secrets};
use super::scaler_error::{ScalerError, answer};

/// The clusters of a kind that the caller may see, without secrets.
pub(super) async fn list(call: &Call) -> Result<Response, ScalerError> {
    let query = call.access().owned(ClusterQuery {
        framework: Some(call.kind.framework()),
        sort: vec![(ClusterSort::Name, Direction::Ascending)],
        ..ClusterQuery::default()
    });
    let clusters = call.service().list(&query).await?;
    let mut objects = Objects::read(call, &clusters).await?;
    let shown: Vec<Value> = clusters
        .iter()
        .map(|cluster| {
            let mut object = objects.show(call, cluster);
            blank_secrets(&mut object);
            object
        })
        .collect();
    let body = json!({"kind": call.kind.plural(), "count": shown.len(), "clusters": shown});
    Ok(answer(StatusCode::OK, &body))
}

/// One cluster.
pub(super) async fn show(call: &Call) -> Result<Response, ScalerError> {
    let cluster = call.cluster().await?;
    let mut objects = Objects::read(call, std::slice::from_ref(&cluster)).await?;
    Ok(answer(StatusCode::OK, &objects.show(call, &cluster)))
}
