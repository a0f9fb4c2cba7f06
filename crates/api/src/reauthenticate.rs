//! Ends long-running responses once the rights of their caller have changed.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::Request;
use axum::response::Response;
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderMap, header};
use http_body::Frame;
use http_body_util::{BodyStream, StreamBody};
use muster_core::principal::Principal;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tonic::Status;

use crate::auth::{API_KEY, AuthError, Authenticators, OPENSTACK_TOKEN, UnauthenticatedCaller};
use crate::error::ApiError;
use crate::rest::ErrorContext;

/// The period after which the caller of an open response is authenticated again.
const PERIOD: Duration = Duration::from_mins(1);

/// A caller, with the credentials that authenticated it.
pub(crate) struct Identified {
    authenticators: Arc<Authenticators>,
    headers: HeaderMap,
    principal: Principal,
    /// The request, for the error that ends its response.
    request: ErrorContext,
}

impl Identified {
    pub(crate) fn new(authenticators: Arc<Authenticators>, request: &Request, principal: Principal) -> Self {
        let credentials =
            [header::AUTHORIZATION.as_str(), OPENSTACK_TOKEN, API_KEY].map(header::HeaderName::from_static);
        let credentials = credentials.into_iter().filter_map(|name| {
            let value = request.headers().get(&name)?.clone();
            Some((name, value))
        });
        let headers = credentials.collect();
        Self { authenticators, headers, principal, request: ErrorContext::of(request) }
    }

    /// Returns true if the same credentials still have the same rights, or if that cannot be verified at present.
    async fn is_unchanged(&self) -> bool {
        match self.authenticators.identify(UnauthenticatedCaller { headers: &self.headers }).await {
            Ok(now) => now == self.principal,
            Err(AuthError::Refused(_)) => false,
            Err(AuthError::Unavailable(_) | AuthError::NotVerifiable(_) | AuthError::Misconfigured(_)) => {
                true
            }
        }
    }

    /// Ends a response with an error once its caller's rights have changed. Responses of known length are short, and are
    /// not checked.
    pub(crate) fn bound(self, response: Response) -> Response {
        if response.body().size_hint().exact().is_some() {
            return response;
        }
        let headers = response.headers().clone();
        let mut ticks = interval_at(Instant::now() + PERIOD, PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        response.map(|body| Body::new(StreamBody::new(self.frames(body, ticks, headers))))
    }

    fn frames(
        self,
        body: Body,
        ticks: Interval,
        headers: HeaderMap,
    ) -> impl Stream<Item = Result<Frame<Bytes>, axum::Error>> {
        let open = Some((self, BodyStream::new(body), ticks, headers));
        stream::unfold(open, |open| async move {
            let (caller, mut body, mut ticks, headers) = open?;
            loop {
                tokio::select! {
                    // Poll the check first: a stream that always has data must not postpone it.
                    biased;
                    _ = ticks.tick() => if !caller.is_unchanged().await {
                        return Some((caller.last_frame(&headers), None));
                    },
                    frame = body.next() => return Some((frame?, Some((caller, body, ticks, headers)))),
                }
            }
        })
    }

    /// Returns the end of a response whose caller's rights have changed. Where the format has no place for an error, the
    /// response breaks off, so that its client does not mistake it for a complete one.
    fn last_frame(&self, headers: &HeaderMap) -> Result<Frame<Bytes>, axum::Error> {
        let message = "the caller's credentials or roles have changed: log in and begin again";
        let status = Status::from(ApiError::unauthenticated(message));
        self.request.last_frame(headers, &status).ok_or_else(|| axum::Error::new(status))
    }
}

#[cfg(test)]
mod tests;
