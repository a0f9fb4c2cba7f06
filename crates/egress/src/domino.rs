//! Requests to Domino: who is calling, and which hardware tiers exist.

#[cfg(test)]
mod tests;

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
use tokio::time::{Instant, timeout_at};

use crate::{ClientError, client, read, reason};

/// The header that API keys are sent in.
const API_KEY: &str = "X-Domino-Api-Key";

/// The longest time for an answer, with all attempts: the caller is answered within 5 s.
const WITHIN: Duration = Duration::from_millis(4_500);

/// The longest time for one attempt.
const ATTEMPT_WITHIN: Duration = Duration::from_secs(2);

/// Requests that run at once.
const AT_A_TIME: usize = 32;

/// The pauses between attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(300)];

/// The largest answers that are read.
const LARGEST_PRINCIPAL: usize = 1 << 20;
const LARGEST_TIERS: usize = 16 << 20;

/// A Domino deployment. Answers are cached for a few seconds.
pub struct Domino {
    base: String,
    client: Client,
    turns: Semaphore,
    users: AnswerCache<Option<DominoUser>>,
    tiers: AnswerCache<Arc<[HardwareTier]>>,
}

/// What Domino answers to credentials.
enum Answer {
    /// It knows them.
    Body(Value),
    /// It does not know them.
    Unknown,
}

impl Domino {
    /// The deployment at this URL, which the configuration names: the rule about users' URLs does not apply to it.
    pub fn new(url: &Url, clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        // Credentials are sent to this deployment only, so redirects are not followed.
        let client = client(|builder| builder.redirect(Policy::none()).timeout(ATTEMPT_WITHIN))?;
        let (users, tiers) = (AnswerCache::new(Arc::clone(&clock)), AnswerCache::new(clock));
        let base = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { base, client, turns: Semaphore::new(AT_A_TIME), users, tiers })
    }

    async fn get(
        &self,
        path: &str,
        credentials: &DominoCredentials,
        largest: usize,
    ) -> Result<Answer, DominoUnavailable> {
        let deadline = Instant::now() + WITHIN;
        let Ok(Ok(_turn)) = timeout_at(deadline, self.turns.acquire()).await else {
            return Err(DominoUnavailable("too many callers wait for Domino".to_owned()));
        };
        let mut pauses = PAUSES.into_iter();
        loop {
            let attempt = timeout_at(deadline, self.attempt(path, credentials, largest)).await;
            let (why, may_recover) = match attempt {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(failed)) => failed,
                Err(_) => ("it took too long".to_owned(), false),
            };
            match pauses.next().filter(|_| may_recover) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => {
                    tracing::warn!(path, why, "Domino cannot be asked");
                    return Err(DominoUnavailable(format!("Domino cannot be asked: {why}")));
                }
            }
        }
    }

    /// One attempt; an error says why it failed, and whether the next one may succeed.
    async fn attempt(
        &self,
        path: &str,
        credentials: &DominoCredentials,
        largest: usize,
    ) -> Result<Answer, (String, bool)> {
        let (name, value) = match credentials {
            DominoCredentials::ApiKey(key) => (API_KEY, key),
            DominoCredentials::Authorization(value) => (header::AUTHORIZATION.as_str(), value),
        };
        let request = self.client.get(format!("{}{path}", self.base)).header(name, value);
        let response: Response = request.send().await.map_err(|error| (reason(&error), true))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Ok(Answer::Unknown),
            status => {
                let may_recover = matches!(status.as_u16(), 502..=504);
                return Err((format!("it answered {status}"), may_recover));
            }
        }
        let body = read::at_most(response, largest).await.map_err(|error| (reason(&error), true))?;
        let body = serde_json::from_slice(&body);
        body.map(Answer::Body).map_err(|_| ("its answer is no JSON".to_owned(), false))
    }
}

/// Credentials as the key of cached answers: the same text in two headers is two credentials.
fn cache_key(credentials: &DominoCredentials) -> String {
    match credentials {
        DominoCredentials::ApiKey(key) => format!("{API_KEY}: {key}"),
        DominoCredentials::Authorization(value) => format!("{}: {value}", header::AUTHORIZATION),
    }
}

/// The user that a principal of Domino is; none for an anonymous one.
fn user(principal: &Value) -> Result<Option<DominoUser>, DominoUnavailable> {
    let garbage = |what: &str| DominoUnavailable(format!("Domino cannot be asked: its answer has no {what}"));
    let principal = principal.as_object().ok_or_else(|| garbage("principal"))?;
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
        return Err(garbage("canonicalId"));
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
            Answer::Body(principal) => user(&principal)?,
            Answer::Unknown => None,
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
            Answer::Body(body) => body,
            Answer::Unknown => {
                let why = "Domino does not show its hardware tiers to this caller";
                return Err(DominoUnavailable(why.to_owned()));
            }
        };
        let listed = tiers["hardwareTiers"].as_array().ok_or_else(|| {
            DominoUnavailable("Domino cannot be asked: its answer has no hardwareTiers".to_owned())
        })?;
        let tiers: Arc<[HardwareTier]> = listed.iter().filter_map(HardwareTier::from_domino).collect();
        self.tiers.put(&key, Arc::clone(&tiers));
        Ok(tiers)
    }
}
