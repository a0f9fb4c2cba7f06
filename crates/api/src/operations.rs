//! Probes and metrics.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use muster_engine::Engine;
use prometheus_client::registry::Registry;
use serde_json::json;

/// What is measured, ready to be written out.
#[derive(Debug, Default)]
pub struct Operations {
    /// All metrics.
    pub registry: Registry,
}

#[derive(Clone)]
struct Probes {
    engine: Engine,
    operations: Arc<Operations>,
}

/// `/healthz`, `/readyz`, `/metrics`.
pub(crate) fn routes(engine: Engine, operations: Operations) -> Router {
    Router::new()
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(Probes { engine, operations: Arc::new(operations) })
}

/// The process answers.
async fn healthy() -> Json<serde_json::Value> {
    Json(json!({"status": "healthy"}))
}

/// The process can work: it holds its lease, and the database answers.
async fn ready(State(probes): State<Probes>) -> Response {
    let why = if probes.engine.is_ready() {
        probes.engine.store().ping().await.err().map(|error| error.to_string())
    } else {
        Some("the engine does not hold its lease".to_owned())
    };
    match why {
        None => Json(json!({"status": "ready"})).into_response(),
        Some(reason) => {
            let body = json!({"status": "not ready", "reason": reason});
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}

async fn metrics(State(probes): State<Probes>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &probes.operations.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
