//! Background tasks that outlive their own panics.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

/// The delay before a task that panicked is restarted.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Runs a task until it returns. A task that panics is restarted, unless `end` was cancelled.
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

/// Returns the message of a panic, or `no message` if its payload is not text.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
