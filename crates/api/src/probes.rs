//! The routes of probes and metrics.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use muster_service::Service;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use serde_json::json;

use crate::access_log::Requests;
use crate::error::ErrorMessage;
use crate::readiness::Readiness;

/// The metrics of the server.
#[derive(Debug)]
pub struct ServerMetrics {
    /// All metrics.
    pub registry: Registry,
    pub(crate) requests: Requests,
    lease_age: Gauge<f64, AtomicU64>,
}

impl Default for ServerMetrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Requests::register(&mut registry);
        let lease_age = Gauge::default();
        let help = "Time since this engine last renewed its lease";
        registry.register_with_unit("muster_lease_age", help, Unit::Seconds, lease_age.clone());
        Self { registry, requests, lease_age }
    }
}

#[derive(Clone)]
struct Probes {
    service: Service,
    readiness: Readiness,
    metrics: Arc<ServerMetrics>,
}

/// Returns the routes `/healthz`, `/readyz` and `/metrics`.
pub(crate) fn routes(service: Service, readiness: Readiness, metrics: ServerMetrics) -> Router {
    Router::new()
        .route("/healthz", get(healthy))
        .route("/readyz", get(ready))
        .route("/metrics", get(show_metrics))
        .with_state(Probes { service, readiness, metrics: Arc::new(metrics) })
        .layer(map_response(not_stored))
}

/// Prevents caching, since these responses are valid only for a moment.
async fn not_stored(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Liveness: the process responds, and its engine is alive. Conditions that a restart does not repair must not fail it.
async fn healthy(State(probes): State<Probes>) -> Response {
    match probes.service.liveness() {
        Ok(()) => Json(json!({"status": "healthy"})).into_response(),
        Err(reason) => unavailable("unhealthy", reason),
    }
}

/// Readiness: the engine holds its lease and claims actions, the last write succeeded, and the database responds.
/// Problems of single namespaces are only warnings, since the other namespaces are served.
async fn ready(State(probes): State<Probes>) -> Response {
    match probes.readiness.observe().await {
        Ok(()) => {
            let warnings = probes.service.unobserved().warnings();
            let body = if warnings.is_empty() {
                json!({"status": "ready"})
            } else {
                json!({"status": "ready", "warnings": warnings})
            };
            Json(body).into_response()
        }
        Err(reason) => unavailable("unready", reason),
    }
}

fn unavailable(status: &'static str, reason: String) -> Response {
    let body = Json(json!({"status": status, "reason": reason}));
    let mut response = (StatusCode::SERVICE_UNAVAILABLE, body).into_response();
    response.extensions_mut().insert(ErrorMessage(reason));
    response
}

async fn show_metrics(State(probes): State<Probes>) -> Response {
    let Probes { service, readiness: _, metrics } = probes;
    metrics.lease_age.set(Duration::from(service.lease_age()).as_secs_f64());
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &metrics.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
