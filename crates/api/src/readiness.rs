//! Readiness, as the probes of HTTP and gRPC report it.
//!
//! These callers need no authentication. So that they cannot overload the database, however many they are, those of the
//! same moment share one observation, a short pause follows each, and all watchers share one task.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use muster_service::Service;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

#[cfg(test)]
mod tests;

/// The time limit of the database check, since probes usually time out after a second.
const PATIENCE: Duration = Duration::from_millis(800);

/// The shortest time between the beginnings of two observations. With the time limit it is less than a second.
const PAUSE: Duration = Duration::from_millis(100);

/// The period of the observations for watchers.
const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// The error is the reason why the server is not ready.
type ProbeResult = Result<(), String>;

/// Observes whether the server is ready. Handles are cheap to clone, and share their observations.
#[derive(Clone)]
pub(crate) struct Readiness(Arc<Observer>);

struct Observer {
    observe: Box<dyn Fn() -> BoxFuture<'static, ProbeResult> + Send + Sync>,
    state: Mutex<State>,
    /// The last observation for watchers; none while there is no watcher.
    watched: watch::Sender<Option<bool>>,
}

#[derive(Default)]
struct State {
    /// The beginning of the last observation.
    begun: Option<Instant>,
    /// The present observation, which ends early once no caller waits for it.
    present: Option<WeakShared<BoxFuture<'static, ProbeResult>>>,
    /// True while a task observes for watchers.
    is_watched: bool,
}

impl Readiness {
    /// The readiness of a server.
    pub(crate) fn of(service: Service) -> Self {
        Self::new(move || {
            let service = service.clone();
            async move { service.readiness(PATIENCE).await }.boxed()
        })
    }

    fn new(observe: impl Fn() -> BoxFuture<'static, ProbeResult> + Send + Sync + 'static) -> Self {
        let (watched, _) = watch::channel(None);
        Self(Arc::new(Observer { observe: Box::new(observe), state: Mutex::default(), watched }))
    }

    /// Waits for the end of the present observation, or of a new one. The error is the reason why the server is not
    /// ready.
    pub(crate) async fn observe(&self) -> ProbeResult {
        let observation = self.present();
        observation.await
    }

    fn present(&self) -> Shared<BoxFuture<'static, ProbeResult>> {
        let mut state = self.0.state.lock();
        // Results are not cached: a probe that begins after another has ended must not repeat what that observed.
        let present = state.present.as_ref().and_then(WeakShared::upgrade).filter(|one| one.peek().is_none());
        present.unwrap_or_else(|| {
            let new = self.clone().begin().boxed().shared();
            state.present = new.downgrade();
            new
        })
    }

    async fn begin(self) -> ProbeResult {
        let earliest = self.0.state.lock().begun.map(|begun| begun + PAUSE);
        if let Some(earliest) = earliest {
            sleep_until(earliest).await;
        }
        self.0.state.lock().begun = Some(Instant::now());
        (self.0.observe)().await
    }

    /// Watches whether the server is ready; none until that is observed.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<bool>> {
        let mut state = self.0.state.lock();
        // Subscribed while locked, so that the task cannot end without counting this watcher.
        let receiver = self.0.watched.subscribe();
        if !state.is_watched {
            state.is_watched = true;
            tokio::spawn(self.clone().observe_for_watchers());
        }
        receiver
    }

    async fn observe_for_watchers(self) {
        while self.has_watchers() {
            let is_ready = self.observe().await.is_ok();
            self.0.watched.send_if_modified(|known| known.replace(is_ready) != Some(is_ready));
            sleep(WATCH_PERIOD).await;
        }
    }

    /// Returns false, and forgets the last observation, once there is no watcher.
    fn has_watchers(&self) -> bool {
        let mut state = self.0.state.lock();
        state.is_watched = self.0.watched.receiver_count() > 0;
        if !state.is_watched {
            self.0.watched.send_replace(None);
        }
        state.is_watched
    }
}
