use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use http::HeaderValue;
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::*;
use crate::auth::Authenticator;

/// Authenticates one caller, until `is_gone` is set.
#[derive(Clone, Default)]
struct OneCaller {
    is_gone: Arc<AtomicBool>,
    is_unavailable: Arc<AtomicBool>,
}

#[async_trait]
impl Authenticator for OneCaller {
    fn scheme(&self) -> &'static str {
        "one"
    }

    async fn authenticate(&self, _: UnauthenticatedCaller<'_>) -> Result<Option<Principal>, AuthError> {
        if self.is_unavailable.load(Ordering::Relaxed) {
            return Err(AuthError::Unavailable("not now".to_owned()));
        }
        let gone = self.is_gone.load(Ordering::Relaxed);
        Ok(Some(muster_core::sample::principal()).filter(|_| !gone))
    }

    async fn resolve(&self, known: &Principal) -> Result<Option<Principal>, AuthError> {
        Ok(Some(known.clone()))
    }
}

/// A response with one chunk that never ends by itself.
fn endless(scheme: &OneCaller, kind: &'static str) -> Response {
    bounded(scheme, kind, stream::iter([chunk()]).chain(stream::pending()))
}

fn chunk() -> Bytes {
    Bytes::from_static(b"a")
}

fn is_error(frame: Option<Result<Frame<Bytes>, axum::Error>>) -> bool {
    frame.unwrap().unwrap().into_data().unwrap().starts_with(b"{\"error\"")
}

fn bounded(
    scheme: &OneCaller,
    kind: &'static str,
    chunks: impl Stream<Item = Bytes> + Send + 'static,
) -> Response {
    let mut response = Response::new(Body::from_stream(chunks.map(Ok::<_, axum::Error>)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let authenticators = Arc::new(Authenticators::new().with(scheme.clone()));
    let request = Request::new(Body::empty());
    Identified::new(authenticators, &request, muster_core::sample::principal()).bound(response)
}

/// The text of a response whose caller has no rights any more.
async fn text(kind: &'static str) -> String {
    let scheme = OneCaller::default();
    scheme.is_gone.store(true, Ordering::Relaxed);
    let body = endless(&scheme, kind).into_body().collect().await.expect("an end").to_bytes();
    String::from_utf8(body.to_vec()).expect("text")
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_lines_ends_with_an_error_line() {
    let text = text("application/x-ndjson").await;
    let last: Value = serde_json::from_str(text.strip_prefix("a").expect("a line")).expect("JSON");
    assert!(text.ends_with('\n'), "{text}");
    assert_eq!(
        (&last["error"]["code"], &last["error"]["details"][0]["reason"]),
        (&16.into(), &"Unauthenticated".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_events_ends_with_an_error_event() {
    let text = text("text/event-stream").await;
    let event =
        text.strip_prefix("aevent: error\ndata: ").expect("an event").strip_suffix("\n\n").expect("its end");
    let error: Value = serde_json::from_str(event).expect("JSON");
    assert_eq!(error["code"], 16);
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_format_for_errors_breaks_off() {
    let scheme = OneCaller::default();
    scheme.is_gone.store(true, Ordering::Relaxed);
    let broken = endless(&scheme, "application/json").into_body().collect().await;
    assert!(broken.is_err(), "it looks complete");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_once_its_caller_is_not_known_any_more() {
    let scheme = OneCaller::default();
    let mut body = endless(&scheme, "application/x-ndjson").into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "a");
    scheme.is_gone.store(true, Ordering::Relaxed);
    assert!(is_error(body.frame().await));
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_always_has_more_to_send_ends_too() {
    let scheme = OneCaller::default();
    let mut body = bounded(&scheme, "application/x-ndjson", stream::repeat_with(chunk)).into_body();
    assert!(body.frame().await.is_some());
    scheme.is_gone.store(true, Ordering::Relaxed);
    tokio::time::advance(PERIOD).await;
    assert!(is_error(body.frame().await));
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stream_over_grpc_ends_with_the_status() {
    let scheme = OneCaller::default();
    scheme.is_gone.store(true, Ordering::Relaxed);
    let body = endless(&scheme, "application/grpc").into_body();
    let trailers = body.collect().await.unwrap().trailers().cloned().unwrap();
    assert_eq!(trailers["grpc-status"], "16");
}

#[tokio::test(start_paused = true)]
async fn a_stream_continues_while_the_caller_cannot_be_looked_up() {
    let scheme = OneCaller::default();
    scheme.is_unavailable.store(true, Ordering::Relaxed);
    let mut body = endless(&scheme, "application/json").into_body();
    assert!(body.frame().await.is_some());
    let more = tokio::time::timeout(PERIOD * 3, body.frame()).await;
    assert!(more.is_err(), "it is still open");
}
