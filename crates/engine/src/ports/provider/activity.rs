//! The present activity of a cluster.

use std::time::Duration;

use muster_core::limits::Activity;

use crate::ports::provider::{ClusterTarget, Provider};

/// The timeout of a query.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Queries a cluster for its activity; unknown if its provider does not report it or does not answer in time.
pub(crate) async fn query_activity(provider: &dyn Provider, target: ClusterTarget<'_>) -> Activity {
    let answer = tokio::time::timeout(TIMEOUT, provider.activity(target)).await;
    answer.ok().and_then(Result::ok).unwrap_or(Activity::Unknown)
}
