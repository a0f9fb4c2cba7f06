//! A request to the scaler API: the parts that every route needs.

use axum::body::Body;
use http::request::Parts;
use http::{HeaderMap, header};
use muster_core::action::Milestone;
use muster_core::cluster::Cluster;
use muster_core::principal::{Door, Principal};
use muster_core::time::TimeSpan;
use muster_service::ports::domino::DominoCredentials;
use muster_service::{Access, Caller, Case, ErrorKind, MilestoneWait, Mutation, Service, ServiceError, Verb};
use serde_json::{Map, Value};

use super::Scaler;
use super::kind::ScalerKind;
use super::scaler_error::ScalerError;
use super::tiers::DominoTierList;
use crate::auth;
use crate::body::{self, BodyError, ReadBody};
use crate::error::ApiError;
use crate::rest::{BODY_LIMIT, check_type};

/// The time limit for a change to be applied. With the waits before and after it, it is less than the 15 s of clients.
const APPLIED_WITHIN: TimeSpan = TimeSpan::from_secs(9);

/// A parsed request.
pub(super) struct ScalerCall {
    pub(super) api: Scaler,
    access: Access,
    pub(super) kind: ScalerKind,
    /// The name of the cluster; empty in lists.
    pub(super) name: String,
    /// The node type in the path; empty on routes without one.
    pub(super) node_type: String,
    /// The parameters of the query.
    pub(super) query: Vec<(String, String)>,
    body: Result<Option<Value>, ScalerError>,
    /// The hardware tiers of Domino, if it is configured.
    pub(super) domino_tiers: Option<DominoTierList>,
}

impl ScalerCall {
    pub(super) async fn read(
        api: Scaler,
        case: &Case,
        parts: &Parts,
        path: Vec<String>,
        body: Body,
    ) -> Result<Self, ScalerError> {
        let principal = parts.extensions.get::<Principal>().cloned();
        let principal = principal.ok_or_else(|| ApiError::unauthenticated("credentials are needed"))?;
        let access = Access::open(case, principal).map_err(ApiError::from)?;
        let mut path = path.into_iter();
        // Read the body before any refusal, since a client reads no response while it sends.
        let body = read_body(&parts.headers, body).await;
        let kind = ScalerKind::read(&path.next().unwrap_or_default())?;
        let query = form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
        // Credentials of another scheme are not Domino's: its services must not receive them.
        let is_of_domino = access.principal().scheme == auth::DOMINO_SCHEME;
        let credentials = auth::UnauthenticatedCaller { headers: &parts.headers }.domino_credentials();
        let credentials =
            credentials.filter(|given| is_of_domino || matches!(given, DominoCredentials::ApiKey(_)));
        let domino_tiers = api.tiers.clone().map(|domino| DominoTierList::new(domino, credentials));
        Ok(Self {
            api,
            access,
            kind,
            name: path.next().unwrap_or_default(),
            node_type: path.next().unwrap_or_default(),
            query: query.into_owned().collect(),
            body,
            domino_tiers,
        })
    }

    pub(super) const fn service(&self) -> &Service {
        &self.api.service
    }

    pub(super) const fn access(&self) -> &Access {
        &self.access
    }

    /// Returns a parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as an object; `expected` is the message for any other body.
    pub(super) fn body(&self, expected: &str) -> Result<&Map<String, Value>, ScalerError> {
        match &self.body {
            Ok(Some(Value::Object(body))) => Ok(body),
            Ok(_) => Err(ScalerError::bad_request(expected)),
            Err(error) => Err(error.clone()),
        }
    }

    /// Returns the body as an object; an absent body is empty.
    pub(super) fn body_or_nothing(&self) -> Result<Map<String, Value>, ScalerError> {
        match &self.body {
            Ok(Some(Value::Object(body))) => Ok(body.clone()),
            Ok(None) => Ok(Map::new()),
            Ok(Some(_)) => Err(ScalerError::bad_request("the body must be a JSON object")),
            Err(error) => Err(error.clone()),
        }
    }

    /// Finds the cluster that the path names; refused unless the caller is its owner or an admin.
    pub(super) async fn cluster(&self) -> Result<Cluster, ScalerError> {
        let preferred = &self.api.settings.compute_namespace;
        let found =
            self.service().find_owned(&self.access, self.kind.framework(), &self.name, preferred).await;
        let verb = if self.access.verb() == Verb::See { "access" } else { "update" };
        found.map_err(|error| ScalerError::not_found(error, &self.name, verb))
    }

    /// Converts the error of a refused change. A cluster that was deleted meanwhile is named as in the request.
    pub(super) fn refusal(&self, error: ServiceError) -> ScalerError {
        if error.kind == ErrorKind::NotFound { ScalerError::missing(&self.name) } else { error.into() }
    }

    /// Returns the common part of all changes: the caller and the wait.
    pub(super) fn mutation(&self) -> Mutation {
        let caller = Caller {
            principal: self.access.principal().clone(),
            door: Door::Scaler,
            reason: String::new(),
            request: None,
        };
        let wait = MilestoneWait { milestone: Milestone::Applied, at_most: APPLIED_WITHIN };
        Mutation { access: self.access.clone(), caller, wait }
    }
}

/// Reads a body as JSON; none if it is empty. A body of another declared type is refused; one without a type is not.
async fn read_body(headers: &HeaderMap, body: Body) -> Result<Option<Value>, ScalerError> {
    let bytes = match body::read(body, BODY_LIMIT, 64 * BODY_LIMIT).await {
        Ok(ReadBody { size, .. }) if size > BODY_LIMIT => {
            let message = format!("the body has more than {BODY_LIMIT} bytes");
            return Err(ApiError::too_large(message).into());
        }
        Ok(ReadBody { bytes, .. }) => bytes,
        Err(BodyError::Broken(_)) => return Err(ScalerError::bad_request("the body is not complete")),
        Err(late @ BodyError::Late) => return Err(ApiError::from(late).into()),
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    if headers.contains_key(header::CONTENT_TYPE) {
        check_type(headers)?;
    }
    let body = serde_json::from_slice(&bytes);
    body.map(Some).map_err(|error| ScalerError::bad_request(format!("the body is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(None, true)]
    #[case(Some("application/json"), true)]
    #[case(Some("Application/JSON; charset=utf-8"), true)]
    #[case(Some("application/merge-patch+json"), true)]
    #[case(Some("application/x-www-form-urlencoded"), false)]
    #[case(Some("text/plain"), false)]
    #[case(Some(""), false)]
    #[tokio::test]
    async fn a_body_that_is_declared_as_something_else_is_refused(
        #[case] content_type: Option<&'static str>,
        #[case] accepted: bool,
    ) {
        let mut headers = HeaderMap::new();
        if let Some(given) = content_type {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(given));
        }
        let read = read_body(&headers, Body::from("{}")).await;
        assert_eq!(
            read.map_err(|error| error.error).map(|_| ()),
            accepted.then_some(()).ok_or("bad_request")
        );
        assert_eq!(read_body(&headers, Body::empty()).await, Ok(None), "no body has no type");
    }
}
