//! Whether anybody uses a cluster, as its framework says.

use muster_core::limits::Activity;
use muster_engine::provider::{Call, ProviderError};

use super::Inner;
use super::kind::Kind;

impl Inner {
    /// Asks the head. One that does not run says nothing.
    pub(super) async fn activity(&self, call: Call<'_>) -> Result<Activity, ProviderError> {
        let framework = Kind::of(&call.profile.kind).and_then(Kind::framework);
        let Some((framework, head)) = framework.zip(self.living_head(call.cluster.id)) else {
            return Ok(Activity::Unknown);
        };
        let answer = self.http.ask(&framework.ask_activity(&head)).await;
        let silent = |error: super::ask::AskError| ProviderError::transient("NoAnswer", error.to_string());
        Ok(framework.activity(&answer.map_err(silent)?))
    }
}
