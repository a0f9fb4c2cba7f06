//! Background tasks that outlive their own panics.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

/// How long to wait before a task that panicked is started again.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Runs a task to its end; if it panics before the end is asked for, it is started again.
pub(crate) async fn keep_running<F: Future<Output = ()>>(
    end: CancellationToken,
    name: &str,
    task: impl Fn() -> F,
) {
    while let Err(panic) = AssertUnwindSafe(task()).catch_unwind().await {
        tracing::error!(name, panic = panic_message(panic.as_ref()), "task panicked; restarting it");
        tokio::select! {
            () = tokio::time::sleep(RESTART_AFTER) => {}
            () = end.cancelled() => return,
        }
    }
}

/// The message of a panic, if it has one.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
