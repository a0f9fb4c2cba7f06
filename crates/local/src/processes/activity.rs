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
        let silent = |error: super::ask::AskError| ProviderError::transient("NoAnswer", error.to_string());
        let answer = self.http.ask(&framework.ask_activity(&head)).await.map_err(silent)?;
        let said = framework.activity(&answer);
        let (Activity::IdleSince(_), Some(ask)) = (said, framework.ask_unattended(&head)) else {
            return Ok(said);
        };
        let answer = self.http.ask(&ask).await.map_err(silent)?;
        Ok(match framework.unattended(&answer) {
            Ok(true) => Activity::Busy,
            Ok(false) => said,
            Err(_) => Activity::Unknown,
        })
    }
}
