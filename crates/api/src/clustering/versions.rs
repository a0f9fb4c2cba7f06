//! The documents by which clients find out what is spoken here.

use axum::response::Response;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::V1;
use super::call::base;
use super::version::Version;

/// All major versions there are.
pub(super) fn list(parts: &Parts, tls: bool) -> Response {
    answer(StatusCode::MULTIPLE_CHOICES, &json!({"versions": [document(parts, tls)]}))
}

/// The one that there is.
pub(super) fn show(parts: &Parts, tls: bool) -> Response {
    answer(StatusCode::OK, &json!({"version": document(parts, tls)}))
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
        "min_version": Version::OLDEST.to_string(),
        "max_version": Version::NEWEST.to_string(),
    })
}

fn answer(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(body.to_string().into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
