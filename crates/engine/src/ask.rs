//! Asking a framework by HTTP what only it can tell.

pub(crate) mod names;

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::{Request, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use muster_core::limits::Activity;
use muster_frameworks::{Ask, Contact, LiveWorker, LocalFramework, Method};

use crate::ask::names::Names;

/// How long an answer may take: a scheduler that is busy with a large graph may need seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The largest answer that is read: thousands of workers fit.
const LARGEST: usize = 16 << 20;

/// No answer, or not a good one.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct AskError(pub String);

/// Whoever asks frameworks.
#[derive(Clone)]
pub struct Http {
    client: Client<HttpConnector<Names>, Full<Bytes>>,
}

impl Http {
    /// One that looks names up here first, and then where everybody does.
    pub fn new(names: HashMap<String, IpAddr>) -> Self {
        let connector = HttpConnector::new_with_resolver(Names::new(names));
        // A connection that was kept may be to a head that is gone, and who asks would take that for an answer.
        Self { client: Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector) }
    }

    /// The workers that a head counts as alive.
    pub async fn workers(
        &self,
        framework: &dyn LocalFramework,
        head: &Contact,
    ) -> Result<Vec<LiveWorker>, AskError> {
        let answer = self.ask(&framework.ask_workers(head)).await?;
        framework.workers(&answer).map_err(|error| AskError(error.to_string()))
    }

    /// Whether anybody uses a cluster, as its head says.
    pub async fn activity(
        &self,
        framework: &dyn LocalFramework,
        head: &Contact,
    ) -> Result<Activity, AskError> {
        let said = framework.activity(&self.ask(&framework.ask_activity(head)).await?);
        let (Activity::IdleSince(_), Some(ask)) = (said, framework.ask_unattended(head)) else {
            return Ok(said);
        };
        Ok(match framework.unattended(&self.ask(&ask).await?) {
            Ok(true) => Activity::Busy,
            Ok(false) => said,
            Err(_) => Activity::Unknown,
        })
    }

    /// Asks, and reads the answer if it is a good one.
    pub async fn ask(&self, ask: &Ask) -> Result<Vec<u8>, AskError> {
        self.ask_within(ask, PATIENCE).await
    }

    /// The same for those who have to wait longer, or cannot wait so long.
    pub async fn ask_within(&self, ask: &Ask, patience: Duration) -> Result<Vec<u8>, AskError> {
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
