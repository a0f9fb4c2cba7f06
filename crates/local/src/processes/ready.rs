//! Whether nodes work, as their framework says.

use std::sync::Arc;
use std::time::Duration;

use muster_core::node::{Node, NodeRole};
use muster_engine::ports::provider::{FencedCall, ProviderError};
use muster_frameworks::{Endpoints, LiveWorker, LocalFramework, Whereabouts};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::head::Head;
use super::kind::Kind;
use super::launch::unknown_role;
use super::seat::Seat;
use super::{Inner, on_disk, place};
use crate::shim::NodeFolder;

/// How often a framework is asked whether a node works: it cannot tell by itself.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// When it was given, and who was counted.
type Answer = (Instant, Arc<Vec<LiveWorker>>);

/// What a head last said of its workers: all that are started together ask one question.
#[derive(Clone, Default)]
pub(super) struct Count {
    last: Arc<Mutex<Option<Answer>>>,
}

impl Count {
    /// The workers that the head counted a moment ago at most; it is asked if that is longer ago.
    async fn get(&self, ask: impl AsyncFnOnce() -> Vec<LiveWorker>) -> Arc<Vec<LiveWorker>> {
        // Whoever comes while it is asked waits here for the answer.
        let mut last = self.last.lock().await;
        if let Some((_, workers)) = last.as_ref().filter(|(at, _)| at.elapsed() < ASK_AGAIN) {
            return Arc::clone(workers);
        }
        let workers = Arc::new(ask().await);
        *last = Some((Instant::now(), Arc::clone(&workers)));
        workers
    }
}

impl Inner {
    /// Returns once a node works: as its framework says, or as soon as it runs.
    pub(super) async fn works(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        folder: &NodeFolder,
        seat: &Seat,
        count: &Count,
    ) -> Result<(), ProviderError> {
        let Some(framework) = Kind::of(&call.profile.kind).and_then(Kind::framework) else { return Ok(()) };
        match node.role {
            NodeRole::Head => self.head_works(call, framework, folder).await,
            NodeRole::Worker => self.worker_works(call, framework, &seat.name, count).await,
            NodeRole::Unknown(_) => Err(unknown_role(node)),
        }
    }

    async fn head_works(
        &self,
        call: FencedCall<'_>,
        framework: &dyn LocalFramework,
        folder: &NodeFolder,
    ) -> Result<(), ProviderError> {
        loop {
            // Not told yet, half written, or not answering yet: all of that is asked again.
            if let Some(endpoints) = self.whereabouts(call, framework, folder).await
                && let contact = self.contact(call.cluster.id, endpoints)?
                && self.framework_client.fetch_workers(framework, &contact).await.is_ok()
            {
                let head = Head::new(folder.node(), framework, &contact.endpoints);
                return head
                    .keep(&self.places, call.cluster.id)
                    .map_err(|error| on_disk("the cluster's folder", &error));
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// Where a head that starts is going to answer, as far as that is known yet.
    async fn whereabouts(
        &self,
        call: FencedCall<'_>,
        framework: &dyn LocalFramework,
        folder: &NodeFolder,
    ) -> Option<Endpoints> {
        match framework.whereabouts() {
            Whereabouts::Told { file, read } => {
                read(&tokio::fs::read(place::work(folder).join(file)).await.ok()?).ok()
            }
            Whereabouts::Given { endpoints, .. } => Some(endpoints(&self.ports(call.cluster.id))),
        }
    }

    async fn worker_works(
        &self,
        call: FencedCall<'_>,
        framework: &dyn LocalFramework,
        name: &str,
        count: &Count,
    ) -> Result<(), ProviderError> {
        let head = self.head(call.cluster.id)?;
        loop {
            // A head that does not answer counts nobody.
            let ask =
                async || self.framework_client.fetch_workers(framework, &head).await.unwrap_or_default();
            if count.get(ask).await.iter().any(|worker| worker.name == name) {
                return Ok(());
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_together_ask_once() {
        let (count, asked) = (Count::default(), AtomicU32::new(0));
        let worker = LiveWorker { name: "w".to_owned(), address: "tcp://127.0.0.1:1".to_owned() };
        let ask = async || {
            asked.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(ASK_AGAIN).await;
            vec![worker.clone()]
        };
        let all = futures::future::join_all((0..100).map(|_| count.get(ask))).await;
        assert!(all.iter().all(|workers| workers[..] == [worker.clone()]));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        tokio::time::advance(ASK_AGAIN).await;
        count.get(ask).await;
        assert_eq!(asked.load(Ordering::Relaxed), 2, "what was said a while ago is not taken for now");
    }
}
