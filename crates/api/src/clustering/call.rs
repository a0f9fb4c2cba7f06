//! A request to the clustering API: the parts that every route needs.

use axum::body::Body;
use http::request::Parts;
use http::{HeaderMap, header};
use muster_core::action::WEBHOOK_REASON;
use muster_core::ids::ReceiverId;
use muster_core::principal::{Door, Principal};
use muster_core::receiver::Receiver;
use muster_service::{Access, AccessTarget, Caller, Case, Service, Writer};
use serde_json::{Map, Value};

use super::query::Query;
use super::senlin_error::{MALFORMED, SenlinError};
use super::version::MicroVersion;
use super::{Clustering, V1};
use crate::access_log::REQUEST_ID;
use crate::body::{self, BodyError, ReadBody};
use crate::error::ApiError;
use crate::rest::BODY_LIMIT;

/// The number of bytes that are read of a body that is too large.
const READ_LIMIT: usize = 64 * BODY_LIMIT;

/// A parsed request.
pub(super) struct ClusteringCall {
    api: Clustering,
    /// The authenticated caller; none on public routes.
    principal: Option<Principal>,
    /// The access of the caller, once [`ClusteringCall::authorize`] has granted it.
    access: Option<Access>,
    pub(super) version: MicroVersion,
    /// The parameters of the path, in order.
    path: Vec<String>,
    pub(super) query: Query,
    body: Option<Map<String, Value>>,
    /// The receiver whose webhook triggered the request, if any.
    receiver: Option<ReceiverId>,
    /// The address of this server for clients: `http://host:port`.
    pub(super) base: String,
    /// The id of the request in the access log.
    request_id: String,
}

impl ClusteringCall {
    pub(super) async fn read(
        api: Clustering,
        parts: &Parts,
        path: Vec<String>,
        body: Body,
        tls: bool,
    ) -> Result<Self, SenlinError> {
        let version = MicroVersion::of(&parts.headers)?;
        let body = read_body(&parts.headers, body).await?;
        let query = Query::read(parts.uri.query().unwrap_or_default());
        let principal = parts.extensions.get::<Principal>().cloned();
        let base = base(parts, tls);
        let request_id = parts.headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).unwrap_or_default();
        Ok(Self {
            api,
            principal,
            access: None,
            version,
            path,
            query,
            body,
            receiver: None,
            base,
            request_id: request_id.to_owned(),
        })
    }

    /// Authorizes the caller for the route, as far as that can be decided before the object is read.
    pub(super) fn authorize(&mut self, case: &Case) -> Result<(), SenlinError> {
        if case.subject != AccessTarget::Public {
            let principal = self.principal.clone().ok_or_else(SenlinError::forbidden)?;
            self.access = Some(Access::open(case, principal).map_err(|_| SenlinError::forbidden())?);
        }
        Ok(())
    }

    /// Returns the access of the caller; an error on public routes.
    pub(super) fn access(&self) -> Result<&Access, SenlinError> {
        self.access.as_ref().ok_or_else(SenlinError::forbidden)
    }

    /// The service layer.
    pub(super) const fn service(&self) -> &Service {
        &self.api.service
    }

    /// The authenticated caller; an error on public routes.
    pub(super) fn principal(&self) -> Result<&Principal, SenlinError> {
        self.access().map(Access::principal)
    }

    /// The caller, as events of plain writes record it.
    pub(super) fn writer(&self) -> Result<Writer, SenlinError> {
        let principal = self.principal()?.clone();
        Ok(Writer { principal, door: Door::Clustering, request_id: self.request_id.clone(), named: None })
    }

    /// The caller, as actions record it.
    pub(super) fn caller(&self) -> Result<Caller, SenlinError> {
        let principal = self.principal()?.clone();
        let (door, reason) = match self.receiver {
            Some(receiver) => (Door::Webhook, format!("{WEBHOOK_REASON}{receiver}")),
            None => (Door::Clustering, String::new()),
        };
        Ok(Caller { principal, door, reason, request: None })
    }

    /// Returns a principal that was authenticated earlier, with its present roles; none if it no longer exists.
    pub(super) async fn resolve(&self, known: &Principal) -> Result<Option<Principal>, SenlinError> {
        self.api.authenticators.resolve(known).await.map_err(|error| ApiError::from(error).into())
    }

    /// Returns a new request about the receiver's cluster, on behalf of the creator of the receiver.
    pub(super) fn in_name_of(&self, creator: Principal, receiver: &Receiver) -> Self {
        Self {
            api: self.api.clone(),
            principal: Some(creator),
            access: None,
            version: MicroVersion::NEWEST,
            path: vec![receiver.cluster_id.to_string()],
            query: Query::default(),
            body: None,
            receiver: Some(receiver.id),
            base: self.base.clone(),
            request_id: self.request_id.clone(),
        }
    }

    /// Replaces the body.
    pub(super) fn replace_body(&mut self, body: Map<String, Value>) {
        self.body = Some(body);
    }

    /// Returns a parameter of the path by its position.
    pub(super) fn path(&self, place: usize) -> &str {
        self.path.get(place).map_or("", String::as_str)
    }

    /// The body; an error if there is none.
    pub(super) fn body(&self) -> Result<&Map<String, Value>, SenlinError> {
        self.body.as_ref().ok_or_else(|| SenlinError::form(MALFORMED))
    }

    /// The body, or an empty one.
    pub(super) fn body_or_nothing(&self) -> Map<String, Value> {
        self.body.clone().unwrap_or_default()
    }

    /// The object under a key in the body of a POST.
    pub(super) fn new_object(&self, key: &str) -> Result<&Map<String, Value>, SenlinError> {
        let missing = || SenlinError::form(format!("Request body missing '{key}' key."));
        self.object(key, missing)
    }

    /// The object under a key in the body of a PATCH.
    pub(super) fn changed_object(&self, key: &str) -> Result<&Map<String, Value>, SenlinError> {
        let missing =
            || SenlinError::form(format!("Malformed request data, missing '{key}' key in request body."));
        self.object(key, missing)
    }

    fn object(
        &self,
        key: &str,
        missing: impl Fn() -> SenlinError,
    ) -> Result<&Map<String, Value>, SenlinError> {
        match self.body()?.get(key) {
            None | Some(Value::Null) => Err(missing()),
            Some(Value::Object(object)) => Ok(object),
            Some(_) => Err(SenlinError::form(MALFORMED)),
        }
    }

    /// The address of a path below `/v1`.
    pub(super) fn address(&self, path: &str) -> String {
        format!("{}{V1}{path}", self.base)
    }
}

