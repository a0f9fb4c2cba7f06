//! Version documents, by which clients discover the API.

use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use serde_json::{Value, json};

use super::V1;
use super::call::base;
use super::version::MicroVersion;
use crate::rest;

/// Lists all major versions.
pub(super) fn list(parts: &Parts, tls: bool) -> Response {
    rest::json(StatusCode::MULTIPLE_CHOICES, json!({"versions": [document(parts, tls)]}).to_string())
}

/// Shows the only major version.
pub(super) fn show(parts: &Parts, tls: bool) -> Response {
    rest::json(StatusCode::OK, json!({"version": document(parts, tls)}).to_string())
}

fn document(parts: &Parts, tls: bool) -> Value {
    json!({
        "id": "1.0",
        "status": "CURRENT",
        "updated": "2016-01-18T00:00:00Z",
        "media-types": [
            {"base": "application/json", "type": "application/vnd.openstack.clustering-v1+json"},
        ],
        "links": [
            {"href": format!("{}{V1}", base(parts, tls)), "rel": "self"},
            {"href": "https://docs.openstack.org/api-ref/clustering", "rel": "help"},
        ],
        "min_version": MicroVersion::OLDEST.to_string(),
        "max_version": MicroVersion::NEWEST.to_string(),
    })
}
