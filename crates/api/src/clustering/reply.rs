//! Successful responses of the clustering API.

use std::collections::HashMap;

use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode, header};
use muster_core::ids::ActionId;
use serde::Serialize;

use super::call::ClusteringCall;
use super::version::{self, MicroVersion};
use crate::error::ACTION_HEADER;
use crate::rest;

/// The header that names the action of a response, as in the core API.
const ACTION: HeaderName = HeaderName::from_static(ACTION_HEADER);

/// A successful response.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    body: String,
    /// The submitted action and its URL.
    action: Option<(ActionId, String)>,
}

impl Reply {
    /// Creates a response whose body has one key.
    pub(super) fn of(key: &str, value: impl Serialize) -> Self {
        Self::whole(&HashMap::from([(key, value)]))
    }

    /// Creates a response with this body.
    pub(super) fn whole(body: &impl Serialize) -> Self {
        // Maps with text keys cannot fail to serialize.
        let body = serde_json::to_string(body).unwrap_or_default();
        Self { status: StatusCode::OK, body, action: None }
    }

    /// Creates a response without a body.
    pub(super) const fn empty(status: StatusCode) -> Self {
        Self { status, body: String::new(), action: None }
    }

    /// Replaces the status.
    pub(super) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Sets the status to 202, and adds the action with its URL.
    pub(super) fn accepted(mut self, call: &ClusteringCall, action: ActionId) -> Self {
        self.status = StatusCode::ACCEPTED;
        self.action = Some((action, call.address(&format!("/actions/{action}"))));
        self
    }

    /// Returns the id of the submitted action, if any.
    pub(super) fn action(&self) -> Option<ActionId> {
        self.action.as_ref().map(|(action, _)| *action)
    }

    /// Converts to an HTTP response.
    pub(super) fn response(self, version: MicroVersion) -> Response {
        let mut response = rest::json(self.status, self.body);
        let headers = response.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static("OpenStack-API-Version"));
        if let Ok(version) = version.header().parse() {
            headers.insert(version::HEADER, version);
        }
        if let Some((action, location)) = self.action {
            let named = [(header::LOCATION, location), (ACTION, action.to_string())];
            headers.extend(named.into_iter().filter_map(|(name, text)| Some((name, text.parse().ok()?))));
        }
        response
    }
}
