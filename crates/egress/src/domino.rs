//! Requests to Domino for the user of credentials and for hardware tiers.

#[cfg(test)]
mod tests;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use muster_core::tier::HardwareTier;
use muster_engine::ports::answer_cache::AnswerCache;
use muster_engine::ports::clock::Clock;
use muster_engine::ports::domino::{
    DominoCredentials, DominoIdentity, DominoTiers, DominoUnavailable, DominoUser,
};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url, header};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::{ClientError, client, read, reason};

/// The header in which API keys are sent.
const API_KEY: &str = "X-Domino-Api-Key";

/// The time limits of a request.
#[derive(Debug, Clone, Copy)]
struct TimeLimits {
    /// The time limit of a request with all its attempts.
    total: Duration,
    /// The time after which a request without a response is repeated beside the first.
    slow: Duration,
}

/// The time limits, with which a caller has a response within 5 s.
const LIMITS: TimeLimits = TimeLimits { total: Duration::from_millis(4_500), slow: Duration::from_secs(2) };

/// The largest number of concurrent requests.
const CONCURRENT_REQUESTS: usize = 32;

/// The pauses between attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(300)];

/// The largest responses that are read, in bytes.
const LARGEST_PRINCIPAL: usize = 1 << 20;
const LARGEST_TIERS: usize = 16 << 20;

/// A Domino deployment. Responses are cached for a few seconds.
pub struct Domino {
    base: String,
    client: Client,
    limits: TimeLimits,
    permits: Semaphore,
    users: AnswerCache<Option<DominoUser>>,
    tiers: AnswerCache<Arc<[HardwareTier]>>,
}

/// The response of Domino to credentials.
enum DominoResponse {
    /// Domino accepted the credentials; this is the body.
    Body(Value),
    /// Domino refused the credentials.
    InvalidCredentials,
}

impl Domino {
    /// Connects to the deployment at a URL of the configuration, to which the egress rule does not apply.
    pub fn new(url: &Url, clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        Self::with_limits(url, clock, LIMITS)
    }

    fn with_limits(url: &Url, clock: Arc<dyn Clock>, limits: TimeLimits) -> Result<Self, ClientError> {
        // Redirects are not followed, because they could send the credentials to another server.
        let client = client(|builder| builder.redirect(Policy::none()))?;
        let (users, tiers) = (AnswerCache::new(Arc::clone(&clock)), AnswerCache::new(clock));
        let base = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { base, client, limits, permits: Semaphore::new(CONCURRENT_REQUESTS), users, tiers })
    }

    async fn get(
        &self,
        path: &str,
        credentials: &DominoCredentials,
        largest: usize,
    ) -> Result<DominoResponse, DominoUnavailable> {
        let deadline = Instant::now() + self.limits.total;
        let Ok(Ok(_permit)) = timeout_at(deadline, self.permits.acquire()).await else {
            return Err(DominoUnavailable("too many requests wait for Domino".to_owned()));
        };
        let response = timeout_at(deadline, self.get_or_repeat(path, credentials, largest)).await;
        response.unwrap_or_else(|_| Err("it did not respond in time".to_owned())).map_err(|why| {
            tracing::warn!(path, why, "a request to Domino failed");
            DominoUnavailable(format!("Domino is unavailable: {why}"))
        })
    }

    /// Makes a request and repeats it once if it is slow, since its connection may be dead. The first request
    /// continues, since Domino may be slow to respond to both.
    async fn get_or_repeat(
        &self,
        path: &str,
        credentials: &DominoCredentials,
        largest: usize,
    ) -> Result<DominoResponse, String> {
        let mut first = pin!(self.get_with_retries(path, credentials, largest));
        if let Ok(response) = timeout(self.limits.slow, &mut first).await {
            return response;
        }
        let mut second = pin!(self.get_with_retries(path, credentials, largest));
        tokio::select! {
            response = &mut first => if response.is_ok() { response } else { second.await },
            response = &mut second => if response.is_ok() { response } else { first.await },
        }
    }

    /// Makes a request, and again after temporary failures. The error has the reason.
    async fn get_with_retries(
        &self,
        path: &str,
        credentials: &DominoCredentials,
        largest: usize,
    ) -> Result<DominoResponse, String> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let (why, may_recover) = match self.attempt(path, credentials, largest).await {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            match pauses.next().filter(|_| may_recover) {
                Some(pause) => sleep(pause).await,
                None => return Err(why),
            }
        }
    }

    /// Makes one attempt. The error has the reason, and true if a retry may succeed.
    async fn attempt(
        &self,
        path: &str,
        credentials: &DominoCredentials,
        largest: usize,
    ) -> Result<DominoResponse, (String, bool)> {
        let (name, value) = match credentials {
            DominoCredentials::ApiKey(key) => (API_KEY, key),
            DominoCredentials::Authorization(value) => (header::AUTHORIZATION.as_str(), value),
        };
        let request = self.client.get(format!("{}{path}", self.base)).header(name, value);
        let response: Response = request.send().await.map_err(|error| (reason(&error), true))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Ok(DominoResponse::InvalidCredentials);
            }
            status => {
                let may_recover = matches!(status.as_u16(), 502..=504);
                return Err((format!("it responded with status {status}"), may_recover));
            }
        }
        let body = read::read_at_most(response, largest).await.map_err(|error| (reason(&error), true))?;
        let body = serde_json::from_slice(&body);
        body.map(DominoResponse::Body).map_err(|_| ("its response is not JSON".to_owned(), false))
    }
}

