//! Reads the body of a request in bounded time and memory.

use std::time::Duration;

use axum::body::Body;
use futures::StreamExt as _;
use tokio::time::timeout;

use crate::error::ApiError;

/// The time in which a client has to send a body: a body that stalls would occupy its connection without end.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The reason why a body was not received completely.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// The body was not complete within the time limit.
    #[error("the body was not complete after {} s: send it without pauses", TIME_LIMIT.as_secs())]
    Late,
    /// The connection or the encoding broke.
    #[error("the body ended early ({0}): send it again")]
    Broken(axum::Error),
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let message = error.to_string();
        match error {
            BodyError::Late => Self::late_body(message),
            BodyError::Broken(_) => Self::invalid(message),
        }
    }
}

/// A body, as far as it was read.
pub(crate) struct ReadBody {
    /// The beginning of the body: at most the wanted number of bytes.
    pub(crate) bytes: Vec<u8>,
    /// The number of bytes that were received; more than in `bytes` if the body is too large.
    pub(crate) size: usize,
}

/// Reads a body and stores up to `wanted` bytes; reading ends after `most` bytes.
pub(crate) async fn read(body: Body, wanted: usize, most: usize) -> Result<ReadBody, BodyError> {
    timeout(TIME_LIMIT, receive(body, wanted, most)).await.unwrap_or(Err(BodyError::Late))
}

async fn receive(body: Body, wanted: usize, most: usize) -> Result<ReadBody, BodyError> {
    let (mut bytes, mut size) = (Vec::new(), 0_usize);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(BodyError::Broken)?;
        size = size.saturating_add(chunk.len());
        if size <= wanted {
            bytes.extend_from_slice(&chunk);
        }
        if size > most {
            break;
        }
    }
    Ok(ReadBody { bytes, size })
}

#[cfg(test)]
pub(crate) mod tests {
    use axum::body::Bytes;
    use futures::stream;

    use super::*;

    /// Returns a body that sends its first half and never ends.
    pub(crate) fn stalled() -> Body {
        let first = stream::iter([Ok::<_, std::convert::Infallible>(Bytes::from_static(b"{\"na"))]);
        Body::from_stream(first.chain(stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stalls_is_given_up() {
        let error = ApiError::from(read(stalled(), 100, 100).await.err().expect("never whole"));
        assert_eq!((error.status.as_u16(), error.code.as_str()), (408, "RequestTimeout"));
        assert_eq!(error.message, "the body was not complete after 30 s: send it without pauses");
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_counted_and_not_kept() {
        let body = read(Body::from("x".repeat(10)), 4, 100).await.expect("whole");
        assert_eq!((body.bytes.len(), body.size), (0, 10));
        let body = read(Body::from("x".repeat(4)), 4, 4).await.expect("whole");
        assert_eq!((body.bytes.len(), body.size), (4, 4));
    }
}
