//! Whether anybody uses a cluster, and how much its workers have to do, as its framework says.

use std::collections::HashMap;

use muster_core::ids::NodeId;
use muster_core::limits::Activity;
use muster_core::node::Node;
use muster_engine::ports::provider::{ClusterTarget, ProviderError};
use muster_framework_client::FrameworkRequestError;
use muster_frameworks::LiveWorker;

use super::Inner;
use super::kind::Kind;

impl Inner {
    /// Asks the head. One that does not run says nothing.
    pub(super) async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        let framework = Kind::of(&target.profile.kind).and_then(Kind::framework);
        let Some((framework, head)) = framework.zip(self.living_head(target.cluster.id)) else {
            return Ok(Activity::Unknown);
        };
        self.framework_client.fetch_activity(framework, &head).await.map_err(|error| silent(&error))
    }

    /// How much workers have to do. A head that does not run has given them nothing.
    pub(super) async fn load(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<HashMap<NodeId, u64>, ProviderError> {
        let framework = Kind::of(&target.profile.kind).and_then(Kind::framework);
        let Some((framework, head)) = framework.zip(self.living_head(target.cluster.id)) else {
            return Ok(HashMap::new());
        };
        let workers = self.framework_client.fetch_workers(framework, &head).await;
        let load =
            self.framework_client.fetch_load(framework, &head).await.map_err(|error| silent(&error))?;
        let workers = self.seated(target.cluster.id, nodes, workers.map_err(|error| silent(&error))?);
        let of_node = |(id, worker): (NodeId, LiveWorker)| Some((id, *load.get(&worker.address)?));
        Ok(workers.into_iter().filter_map(of_node).collect())
    }
}

fn silent(error: &FrameworkRequestError) -> ProviderError {
    ProviderError::transient("NoAnswer", error.to_string())
}
