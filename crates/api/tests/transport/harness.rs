//! REST and gRPC servers on loopback, and clients for them.

use std::sync::Arc;

use muster_api::auth::{Authenticators, Tokens, hash};
use muster_api::guard::GuardSettings;
use muster_api::{grpc_router, router};
use muster_proto::rest::Endpoint;
use muster_proto::rest::v1alpha2::{action_service, admin_service, cluster_service, framework_service};
use muster_proto::v1alpha2::action_service_server::ActionServiceServer;
use muster_proto::v1alpha2::admin_service_server::AdminServiceServer;
use muster_proto::v1alpha2::cluster_service_server::ClusterServiceServer;
use muster_proto::v1alpha2::framework_service_server::FrameworkServiceServer;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tonic::service::Routes;

use crate::fake::Fake;

pub(crate) const TOKEN: &str = "let-bob-in";

/// Two listeners that end with the test.
pub(crate) struct Harness {
    pub(crate) http: String,
    pub(crate) grpc: String,
    client: reqwest::Client,
    _dir: TempDir,
}

impl Harness {
    pub(crate) async fn new() -> Self {
        // The call fails if another test has installed the provider, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let tokens = dir.path().join("tokens.toml");
        let entry =
            format!("[[token]]\nname = 'bob'\nproject = 'p'\nroles = ['member']\nsha256 = '{}'", hash(TOKEN));
        std::fs::write(&tokens, entry).unwrap();
        let authenticators = Authenticators::new().with(Tokens::open(&tokens).unwrap());
        let guard = GuardSettings { loopback: true, allowed_hosts: Vec::new() };

        let fake = Arc::new(Fake);
        let http = router(&endpoints(&fake), authenticators.clone(), guard.clone());
        let routes = Routes::new(ClusterServiceServer::from_arc(Arc::clone(&fake)))
            .add_service(ActionServiceServer::from_arc(Arc::clone(&fake)))
            .add_service(FrameworkServiceServer::from_arc(Arc::clone(&fake)))
            .add_service(AdminServiceServer::from_arc(fake));
        let grpc = grpc_router(routes, authenticators, guard);
        let client = reqwest::Client::builder().tls_certs_only([]).build().unwrap();
        Self { http: serve(http).await, grpc: serve(grpc).await, client, _dir: dir }
    }

    /// A request with good credentials.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.anonymous(method, path).bearer_auth(TOKEN)
    }

    /// A request without credentials.
    pub(crate) fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.http))
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.request(Method::POST, path).json(body)
    }
}

pub(crate) fn endpoints(fake: &Arc<Fake>) -> Vec<Endpoint> {
    [cluster_service(fake), action_service(fake), framework_service(fake), admin_service(fake)].concat()
}

async fn serve(router: axum::Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// The status and the JSON of an answer.
pub(crate) async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response: Response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}
