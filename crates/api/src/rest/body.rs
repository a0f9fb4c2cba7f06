//! Reads the JSON body of a request.

use axum::body::Body as HttpBody;
use http::{HeaderMap, header};
use muster_proto::rest::Body;
use serde_json::Value;

use crate::body;
use crate::error::ApiError;

/// The largest body: far larger than any valid request, and small enough that clients cannot exhaust the memory.
pub const BODY_LIMIT: usize = 1024 * 1024;

/// Reads a body as JSON; none if the body is empty or the method takes none.
pub(super) async fn read(
    wanted: Body,
    headers: &HeaderMap,
    body: HttpBody,
) -> Result<Option<Value>, ApiError> {
    if wanted == Body::None {
        return Ok(None);
    }
    let body::ReadBody { bytes, size } = body::read(body, BODY_LIMIT, BODY_LIMIT).await?;
    if size > BODY_LIMIT {
        return Err(ApiError::too_large(format!(
            "the body is too large: must have at most {BODY_LIMIT} bytes"
        )));
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    check_type(headers)?;
    let json = serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::invalid(malformed(&error)).code("MalformedJson"))?;
    Ok(Some(json))
}

fn malformed(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    if error.is_eof() {
        return format!(
            "the body is not JSON: it ends at line {line}, column {column}, before it is complete"
        );
    }
    format!("the body is not JSON: see line {line}, column {column}")
}

/// Requires JSON: a browser page of another origin cannot send this content type without a preflight request.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers.get(header::CONTENT_TYPE).map_or("", |value| value.to_str().unwrap_or_default());
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = essence.strip_prefix("application/").unwrap_or_default();
    if subtype == "json" || subtype.ends_with("+json") {
        return Ok(());
    }
    Err(ApiError::not_json(format!("the Content-Type of the body is '{given}': must be application/json")))
}
