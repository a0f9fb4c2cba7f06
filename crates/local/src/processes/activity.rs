//! Activity of a cluster and load of its workers, as reported by the head.

use std::collections::HashMap;

use muster_core::ids::NodeId;
use muster_core::limits::Activity;
use muster_core::node::Node;
use muster_engine::ports::provider::{ClusterTarget, ProviderError};
use muster_framework_client::FrameworkRequestError;
use muster_frameworks::LiveWorker;

use super::ProcessHost;
use super::node_kind::NodeKind;

impl ProcessHost {
    /// Returns the activity that the head reports; unknown if no head is running.
    pub(super) async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        let framework = NodeKind::from_profile_type(&target.profile.kind).and_then(NodeKind::framework);
        let Some((framework, head)) = framework.zip(self.running_head(target.cluster.id)) else {
            return Ok(Activity::Unknown);
        };
        self.framework_client.fetch_activity(framework, &head).await.map_err(|error| no_answer(&error))
    }

    /// Returns the load of workers; empty if no head is running.
    pub(super) async fn load(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<HashMap<NodeId, u64>, ProviderError> {
        let framework = NodeKind::from_profile_type(&target.profile.kind).and_then(NodeKind::framework);
        let Some((framework, head)) = framework.zip(self.running_head(target.cluster.id)) else {
            return Ok(HashMap::new());
        };
        let workers = self.framework_client.fetch_workers(framework, &head).await;
        let load =
            self.framework_client.fetch_load(framework, &head).await.map_err(|error| no_answer(&error))?;
        let workers =
            self.match_workers(target.cluster.id, nodes, workers.map_err(|error| no_answer(&error))?);
        let of_node = |(id, worker): (NodeId, LiveWorker)| Some((id, *load.get(&worker.address)?));
        Ok(workers.into_iter().filter_map(of_node).collect())
    }
}

fn no_answer(error: &FrameworkRequestError) -> ProviderError {
    ProviderError::transient("NoAnswer", error.to_string())
}
