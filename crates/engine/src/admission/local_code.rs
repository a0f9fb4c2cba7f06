//! Who may decide what local processes run: they run as the server's own user.

use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::ids::{InstanceId, LOCAL_PROVIDER};
use muster_core::node::Node;
use muster_core::principal::Principal;

use crate::admission::request::SubmitError;
use crate::config::LocalCode;
use crate::context::Engine;

impl Engine {
    /// Whether a caller may run code as the server's user.
    pub fn may_run_as_server(&self, principal: &Principal) -> bool {
        self.context.config.local_code == LocalCode::EveryCaller || principal.is_admin()
    }

    /// Refuses new local processes of a caller who may not run code as the server's user.
    pub(crate) fn check_local_code(
        &self,
        principal: &Principal,
        instance: &InstanceId,
    ) -> Result<(), SubmitError> {
        if instance.provider() != LOCAL_PROVIDER || self.may_run_as_server(principal) {
            return Ok(());
        }
        Err(SubmitError::LocalCode)
    }

    /// The same for a change of a cluster that names what its local processes run.
    pub(crate) fn check_cluster_code(
        &self,
        principal: &Principal,
        cluster: &Cluster,
        change: &Change,
    ) -> Result<(), SubmitError> {
        // Naming the present value counts too: by the time the update runs, an admin may have changed it.
        match change {
            Change::UpdateCluster(update) if update.names_recipe() => {
                self.check_local_code(principal, &cluster.instance)
            }
            _ => Ok(()),
        }
    }

    /// The same for a change of a node.
    pub(crate) fn check_node_code(
        &self,
        principal: &Principal,
        node: &Node,
        change: &Change,
    ) -> Result<(), SubmitError> {
        match change {
            Change::UpdateNode(update) if update.profile_id.is_some() => {
                self.check_local_code(principal, &node.instance)
            }
            _ => Ok(()),
        }
    }
}
