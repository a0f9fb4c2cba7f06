//! Asking a framework by HTTP, on this machine.

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::{Request, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use muster_frameworks::{Ask, Method};

/// How long an answer may take: a scheduler that is busy with a large graph may need seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The largest answer that is read: thousands of workers fit.
const LARGEST: usize = 16 << 20;

/// No answer, or not a good one.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct AskError(pub(super) String);

#[derive(Clone)]
pub(super) struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Http {
    pub(super) fn new() -> Self {
        // A connection that was kept may be to a head that is gone, and who asks would take that for an answer.
        Self { client: Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http() }
    }

    /// Asks, and reads the answer if it is a good one.
    pub(super) async fn ask(&self, ask: &Ask) -> Result<Vec<u8>, AskError> {
        self.ask_within(ask, PATIENCE).await
    }

    pub(super) async fn ask_within(&self, ask: &Ask, patience: Duration) -> Result<Vec<u8>, AskError> {
        let late = |_| AskError(format!("{} did not answer within {} s", ask.url, patience.as_secs()));
        tokio::time::timeout(patience, self.answer(ask)).await.map_err(late)?
    }

    async fn answer(&self, ask: &Ask) -> Result<Vec<u8>, AskError> {
        let failed = |why: &dyn std::fmt::Display| AskError(format!("{}: {why}", ask.url));
        let method = match ask.method {
            Method::Get => hyper::Method::GET,
            Method::Post => hyper::Method::POST,
        };
        let body = Full::new(Bytes::from(ask.body.clone().unwrap_or_default()));
        let mut request = Request::builder().method(method).uri(&ask.url);
        request = request.header(header::CONTENT_TYPE, "application/json");
        if let Some(secret) = &ask.bearer {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", secret.reveal()));
        }
        let request = request.body(body).map_err(|error| failed(&error))?;
        let answer = self.client.request(request).await.map_err(|error| failed(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LARGEST).collect().await;
        let body = body.map_err(|error| failed(&error))?.to_bytes();
        if status.is_success() { Ok(body.into()) } else { Err(failed(&status)) }
    }
}
