//! Readiness of nodes, as reported by their framework.

use std::sync::Arc;
use std::time::Duration;

use muster_core::node::{Node, NodeRole};
use muster_engine::ports::provider::{FencedCall, ProviderError};
use muster_frameworks::{EndpointDiscovery, Endpoints, LiveWorker, LocalFramework};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::head::HeadRecord;
use super::launch::unknown_role;
use super::node_kind::NodeKind;
use super::node_record::NodeRecord;
use super::{ProcessHost, on_disk, paths};
use crate::shim::NodeFolder;

/// Interval of requests to a framework, which cannot notify about readiness.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The live workers of a head with the time of the response.
type FetchedWorkers = (Instant, Arc<Vec<LiveWorker>>);

/// Caches the live workers of a head, so that nodes that start together share one request.
#[derive(Clone, Default)]
pub(super) struct LiveWorkersCache {
    last: Arc<Mutex<Option<FetchedWorkers>>>,
}

impl LiveWorkersCache {
    /// Returns the live workers, at most one poll interval old.
    async fn get(&self, ask: impl AsyncFnOnce() -> Vec<LiveWorker>) -> Arc<Vec<LiveWorker>> {
        // Holding the lock during the request makes concurrent callers wait for its response.
        let mut last = self.last.lock().await;
        if let Some((_, workers)) = last.as_ref().filter(|(at, _)| at.elapsed() < POLL_INTERVAL) {
            return Arc::clone(workers);
        }
        let workers = Arc::new(ask().await);
        *last = Some((Instant::now(), Arc::clone(&workers)));
        workers
    }
}

impl ProcessHost {
    /// Waits until the framework reports a node as ready. Plain processes are ready at once.
    pub(super) async fn wait_until_ready(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        folder: &NodeFolder,
        record: &NodeRecord,
        live_workers: &LiveWorkersCache,
    ) -> Result<(), ProviderError> {
        let Some(framework) = NodeKind::from_profile_type(&call.profile.kind).and_then(NodeKind::framework)
        else {
            return Ok(());
        };
        match node.role {
            NodeRole::Head => self.wait_for_head(call, framework, folder).await,
            NodeRole::Worker => self.wait_for_worker(call, framework, &record.name, live_workers).await,
            NodeRole::Unknown(_) => Err(unknown_role(node)),
        }
    }

    async fn wait_for_head(
        &self,
        call: FencedCall<'_>,
        framework: &dyn LocalFramework,
        folder: &NodeFolder,
    ) -> Result<(), ProviderError> {
        loop {
            // The loop continues while the endpoints are unknown or partly written, and while the head does not answer.
            if let Some(endpoints) = self.head_endpoints(call, framework, folder).await
                && let access = self.head_access(call.cluster.id, endpoints)?
                && self.framework_client.fetch_workers(framework, &access).await.is_ok()
            {
                let head = HeadRecord::new(folder.node(), framework, &access.endpoints);
                return head
                    .write(&self.paths, call.cluster.id)
                    .map_err(|error| on_disk("the cluster's folder cannot be used", &error));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns the endpoints of a starting head, if they are known yet.
    async fn head_endpoints(
        &self,
        call: FencedCall<'_>,
        framework: &dyn LocalFramework,
        folder: &NodeFolder,
    ) -> Option<Endpoints> {
        match framework.endpoint_discovery() {
            EndpointDiscovery::File { file, read } => {
                read(&tokio::fs::read(paths::working_folder(folder).join(file)).await.ok()?).ok()
            }
            EndpointDiscovery::AssignedPorts { endpoints, .. } => {
                Some(endpoints(&self.head_ports(call.cluster.id)))
            }
        }
    }

    async fn wait_for_worker(
        &self,
        call: FencedCall<'_>,
        framework: &dyn LocalFramework,
        name: &str,
        live_workers: &LiveWorkersCache,
    ) -> Result<(), ProviderError> {
        let head = self.known_head(call.cluster.id)?;
        loop {
            // A head that does not answer counts no workers.
            let ask =
                async || self.framework_client.fetch_workers(framework, &head).await.unwrap_or_default();
            if live_workers.get(ask).await.iter().any(|worker| worker.name == name) {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_request() {
        let (live_workers, asked) = (LiveWorkersCache::default(), AtomicU32::new(0));
        let worker = LiveWorker { name: "w".to_owned(), address: "tcp://127.0.0.1:1".to_owned() };
        let ask = async || {
            asked.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(POLL_INTERVAL).await;
            vec![worker.clone()]
        };
        let all = futures::future::join_all((0..100).map(|_| live_workers.get(ask))).await;
        assert!(all.iter().all(|workers| workers[..] == [worker.clone()]));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        tokio::time::advance(POLL_INTERVAL).await;
        live_workers.get(ask).await;
        assert_eq!(asked.load(Ordering::Relaxed), 2, "an old response is not reused");
    }
}
