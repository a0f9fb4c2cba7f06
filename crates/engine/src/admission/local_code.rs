//! Restricts who may decide what local processes run, since they run as the server's own user.

use muster_core::change::Change;
use muster_core::ids::{InstanceId, LOCAL_PROVIDER};
use muster_core::principal::Principal;

use crate::admission::request::SubmitError;
use crate::config::LocalCode;
use crate::context::Engine;

impl Engine {
    /// Returns true if a caller may run code as the server's user.
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

    /// Refuses a change that names what local processes run, from a caller who may not run code as the server's user.
    /// Naming the current value counts too: an admin may have changed the value by the time the change is applied.
    pub(crate) fn check_changed_code(
        &self,
        principal: &Principal,
        instance: &InstanceId,
        change: &Change,
    ) -> Result<(), SubmitError> {
        let names_code = match change {
            Change::UpdateCluster(update) => update.names_recipe(),
            Change::UpdateNode(update) => update.profile_id.is_some(),
            _ => false,
        };
        if names_code { self.check_local_code(principal, instance) } else { Ok(()) }
    }
}
