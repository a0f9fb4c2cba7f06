use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::future::join_all;

use super::*;

/// The time of one observation.
const TAKES: Duration = Duration::from_millis(20);

/// A server whose observations are counted.
#[derive(Clone, Default)]
struct Counted {
    observations: Arc<AtomicUsize>,
    is_unready: Arc<AtomicBool>,
}

impl Counted {
    fn readiness(&self) -> Readiness {
        let counted = self.clone();
        Readiness::new(move || {
            let counted = counted.clone();
            async move {
                counted.observations.fetch_add(1, Ordering::Relaxed);
                sleep(TAKES).await;
                let is_unready = counted.is_unready.load(Ordering::Relaxed);
                if is_unready { Err("no lease".to_owned()) } else { Ok(()) }
            }
            .boxed()
        })
    }

    fn observations(&self) -> usize {
        self.observations.load(Ordering::Relaxed)
    }
}

impl Readiness {
    /// The readiness of a server that is always ready.
    pub(crate) fn simulated() -> Self {
        Counted::default().readiness()
    }
}

#[tokio::test(start_paused = true)]
async fn probes_of_the_same_moment_share_one_observation() {
    let server = Counted::default();
    let readiness = server.readiness();
    let observed = join_all((0..1000).map(|_| readiness.observe())).await;
    assert!(observed.iter().all(Result::is_ok));
    assert_eq!(server.observations(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_probe_after_another_observes_again() {
    let server = Counted::default();
    let readiness = server.readiness();
    assert_eq!(readiness.observe().await, Ok(()));
    server.is_unready.store(true, Ordering::Relaxed);
    assert_eq!(readiness.observe().await, Err("no lease".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn probes_one_after_the_other_observe_ten_times_a_second_at_most() {
    let server = Counted::default();
    let readiness = server.readiness();
    let without_pause = async {
        loop {
            let _ = readiness.observe().await;
        }
    };
    let _: Result<(), _> = tokio::time::timeout(Duration::from_secs(1), without_pause).await;
    assert!((9..=11).contains(&server.observations()), "{}", server.observations());
}

#[tokio::test(start_paused = true)]
async fn probes_that_are_given_up_do_not_delay_others() {
    let server = Counted::default();
    let readiness = server.readiness();
    for _ in 0..1000 {
        let probe = readiness.observe();
        assert!(tokio::time::timeout(Duration::ZERO, probe).await.is_err());
    }
    let begun = Instant::now();
    assert_eq!(readiness.observe().await, Ok(()));
    assert!(begun.elapsed() <= PAUSE + TAKES * 2, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn all_watchers_share_one_task_which_ends_with_the_last_of_them() {
    let server = Counted::default();
    let readiness = server.readiness();
    let mut watchers: Vec<_> = (0..1000).map(|_| readiness.watch()).collect();
    sleep(WATCH_PERIOD * 10).await;
    assert!((9..=11).contains(&server.observations()), "{}", server.observations());

    server.is_unready.store(true, Ordering::Relaxed);
    for watcher in &mut watchers {
        assert_eq!(*watcher.wait_for(|is_ready| *is_ready == Some(false)).await.unwrap(), Some(false));
    }

    drop(watchers);
    sleep(WATCH_PERIOD * 2).await;
    let before = server.observations();
    sleep(WATCH_PERIOD * 10).await;
    assert_eq!(server.observations(), before, "there is no watcher");

    server.is_unready.store(false, Ordering::Relaxed);
    let mut again = readiness.watch();
    assert_eq!(*again.wait_for(Option::is_some).await.unwrap(), Some(true), "the past is not repeated");
}
