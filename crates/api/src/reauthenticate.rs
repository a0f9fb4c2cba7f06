//! Responses that go on for long end when their caller's rights do.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::response::Response;
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, header};
use http_body::Frame;
use http_body_util::{BodyStream, StreamBody};
use muster_core::principal::Principal;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tonic::Code;

use crate::auth::{API_KEY, AuthError, Authenticators, Caller, OPENSTACK_TOKEN};

/// How often the caller of an open response is authenticated again.
const PERIOD: Duration = Duration::from_mins(1);

/// A caller, and how it was authenticated.
pub(crate) struct Identified {
    authenticators: Arc<Authenticators>,
    headers: HeaderMap,
    principal: Principal,
}

impl Identified {
    pub(crate) fn new(
        authenticators: Arc<Authenticators>,
        headers: &HeaderMap,
        principal: Principal,
    ) -> Self {
        let credentials =
            [header::AUTHORIZATION.as_str(), OPENSTACK_TOKEN, API_KEY].map(header::HeaderName::from_static);
        let credentials = credentials.into_iter().filter_map(|name| {
            let value = headers.get(&name)?.clone();
            Some((name, value))
        });
        Self { authenticators, headers: credentials.collect(), principal }
    }

    /// Whether the same credentials still give the same rights. A service that cannot be asked changes nothing.
    async fn is_unchanged(&self) -> bool {
        match self.authenticators.identify(Caller { headers: &self.headers }).await {
            Ok(now) => now == self.principal,
            Err(AuthError::Refused(_)) => false,
            Err(AuthError::Unavailable(_) | AuthError::NotVerifiable(_) | AuthError::Misconfigured(_)) => {
                true
            }
        }
    }

    /// Ends a response once its caller's rights have changed. Responses whose length is known are short.
    pub(crate) fn bound(self, response: Response) -> Response {
        if response.body().size_hint().exact().is_some() {
            return response;
        }
        let is_grpc = response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        let mut ticks = interval_at(Instant::now() + PERIOD, PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        response.map(|body| Body::new(StreamBody::new(self.frames(body, ticks, is_grpc))))
    }

    fn frames(
        self,
        body: Body,
        ticks: Interval,
        is_grpc: bool,
    ) -> impl Stream<Item = Result<Frame<Bytes>, axum::Error>> {
        let open = Some((self, BodyStream::new(body), ticks));
        stream::unfold(open, move |open| async move {
            let (caller, mut body, mut ticks) = open?;
            loop {
                tokio::select! {
                    // The check first: a stream that always has something to send must not put it off.
                    biased;
                    _ = ticks.tick() => if !caller.is_unchanged().await {
                        return is_grpc.then(|| (Ok(Frame::trailers(unauthenticated())), None));
                    },
                    frame = body.next() => return Some((frame?, Some((caller, body, ticks)))),
                }
            }
        })
    }
}

fn unauthenticated() -> HeaderMap {
    let code = HeaderValue::from(Code::Unauthenticated as i32);
    let message =
        HeaderValue::from_static("the caller's credentials or roles have changed: log in and begin again");
    [("grpc-status", code), ("grpc-message", message)]
        .into_iter()
        .map(|(name, value)| (header::HeaderName::from_static(name), value))
        .collect()
}

#[cfg(test)]
mod tests;
