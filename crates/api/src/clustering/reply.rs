//! What this door answers.

use std::collections::HashMap;

use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode, header};
use muster_core::ids::ActionId;
use serde::Serialize;

use super::call::Call;
use super::version::{self, Version};
use crate::error::ACTION_HEADER;
use crate::rest;

/// As every door names the action behind its answer.
const ACTION: HeaderName = HeaderName::from_static(ACTION_HEADER);

/// An answer.
#[derive(Debug)]
pub(super) struct Reply {
    status: StatusCode,
    body: String,
    /// The action that goes on, and where it can be seen.
    action: Option<(ActionId, String)>,
}

impl Reply {
    /// Something under one key.
    pub(super) fn of(key: &str, value: impl Serialize) -> Self {
        Self::whole(&HashMap::from([(key, value)]))
    }

    /// A whole body.
    pub(super) fn whole(body: &impl Serialize) -> Self {
        // Maps with keys that are texts: there is nothing that could fail.
        let body = serde_json::to_string(body).unwrap_or_default();
        Self { status: StatusCode::OK, body, action: None }
    }

    /// Nothing.
    pub(super) const fn empty(status: StatusCode) -> Self {
        Self { status, body: String::new(), action: None }
    }

    /// The same with another status.
    pub(super) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Accepted: an action goes on, and this is where it can be seen.
    pub(super) fn accepted(mut self, call: &Call, action: ActionId) -> Self {
        self.status = StatusCode::ACCEPTED;
        self.action = Some((action, call.address(&format!("/actions/{action}"))));
        self
    }

    /// As it is sent.
    pub(super) fn response(self, version: Version) -> Response {
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