/// Returns the address of this server, with the host name that the client uses.
pub(crate) fn base(parts: &Parts, tls: bool) -> String {
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = parts.uri.authority().map(http::uri::Authority::as_str).or(host).unwrap_or("localhost");
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{host}")
}

/// Reads a body. A body that is not declared as JSON, or does not begin as an object, counts as absent.
async fn read_body(headers: &HeaderMap, body: Body) -> Result<Option<Map<String, Value>>, SenlinError> {
    let bytes = whole(body).await?;
    if !is_json(headers) || bytes.first() != Some(&b'{') {
        return Ok(None);
    }
    match serde_json::from_slice(&bytes) {
        Ok(map) => Ok(Some(map)),
        Err(error) => Err(SenlinError::form(format!("The body is not JSON: {error}"))),
    }
}

/// Reads a whole body. A body that is too large is read up to a limit, since a client reads no response while it sends.
async fn whole(body: Body) -> Result<Vec<u8>, SenlinError> {
    match body::read(body, BODY_LIMIT, READ_LIMIT).await {
        Ok(ReadBody { size, .. }) if size > BODY_LIMIT => Err(SenlinError::too_large(size, BODY_LIMIT)),
        Ok(ReadBody { bytes, .. }) => Ok(bytes),
        Err(BodyError::Broken(_)) => Err(SenlinError::form(MALFORMED)),
        Err(late @ BodyError::Late) => Err(ApiError::from(late).into()),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return true };
    let kind = kind.to_str().unwrap_or("?").split(';').next().unwrap_or_default().trim().to_lowercase();
    kind.is_empty() || kind.starts_with("text/plain") || kind == "json" || kind == "application/json"
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_is_given_up() {
        let error = whole(body::tests::stalled()).await.expect_err("never whole");
        assert_eq!((error.response().status().as_u16(), error.message.contains("after 30 s")), (408, true));
    }

    async fn read(kind: Option<&str>, body: &'static str) -> Result<Option<Map<String, Value>>, SenlinError> {
        let mut headers = HeaderMap::new();
        if let Some(kind) = kind {
            headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
        }
        read_body(&headers, Body::from(body)).await
    }

    #[rstest]
    #[case(None, "{}", true)]
    #[case(Some("application/json; charset=utf-8"), "{}", true)]
    #[case(Some("text/plain"), "{}", true)]
    #[case(Some("application/xml"), "{}", false)]
    #[case(Some("application/json"), "[]", false)]
    #[case(Some("application/json"), "", false)]
    #[tokio::test]
    async fn a_body_that_is_no_object_counts_as_absent(
        #[case] kind: Option<&str>,
        #[case] body: &'static str,
        #[case] there: bool,
    ) {
        assert_eq!(read(kind, body).await.unwrap().is_some(), there);
    }

    #[tokio::test]
    async fn a_body_that_is_no_json_or_too_large_is_refused() {
        assert_eq!(read(None, "{\"a\": ").await.unwrap_err().status.as_u16(), 400);
        let large = format!("{{\"a\": \"{}\"}}", "x".repeat(BODY_LIMIT));
        let refused = read_body(&HeaderMap::new(), Body::from(large)).await.unwrap_err();
        assert_eq!(refused.kind, "RequestLimitExceeded");
    }
}
