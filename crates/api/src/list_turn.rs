//! Bounds the memory of list responses: only a few are read, rendered and sent at a time, however many are requested.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http_body::{Frame, SizeHint};
use muster_core::principal::Principal;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

use crate::error::ApiError;
use crate::streams::{CallerKey, key_of};

/// The number of lists at a time. Larger than the usual number of cores, so that no core is idle while lists wait for
/// the database or for clients; smaller than the number of database connections, so that lists leave some to others.
const AT_A_TIME: usize = 12;

/// The number of lists of one caller at a time, so that other callers get permits too.
const OF_ONE_CALLER: usize = 6;

/// The longest time that a list waits for its permits.
const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// The longest time that a response holds its permits while it is not sent completely.
const UNREAD_LIMIT: Duration = Duration::from_secs(10);

/// The largest frame of a response that is passed to its connection at once.
const FRAME: usize = 4 << 10;

/// The semaphores of all lists.
static TURNS: LazyLock<ListTurns> = LazyLock::new(ListTurns::default);

struct ListTurns {
    all: Arc<Semaphore>,
    /// The semaphore of each caller that holds a permit or waits for one.
    callers: Mutex<HashMap<CallerKey, Weak<Semaphore>>>,
}

impl Default for ListTurns {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(AT_A_TIME)), callers: Mutex::default() }
    }
}

impl ListTurns {
    fn of_caller(&self, caller: Option<&Principal>) -> Arc<Semaphore> {
        let key = caller.map(key_of).unwrap_or_default();
        let mut callers = self.callers.lock();
        if let Some(turns) = callers.get(&key).and_then(Weak::upgrade) {
            return turns;
        }
        callers.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(OF_ONE_CALLER));
        callers.insert(key, Arc::downgrade(&turns));
        turns
    }

    /// Waits for a permit of the caller, and then for one that all callers share.
    async fn wait(&self, caller: Option<&Principal>) -> Result<ListTurn, ApiError> {
        let own = self.of_caller(caller);
        let permits = async {
            let own = own.acquire_owned().await?;
            Ok::<_, tokio::sync::AcquireError>([own, Arc::clone(&self.all).acquire_owned().await?])
        };
        match timeout(WAIT_LIMIT, permits).await {
            Ok(Ok(permits)) => Ok(ListTurn { _permits: permits }),
            _ => {
                Err(ApiError::too_many("too many lists are being read: try again later").code("TooManyLists"))
            }
        }
    }
}

/// The permits of a list, held until this value is dropped.
pub(crate) struct ListTurn {
    _permits: [OwnedSemaphorePermit; 2],
}

impl ListTurn {
    /// Waits for the permits; refuses the list if that takes too long.
    pub(crate) async fn wait(caller: Option<&Principal>) -> Result<Self, ApiError> {
        TURNS.wait(caller).await
    }

    /// Wraps the response to a list so that it holds its permits until it is sent; another response is unchanged.
    pub(crate) fn until_sent(turn: Option<Self>, response: Response) -> Response {
        let Some(turn) = turn else { return response };
        let (sent, unsent) = oneshot::channel::<()>();
        tokio::spawn(async move {
            drop(timeout(UNREAD_LIMIT, unsent).await);
            drop(turn);
        });
        response.map(|body| Body::new(ListBody { body, rest: Bytes::new(), _sent: sent }))
    }
}

/// A body in small copied frames, so that a frame that waits in a connection does not keep the whole body in memory.
struct ListBody {
    body: Body,
    /// The rest of the last frame of the inner body.
    rest: Bytes,
    /// Releases the permits when the body is dropped, which happens after it was sent.
    _sent: oneshot::Sender<()>,
}

impl HttpBody for ListBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context))
                .map(|frame| frame.map(Frame::into_data))
            {
                Some(Ok(Ok(data))) => self.rest = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let size = self.rest.len().min(FRAME);
        let frame = Bytes::copy_from_slice(&self.rest.split_to(size));
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        self.body.size_hint().exact().map_or_else(SizeHint::default, |size| SizeHint::with_exact(size + rest))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_list_comes_whole_and_in_small_frames() {
        let text: Vec<u8> = (0..100_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let turn = ListTurn::wait(None).await.expect("a turn");
        let mut body = ListTurn::until_sent(Some(turn), Response::new(text.clone().into())).into_body();
        assert_eq!(body.size_hint().exact(), Some(100_000));
        let mut received = Vec::new();
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            assert!(data.len() <= FRAME);
            received.extend_from_slice(&data);
            assert_eq!(body.size_hint().exact(), Some((text.len() - received.len()) as u64));
        }
        assert_eq!(received, text);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_read_keeps_its_turn_for_a_limited_time() {
        let turns = ListTurns::default();
        let mut unread = Vec::new();
        for _ in 0..OF_ONE_CALLER {
            let turn = turns.wait(None).await.expect("a turn");
            unread.push(ListTurn::until_sent(Some(turn), Response::new(Body::from("list"))));
        }
        let begun = tokio::time::Instant::now();
        turns.wait(None).await.expect("a turn");
        assert!(begun.elapsed() >= UNREAD_LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_with_many_lists_is_refused_and_others_have_their_turn() {
        let turns = ListTurns::default();
        let [ada, bob] = [caller("ada"), caller("bob")];
        let mut taken = Vec::new();
        for _ in 0..OF_ONE_CALLER {
            taken.push(turns.wait(Some(&ada)).await.expect("a turn"));
        }
        let refused = turns.wait(Some(&ada)).await.map(drop).expect_err("all of its turns are taken");
        assert_eq!((refused.status.as_u16(), refused.code.as_str()), (429, "TooManyLists"));
        turns.wait(Some(&bob)).await.expect("a turn of another caller");
        drop(taken);
        turns.wait(Some(&ada)).await.expect("a turn again");
        assert!(turns.callers.lock().len() <= 2, "callers without lists are forgotten");
    }

    fn caller(name: &str) -> Principal {
        Principal { id: name.to_owned(), ..muster_core::sample::principal() }
    }
}
