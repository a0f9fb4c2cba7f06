//! Measures the duration of calls, and reports their outcomes.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use futures::Stream;
use futures::stream::BoxStream;
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;

use crate::metrics::Metrics;
use crate::ports::provider::{NodeResult, ProviderError};

/// Starts the timers of one provider's calls.
#[derive(Clone)]
pub(super) struct CallTimers {
    pub(super) provider: String,
    pub(super) metrics: Metrics,
}

impl CallTimers {
    pub(super) fn begin(&self, verb: &'static str, cluster: &Cluster, nodes: usize) -> CallTimer {
        CallTimer {
            metrics: self.metrics.clone(),
            provider: self.provider.clone(),
            verb,
            cluster: cluster.id,
            nodes,
            begun: Instant::now(),
            answered: 0,
            failed: 0,
            first: None,
            ended: false,
        }
    }

    pub(super) fn batch<'a>(
        &self,
        verb: &'static str,
        cluster: &Cluster,
        nodes: usize,
        results: BoxStream<'a, NodeResult>,
    ) -> BoxStream<'a, NodeResult> {
        // An empty batch is no call.
        let timer = (nodes > 0).then(|| self.begin(verb, cluster, nodes));
        Box::pin(Results { results, timer })
    }
}

/// The timer of one call, from its start to its last result; reports when the call ends or is dropped.
pub(super) struct CallTimer {
    metrics: Metrics,
    provider: String,
    verb: &'static str,
    cluster: ClusterId,
    nodes: usize,
    begun: Instant,
    answered: usize,
    failed: usize,
    first: Option<ProviderError>,
    /// True if all results arrived; otherwise the caller dropped the call.
    ended: bool,
}

impl CallTimer {
    fn result<T>(&mut self, result: &Result<T, ProviderError>) {
        self.answered += 1;
        if let Err(error) = result {
            self.failed += 1;
            self.first.get_or_insert_with(|| error.clone());
        }
    }

    pub(super) fn end<T>(mut self, result: Result<T, ProviderError>) -> Result<T, ProviderError> {
        self.result(&result);
        self.ended = true;
        result
    }
}

impl Drop for CallTimer {
    fn drop(&mut self) {
        let Self { verb, cluster, nodes, answered, failed, ended, .. } = self;
        let took = self.begun.elapsed();
        let ms = took.as_millis();
        let outcome = match (*failed > 0, *ended) {
            (true, _) => "failed",
            (false, true) => "done",
            (false, false) => "left",
        };
        self.metrics.provider_called(&self.provider, verb, outcome, took);
        match &self.first {
            Some(ProviderError { transient, reason, message, .. }) => {
                tracing::warn!(verb, %cluster, nodes, answered, failed, ms, transient, reason, why = message, "provider call failed");
            }
            None => tracing::debug!(verb, %cluster, nodes, answered, ms, outcome, "provider call"),
        }
    }
}

/// Results of a batch, counted as they pass.
struct Results<'a> {
    results: BoxStream<'a, NodeResult>,
    timer: Option<CallTimer>,
}

impl Stream for Results<'_> {
    type Item = NodeResult;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<NodeResult>> {
        let next = self.results.as_mut().poll_next(context);
        match (&next, &mut self.timer) {
            (Poll::Ready(Some(result)), Some(timer)) => timer.result(&result.result),
            (Poll::Ready(None), timer) => {
                if let Some(mut timer) = timer.take() {
                    timer.ended = true;
                }
            }
            (Poll::Pending, _) | (Poll::Ready(Some(_)), None) => {}
        }
        next
    }
}
