//! The part of OpenStack's identity API that clients need to log in: exchanges a password for a token and a catalog.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::{HeaderValue, StatusCode, header};
use muster_core::principal::Principal;
use muster_core::time::Timestamp;
use serde_json::{Map, Value, json};

use crate::auth::{Accounts, ConcurrencyLimit, LoggedIn};
use crate::body::{self, ReadBody};
use crate::clustering::{ROOT as CLUSTERING, base};
use crate::error::{ApiError, ErrorRenderer};
use crate::rest;
use crate::serve::PublicRoute;

/// The path of the API.
const ROOT: &str = "/identity";

/// The largest number of log-ins that wait for verification; more are refused.
const MOST_WAITING: usize = 64;

/// The largest body of a log-in.
const BODY_LIMIT: usize = 64 * 1024;

/// The identity API over the accounts of a file.
#[derive(Clone)]
pub struct IdentityApi {
    accounts: Arc<Accounts>,
    /// Limits the passwords that are hashed at once: each needs 19 MiB of memory and a core.
    hashing: Arc<ConcurrencyLimit>,
    tls: bool,
}

impl IdentityApi {
    /// Creates the API for these accounts; `tls` is true if clients connect with TLS.
    pub fn new(accounts: Arc<Accounts>, tls: bool) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { accounts, hashing: Arc::new(ConcurrencyLimit::new(cores, MOST_WAITING)), tls }
    }

    /// Returns the routes, without middleware.
    pub fn routes(self) -> Router {
        Router::new()
            .route(ROOT, get(versions))
            .route(&format!("{ROOT}/"), get(versions))
            .route(&format!("{ROOT}/v3"), get(version))
            .route(&format!("{ROOT}/v3/"), get(version))
            .route(&format!("{ROOT}/v3/auth/tokens"), post(log_in))
            .method_not_allowed_fallback(wrong_method)
            .with_state(self)
    }
}

/// Marks requests of this API as public, since this is where clients authenticate.
pub(crate) fn mark(request: &mut Request) {
    let path = request.uri().path();
    if path == ROOT || path.starts_with("/identity/") {
        let extensions = request.extensions_mut();
        extensions.insert(PublicRoute);
        extensions.insert(ErrorRenderer(|error| refuse(error.status, &error.message)));
    }
}

async fn wrong_method(request: Request) -> Response {
    let message = format!("{} is not allowed on {}", request.method(), request.uri().path());
    refuse(StatusCode::METHOD_NOT_ALLOWED, &message)
}

async fn versions(State(api): State<IdentityApi>, request: Request) -> Response {
    let base = base(&request.into_parts().0, api.tls);
    answer(StatusCode::MULTIPLE_CHOICES, &json!({"versions": {"values": [document(&base)]}}))
}

async fn version(State(api): State<IdentityApi>, request: Request) -> Response {
    let base = base(&request.into_parts().0, api.tls);
    answer(StatusCode::OK, &json!({"version": document(&base)}))
}

fn document(base: &str) -> Value {
    json!({
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{base}{ROOT}/v3/")}],
        "media-types": [
            {"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"},
        ],
    })
}

