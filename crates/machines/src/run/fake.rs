//! An API server for tests: it stores objects by their paths, and forbids some writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};

#[derive(Debug, Clone, Default)]
pub(crate) struct FakeKubernetes {
    inner: Arc<Mutex<FakeContent>>,
}

#[derive(Debug, Default)]
struct FakeContent {
    objects: BTreeMap<String, Value>,
    /// Parts of paths that cannot be written.
    forbidden: Vec<&'static str>,
    /// Method and path of every request.
    requests: Vec<String>,
    version: usize,
}

impl FakeKubernetes {
    pub(crate) async fn client(&self) -> Client {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = Router::new().fallback(answered).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        super::client_at(&format!("http://{address}"))
    }

    pub(crate) fn store(&self, path: &str, object: Value) {
        self.inner.lock().store(path, object);
    }

    pub(crate) fn forbid(&self, part: &'static str) {
        self.inner.lock().forbidden.push(part);
    }

    pub(crate) fn object(&self, path: &str) -> Option<Value> {
        self.inner.lock().objects.get(path).cloned()
    }

    /// The requests since the last call.
    pub(crate) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.lock().requests)
    }
}

impl FakeContent {
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    /// Returns true if the namespace of a path exists, or the path has none.
    fn is_homed(&self, path: &str) -> bool {
        let Some((_, rest)) = path.split_once("/namespaces/") else { return true };
        let Some((namespace, _)) = rest.split_once('/') else { return true };
        self.objects.contains_key(&format!("/api/v1/namespaces/{namespace}"))
    }

    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        self.requests.push(format!("{method} {path}"));
        let failed = |code: u16, message: String| {
            let reason = if code == 404 { "NotFound" } else { "Forbidden" };
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": message, "reason": reason, "code": code});
            (code, status)
        };
        if *method != Method::GET && self.forbidden.iter().any(|part| path.contains(part)) {
            return failed(403, format!("{path} is forbidden"));
        }
        match (method.as_str(), self.objects.get(path)) {
            ("GET", Some(object)) => (200, object.clone()),
            ("GET", None) if path.ends_with("/machines") => {
                let of_kind = |(key, _): &(&String, &Value)| {
                    key.strip_prefix(path).is_some_and(|name| name.starts_with('/'))
                };
                let items: Vec<_> = self.objects.iter().filter(of_kind).map(|(_, object)| object).collect();
                (200, json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
            }
            ("POST", _) if self.is_homed(path) => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default();
                (201, self.store(&format!("{path}/{name}"), body.clone()))
            }
            ("PUT" | "PATCH", _) => (200, self.store(path, body.clone())),
            _ => failed(404, format!("{path} not found")),
        }
    }
}

async fn answered(State(fake): State<FakeKubernetes>, method: Method, uri: Uri, body: Bytes) -> Response {
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let (code, answer) = fake.inner.lock().answer(&method, uri.path(), &body);
    (StatusCode::from_u16(code).unwrap(), Json(answer)).into_response()
}
