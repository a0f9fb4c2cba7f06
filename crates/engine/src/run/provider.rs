//! The provider of a run: the parameters of its calls, and the port for its membership.

use std::sync::Arc;

use crate::ports::provider::{FencedCall, NodeProvider, OperatorProvider};
use crate::run::subject::RunSubject;
use crate::run::{ActionRun, Stop};

impl ActionRun {
    /// Returns the parameters of a write: the cluster and its profile, with the action's fence.
    pub(crate) fn call(&self) -> FencedCall<'_> {
        let RunSubject { cluster, profile, .. } = &self.subject;
        FencedCall { cluster, profile, fence: self.action.fence }
    }

    /// Returns the port that starts and stops the nodes of a cluster with individual membership.
    pub(crate) fn node_provider(&self) -> Result<Arc<dyn NodeProvider>, Stop> {
        let missing = || Stop::Failed(format!("'{}' does not start single nodes", self.action.instance));
        Arc::clone(&self.provider).node_provider().ok_or_else(missing)
    }

    /// Returns the port that writes the object of a cluster with delegated membership.
    pub(crate) fn operator_provider(&self) -> Result<Arc<dyn OperatorProvider>, Stop> {
        let missing = || Stop::Failed(format!("'{}' has no operators", self.action.instance));
        Arc::clone(&self.provider).operator_provider().ok_or_else(missing)
    }
}