async fn log_in(State(api): State<IdentityApi>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let base = base(&parts, api.tls);
    let bytes = match body::read(body, BODY_LIMIT, BODY_LIMIT).await {
        Ok(ReadBody { bytes, size }) if size <= BODY_LIMIT => bytes,
        Ok(_) => return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the log-in is larger than 64 KiB"),
        Err(error) => {
            let error = ApiError::from(error);
            return refuse(error.status, &error.message);
        }
    };
    let Ok(body) = serde_json::from_slice::<Value>(&bytes) else {
        return refuse(StatusCode::BAD_REQUEST, "the body is not JSON: send {\"auth\": {\"identity\": …}}");
    };
    let given = match LogInRequest::read(&body) {
        Ok(given) => given,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let accounts = Arc::clone(&api.accounts);
    let (name, password, project) = (given.name.clone(), given.password.clone(), given.project.clone());
    let Some(turn) = api.hashing.turn().await else {
        return refuse(
            StatusCode::TOO_MANY_REQUESTS,
            "too many log-ins wait to be checked: try again in a moment",
        );
    };
    // The task holds the permit, because hashing continues even if the client disconnects.
    let check = move || {
        let checked = accounts.log_in(&name, &password, project.as_deref());
        drop(turn);
        checked
    };
    let checked = tokio::task::spawn_blocking(check).await;
    match checked.ok().flatten() {
        Some(logged_in) => {
            let mut response = answer(StatusCode::CREATED, &json!({"token": token(&logged_in, &base)}));
            if let Ok(value) = HeaderValue::from_str(&logged_in.token) {
                response.headers_mut().insert("x-subject-token", value);
            }
            response
        }
        None => refuse(
            StatusCode::UNAUTHORIZED,
            "The request you have made requires authentication: the name, the password or the project is not right.",
        ),
    }
}

/// The credentials in a log-in.
struct LogInRequest {
    name: String,
    password: String,
    project: Option<String>,
}

impl LogInRequest {
    fn read(body: &Value) -> Result<Self, String> {
        let auth = &body["auth"];
        let methods = auth["identity"]["methods"].as_array().cloned().unwrap_or_default();
        if !methods.iter().any(|method| method == "password") {
            return Err(
                "auth.identity.methods has no 'password': that is the only way to log in here".to_owned()
            );
        }
        let user = &auth["identity"]["password"]["user"];
        let name = name_or_id(user).ok_or("auth.identity.password.user has no name and no id")?;
        let password = user["password"].as_str().ok_or("auth.identity.password.user has no password")?;
        for (what, domain) in [("user", &user["domain"]), ("project", &auth["scope"]["project"]["domain"])] {
            if let Some(domain) = name_or_id(domain)
                && !domain.eq_ignore_ascii_case("default")
            {
                return Err(format!("the domain of the {what} is '{domain}': must be 'default'"));
            }
        }
        let project = name_or_id(&auth["scope"]["project"]);
        Ok(Self { name, password: password.to_owned(), project })
    }
}

fn name_or_id(of: &Value) -> Option<String> {
    of["name"].as_str().or_else(|| of["id"].as_str()).map(str::to_owned)
}

fn token(logged_in: &LoggedIn, base: &str) -> Value {
    let LoggedIn { principal, issued_at, expires_at, token: _ } = logged_in;
    let domain = json!({"id": "default", "name": "Default"});
    let roles: Vec<Value> =
        principal.roles.iter().map(|role| json!({"id": role.as_str(), "name": role.as_str()})).collect();
    json!({
        "methods": ["password"],
        "user": {"id": principal.id, "name": principal.name, "domain": domain},
        "project": {"id": principal.project, "name": principal.project, "domain": domain},
        "is_domain": false,
        "roles": roles,
        "issued_at": time(*issued_at),
        "expires_at": time(*expires_at),
        "audit_ids": [audit_id(principal, *issued_at)],
        "catalog": [
            service("clustering", "muster", &format!("{base}{CLUSTERING}")),
            service("identity", "muster-identity", &format!("{base}{ROOT}/v3")),
        ],
    })
}

fn time(at: Timestamp) -> String {
    let at = jiff::Timestamp::from_microsecond(at.micros()).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Returns the id of the log-in that issued a token.
fn audit_id(principal: &Principal, at: Timestamp) -> String {
    let name = format!("{}/{}", principal.id, at.micros());
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, name.as_bytes()).simple().to_string()
}

fn service(kind: &str, name: &str, url: &str) -> Value {
    let endpoint = |interface: &str| {
        json!({
            "id": format!("{kind}-{interface}"),
            "interface": interface,
            "region": "RegionOne",
            "region_id": "RegionOne",
            "url": url,
        })
    };
    let endpoints: Vec<Value> = ["public", "internal", "admin"].into_iter().map(endpoint).collect();
    json!({"id": kind, "type": kind, "name": name, "endpoints": endpoints})
}

fn answer(status: StatusCode, body: &Value) -> Response {
    let mut response = rest::json(status, body.to_string());
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("X-Auth-Token"));
    response
}

fn refuse(status: StatusCode, message: &str) -> Response {
    let title = status.canonical_reason().unwrap_or("Error");
    let error = json!({"code": status.as_u16(), "message": message, "title": title});
    answer(status, &Value::Object(Map::from_iter([("error".to_owned(), error)])))
}
