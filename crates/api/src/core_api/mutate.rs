//! The common fields of all mutations: the request id, and the milestone to wait for.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_core::action::{Action, Milestone};
use muster_core::principal::Door;
use muster_core::time::TimeSpan;
use muster_proto::wkt;
use muster_service::{Caller, MilestoneWait};
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Response, Status};

use super::find::optional_variant;
use super::limits;
use crate::access::Access;
use crate::auth::hash;
use crate::error::{ACTION_HEADER, ApiError};

/// The header that can replace the field `request_id`.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The time that a mutation waits by default.
const DEFAULT_WAIT: TimeSpan = TimeSpan::from_secs(30);

/// The longest time that a mutation may wait, since proxies and clients close idle connections.
const LONGEST_WAIT: TimeSpan = TimeSpan::from_secs(3600);

/// Reads the milestone to wait for, and the time limit.
pub(super) fn wait(wait_for: &str, wait_timeout: Option<wkt::Duration>) -> Result<MilestoneWait, ApiError> {
    let milestone = optional_variant("wait_for", wait_for)?.unwrap_or(Milestone::Applied);
    let at_most = match wait_timeout {
        None => DEFAULT_WAIT,
        Some(given) => limits::between("wait_timeout", given, TimeSpan::default(), LONGEST_WAIT)?,
    };
    Ok(MilestoneWait { milestone, at_most })
}

/// Returns a request without its wait and its request id: a retry may wait longer, or give its id in the header.
macro_rules! canonical {
    ($request:expr) => {{
        let mut request = $request.clone();
        request.wait_for.clear();
        request.wait_timeout = None;
        request.request_id.clear();
        request
    }};
}

pub(super) use canonical;

/// Reads the common fields of a mutation; returns the message and the mutation.
macro_rules! mutation {
    ($request:expr, $method:literal) => {{
        let access = $crate::core_api::access(&$request)?;
        let (metadata, _, request) = $request.into_parts();
        let wait = $crate::core_api::mutate::wait(&request.wait_for, request.wait_timeout)?;
        let asked = $crate::core_api::mutate::canonical!(request);
        let caller =
            $crate::core_api::mutate::caller(&access, &metadata, &request.request_id, $method, &asked)?;
        (request, muster_service::Mutation { access, caller, wait })
    }};
}

pub(super) use mutation;

/// Returns the caller, as actions record it, with the request id.
pub(super) fn caller(
    access: &Access,
    metadata: &MetadataMap,
    request_id: &str,
    method: &str,
    request: &impl Message,
) -> Result<Caller, ApiError> {
    let header = metadata.get(IDEMPOTENCY_KEY).and_then(|value| value.to_str().ok());
    let id = match (request_id, header) {
        ("", header) => header,
        (given, Some(header)) if given != header => {
            return Err(ApiError::invalid(format!(
                "request_id is '{given:.40}' and {IDEMPOTENCY_KEY} '{header:.40}': leave one out"
            )));
        }
        (given, _) => Some(given),
    };
    id.map_or(Ok(()), limits::request_id)?;
    let digest = || hash(&format!("{method} {}", URL_SAFE_NO_PAD.encode(request.encode_to_vec())));
    Ok(Caller {
        principal: access.principal().clone(),
        door: Door::Core,
        reason: String::new(),
        request: id.map(|id| (id.to_owned(), digest())),
    })
}

/// Builds a response with the id of its action in the metadata.
pub(super) fn with_action<T>(message: T, action: &Action) -> Result<Response<T>, Status> {
    let mut response = Response::new(message);
    let id = action.id.to_string().parse();
    response
        .metadata_mut()
        .insert(ACTION_HEADER, id.map_err(|_| Status::internal("an id is not a header value"))?);
    Ok(response)
}
