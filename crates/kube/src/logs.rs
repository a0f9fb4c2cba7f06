//! Logs of containers: on request, and the last lines of containers in a crash loop, for the reason of their node.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt as _, Stream, StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};
use muster_engine::ports::provider::{LogLines, LogQuery, LogText, ProviderError};
use parking_lot::Mutex;

use crate::errors;
use crate::projection::CrashLoop;

/// The number of last lines that are read from the log of a container in a crash loop.
const CRASH_LOG_LINES: i64 = 10;

/// The limit of the lines that are cached for a pod, in bytes.
const MAX_CRASH_LOG_BYTES: usize = 2000;

/// The number of pods whose last lines are cached.
const MAX_CRASH_LOGS: usize = 1000;

/// The time-out of reading the lines of one container.
const CRASH_LOG_DEADLINE: Duration = Duration::from_secs(5);

/// A container whose log is read.
pub(crate) struct LogSource<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) container: &'a str,
    /// The machine that the pod is on; none while it is not scheduled.
    pub(crate) machine: Option<&'a str>,
    /// The reason why the pod is not ready, if known.
    pub(crate) reason: &'a str,
}

/// Reads the log of a container.
pub(crate) async fn read_log(
    client: Client,
    source: LogSource<'_>,
    LogQuery { tail, follow, since, .. }: LogQuery,
) -> Result<LogLines, ProviderError> {
    let LogSource { namespace, pod, container, machine, reason } = source;
    let what = format!("read the log of pod '{namespace}/{pod}'");
    let parameters = LogParams {
        container: Some(container.to_owned()),
        follow,
        since_time: since.and_then(|since| Timestamp::from_microsecond(since.micros()).ok()),
        tail_lines: tail.map(|lines| i64::try_from(lines).unwrap_or(i64::MAX)),
        ..LogParams::default()
    };
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    // A retry would not help: the kubelet does not answer, or has no log.
    let refused = |error| ProviderError { transient: false, ..errors::request_error(&what, error) };
    let log = pods.log_stream(pod, &parameters).await.map_err(refused)?;
    if machine.is_none() {
        // The API server answers with an empty log, which would look as if the container had written nothing.
        let why = if reason.is_empty() { "it waits for a machine" } else { reason };
        let message = format!("pod '{namespace}/{pod}' has not started and has no log yet: {why}");
        return Err(ProviderError::permanent("NoLogs", message));
    }
    let broken = move |error| ProviderError::transient("Unreachable", format!("cannot {what}: {error}"));
    Ok(lossy_lines(log).map_ok(|line| LogText::of_node(line + "\n")).map_err(broken).boxed())
}

/// Returns the lines of a log without their ends. Programs may log any bytes: invalid UTF-8 is replaced, and does not
/// end the log.
pub(crate) fn lossy_lines(
    log: impl AsyncBufRead + Send + 'static,
) -> impl Stream<Item = io::Result<String>> + Send + 'static {
    stream::try_unfold(Box::pin(log), |mut log| async move {
        let mut line = Vec::new();
        if log.read_until(b'\n', &mut line).await? == 0 {
            return Ok(None);
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok(Some((String::from_utf8_lossy(line).into_owned(), log)))
    })
}

/// The last lines of containers in a crash loop, by the UID of their pod. They are read once per crash.
#[derive(Clone, Default)]
pub(crate) struct CrashLogs {
    by_pod: Arc<Mutex<HashMap<String, CrashLog>>>,
}

struct CrashLog {
    restarts: u32,
    text: String,
}

impl CrashLogs {
    /// Returns the last lines of a pod's container; empty while they are not known.
    pub(crate) fn last_lines(&self, uid: &str) -> String {
        self.by_pod.lock().get(uid).map(|log| log.text.clone()).unwrap_or_default()
    }

    /// Reads the log of the last crash in the background, unless that was requested before. Calls `notify` once the log
    /// is cached.
    pub(crate) fn request(
        &self,
        client: Client,
        namespace: &str,
        pod: &str,
        uid: &str,
        crash_loop: &CrashLoop,
        notify: impl FnOnce() + Send + 'static,
    ) {
        {
            let mut by_pod = self.by_pod.lock();
            if by_pod.get(uid).is_some_and(|log| log.restarts >= crash_loop.restarts) {
                return;
            }
            if by_pod.len() >= MAX_CRASH_LOGS {
                // Most of these pods are gone; the logs of the others are read again.
                by_pod.clear();
            }
            let before = by_pod.remove(uid).map(|log| log.text).unwrap_or_default();
            by_pod.insert(uid.to_owned(), CrashLog { restarts: crash_loop.restarts, text: before });
        }
        let (logs, pods, pod, uid) =
            (self.clone(), Api::<Pod>::namespaced(client, namespace), pod.to_owned(), uid.to_owned());
        let parameters = LogParams {
            container: Some(crash_loop.container.clone()),
            previous: true,
            tail_lines: Some(CRASH_LOG_LINES),
            ..LogParams::default()
        };
        tokio::spawn(async move {
            let read = async {
                let log = pods.log_stream(&pod, &parameters).await.ok()?;
                lossy_lines(log).try_collect::<Vec<String>>().await.ok()
            };
            let Ok(Some(lines)) = tokio::time::timeout(CRASH_LOG_DEADLINE, read).await else { return };
            let text = tail(&lines.join("\n"));
            if let Some(log) = logs.by_pod.lock().get_mut(&uid) {
                log.text = text;
            }
            notify();
        });
    }
}

/// Returns the end of a log within the limit, from the beginning of a line if possible.
fn tail(log: &str) -> String {
    let log = log.trim_end();
    let Some(cut) = log.len().checked_sub(MAX_CRASH_LOG_BYTES).filter(|cut| *cut > 0) else {
        return log.to_owned();
    };
    let from = (cut..log.len()).find(|place| log.is_char_boundary(*place)).unwrap_or(cut);
    let rest = &log[from..];
    rest.split_once('\n').map_or(rest, |(_, lines)| lines).to_owned()
}

#[cfg(test)]
mod tests {
    use futures::io::Cursor;

    use super::*;

    #[tokio::test]
    async fn a_log_with_bytes_that_are_no_text_is_read_to_its_end() {
        let log = Cursor::new(b"one\n\xff two\r\n\nend");
        let lines: Vec<String> = lossy_lines(log).try_collect().await.expect("the log can be read");
        assert_eq!(lines, ["one", "\u{fffd} two", "", "end"]);
    }

    #[test]
    fn a_long_crash_log_is_cut_at_the_beginning_of_a_line() {
        assert_eq!(tail("one\ntwo\n"), "one\ntwo");
        let max = MAX_CRASH_LOG_BYTES;
        let log = format!("{}\nä{}\nend\n", "x".repeat(max), "y".repeat(max - 10));
        let kept = tail(&log);
        assert!(kept.ends_with("\nend") && kept.len() <= max, "{} characters", kept.len());
        assert!(!kept.contains('x'));
    }
}
