//! Whether anybody uses a cluster, as its framework says.

use muster_core::limits::Activity;
use muster_engine::ports::provider::{ClusterTarget, ProviderError};
use muster_framework_client::FrameworkRequestError;

use super::Inner;
use super::kind::Kind;

impl Inner {
    /// Asks the head. One that does not run says nothing.
    pub(super) async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        let framework = Kind::of(&target.profile.kind).and_then(Kind::framework);
        let Some((framework, head)) = framework.zip(self.living_head(target.cluster.id)) else {
            return Ok(Activity::Unknown);
        };
        let silent = |error: FrameworkRequestError| ProviderError::transient("NoAnswer", error.to_string());
        self.framework_client.fetch_activity(framework, &head).await.map_err(silent)
    }
}
