//! What containers write: to whoever asks, and the last words of those that keep dying.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};
use muster_engine::ports::provider::{LogQuery, ProviderError};
use parking_lot::Mutex;

use crate::facts::Crashed;
use crate::refusal;

/// The last lines of a container that keeps dying.
const LAST_WORDS: i64 = 10;

/// The most that is kept of them.
const MOST: usize = 2000;

/// The most pods that they are kept of.
const PODS: usize = 1000;

/// How long they may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// A container's log, in lines.
pub(crate) type Lines = BoxStream<'static, Result<String, ProviderError>>;

/// Whose log is read.
pub(crate) struct Writer<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) container: &'a str,
    /// The machine that it is on.
    pub(crate) machine: Option<&'a str>,
    /// Why it does not work yet.
    pub(crate) reason: &'a str,
}

/// Reads the log of a container.
pub(crate) async fn read(
    client: Client,
    writer: Writer<'_>,
    LogQuery { tail, follow }: LogQuery,
) -> Result<Lines, ProviderError> {
    let Writer { namespace, pod, container, machine, reason } = writer;
    let what = format!("read the log of pod '{namespace}/{pod}'");
    let parameters = LogParams {
        container: Some(container.to_owned()),
        follow,
        tail_lines: tail.map(|lines| i64::try_from(lines).unwrap_or(i64::MAX)),
        ..LogParams::default()
    };
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    // Whoever asks again gets the same answer: a kubelet does not answer, or has nothing.
    let refused = |error| ProviderError { transient: false, ..refusal::of(&what, error) };
    let log = pods.log_stream(pod, &parameters).await.map_err(refused)?;
    if machine.is_none() {
        // It is answered with nothing, as if it had nothing to say.
        let why = if reason.is_empty() { "it waits for a machine" } else { reason };
        let message = format!("pod '{namespace}/{pod}' has not started and has no log yet: {why}");
        return Err(ProviderError::permanent("NoLogs", message));
    }
    let broken = move |error| ProviderError::transient("Unreachable", format!("cannot {what}: {error}"));
    Ok(log.lines().map_ok(|line| line + "\n").map_err(broken).boxed())
}

/// Last words of containers that keep dying, by pod: read once a death.
#[derive(Clone, Default)]
pub(crate) struct LastWords {
    known: Arc<Mutex<HashMap<String, Words>>>,
}

struct Words {
    restarts: u32,
    text: String,
}

impl LastWords {
    /// The last words of a pod's container; empty while they are not known.
    pub(crate) fn of(&self, uid: &str) -> String {
        self.known.lock().get(uid).map(|words| words.text.clone()).unwrap_or_default()
    }

    /// Has the words of the last death read, unless they are or somebody does; `told` hears when they are there.
    pub(crate) fn ask(
        &self,
        client: Client,
        namespace: &str,
        pod: &str,
        uid: &str,
        crashed: &Crashed,
        told: impl FnOnce() + Send + 'static,
    ) {
        {
            let mut known = self.known.lock();
            if known.get(uid).is_some_and(|words| words.restarts >= crashed.restarts) {
                return;
            }
            if known.len() >= PODS {
                // Most of them are gone; those that are not are asked again.
                known.clear();
            }
            let before = known.remove(uid).map(|words| words.text).unwrap_or_default();
            known.insert(uid.to_owned(), Words { restarts: crashed.restarts, text: before });
        }
        let (all, pods, pod, uid) =
            (self.clone(), Api::<Pod>::namespaced(client, namespace), pod.to_owned(), uid.to_owned());
        let parameters = LogParams {
            container: Some(crashed.container.clone()),
            previous: true,
            tail_lines: Some(LAST_WORDS),
            ..LogParams::default()
        };
        tokio::spawn(async move {
            let Ok(Ok(log)) = tokio::time::timeout(PATIENCE, pods.logs(&pod, &parameters)).await else {
                return;
            };
            let text = last(&log);
            if let Some(words) = all.known.lock().get_mut(&uid) {
                words.text = text;
            }
            told();
        });
    }
}

/// The end of a text, from the beginning of a line if there is one.
fn last(log: &str) -> String {
    let log = log.trim_end();
    let Some(cut) = log.len().checked_sub(MOST).filter(|cut| *cut > 0) else { return log.to_owned() };
    let from = (cut..log.len()).find(|place| log.is_char_boundary(*place)).unwrap_or(cut);
    let rest = &log[from..];
    rest.split_once('\n').map_or(rest, |(_, lines)| lines).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_last_words_are_cut_at_the_beginning_of_a_line() {
        assert_eq!(last("one\ntwo\n"), "one\ntwo");
        let log = format!("{}\nä{}\nend\n", "x".repeat(MOST), "y".repeat(MOST - 10));
        let kept = last(&log);
        assert!(kept.ends_with("\nend") && kept.len() <= MOST, "{} characters", kept.len());
        assert!(!kept.contains('x'));
    }
}