/// The key of cached responses. It includes the header, because the same text in two headers is two credentials.
fn cache_key(credentials: &DominoCredentials) -> String {
    match credentials {
        DominoCredentials::ApiKey(key) => format!("{API_KEY}: {key}"),
        DominoCredentials::Authorization(value) => format!("{}: {value}", header::AUTHORIZATION),
    }
}

/// Reads the user from a principal of Domino; none if the principal is anonymous.
fn parse_user(principal: &Value) -> Result<Option<DominoUser>, DominoUnavailable> {
    let incomplete =
        |what: &str| DominoUnavailable(format!("Domino is unavailable: its response has no {what}"));
    let principal = principal.as_object().ok_or_else(|| incomplete("principal"))?;
    let flag = |key: &str| principal.get(key).and_then(Value::as_bool);
    let text = |key: &str| principal.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_anonymous = match principal.get("isAnonymous") {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(_) => true,
    };
    if is_anonymous {
        return Ok(None);
    }
    let (id, name) = (text("canonicalId"), text("canonicalName"));
    if id.is_empty() {
        return Err(incomplete("canonicalId"));
    }
    let name = if name.is_empty() { id.clone() } else { name };
    Ok(Some(DominoUser { id, name, is_admin: flag("isAdmin") == Some(true) }))
}

#[async_trait]
impl DominoIdentity for Domino {
    async fn identify(
        &self,
        credentials: &DominoCredentials,
    ) -> Result<Option<DominoUser>, DominoUnavailable> {
        let key = cache_key(credentials);
        if let Some(known) = self.users.get(&key) {
            return Ok(known);
        }
        let user = match self.get("/v4/auth/principal", credentials, LARGEST_PRINCIPAL).await? {
            DominoResponse::Body(principal) => parse_user(&principal)?,
            DominoResponse::InvalidCredentials => None,
        };
        self.users.put(&key, user.clone());
        Ok(user)
    }
}

#[async_trait]
impl DominoTiers for Domino {
    async fn tiers(&self, credentials: &DominoCredentials) -> Result<Arc<[HardwareTier]>, DominoUnavailable> {
        let key = cache_key(credentials);
        if let Some(known) = self.tiers.get(&key) {
            return Ok(known);
        }
        let tiers = match self.get("/v4/hardwareTier", credentials, LARGEST_TIERS).await? {
            DominoResponse::Body(body) => body,
            DominoResponse::InvalidCredentials => {
                let why = "Domino does not show its hardware tiers to this caller";
                return Err(DominoUnavailable(why.to_owned()));
            }
        };
        let listed = tiers["hardwareTiers"].as_array().ok_or_else(|| {
            DominoUnavailable("Domino is unavailable: its response has no hardwareTiers".to_owned())
        })?;
        let tiers: Arc<[HardwareTier]> = listed.iter().filter_map(HardwareTier::from_domino).collect();
        self.tiers.put(&key, Arc::clone(&tiers));
        Ok(tiers)
    }
}
