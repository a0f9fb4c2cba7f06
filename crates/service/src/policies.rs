//! Policies: plain writes.

use muster_core::ids::PolicyId;
use muster_core::policy::{self, InvalidPolicy, Policy};
use muster_core::principal::Principal;
use muster_engine::new_id;
use muster_store::commands::{CreatePolicy, DeletePolicy, RenamePolicy};
use serde_json::{Map, Value};

pub use muster_store::commands::Removed;

use crate::error::ServiceError;
use crate::service::Service;

impl Service {
    /// Builds a policy from a specification; stores nothing.
    pub fn build_policy(
        &self,
        principal: &Principal,
        name: &str,
        spec: &Map<String, Value>,
    ) -> Result<Policy, InvalidPolicy> {
        let rules = self.engine.config().policy_rules;
        let checked = policy::check(&Value::Object(spec.clone()), rules)?;
        Ok(Policy {
            id: PolicyId::from_uuid(new_id()),
            name: name.to_owned(),
            kind: checked.name,
            project: principal.project.clone(),
            user: principal.id.clone(),
            spec: spec.clone(),
            data: Map::new(),
            created_at: self.now(),
            updated_at: None,
        })
    }

    /// Stores a new policy.
    pub async fn create_policy(&self, policy: Policy) -> Result<(), ServiceError> {
        Ok(self.store().create_policy(CreatePolicy { policy, events: Vec::new() }).await?)
    }

    /// Renames a policy; nothing else of it can be changed. None if it was deleted meanwhile.
    pub async fn rename_policy(&self, id: PolicyId, name: String) -> Result<Option<Policy>, ServiceError> {
        let command = RenamePolicy { id, name, now: self.now(), events: Vec::new() };
        Ok(self.store().rename_policy(command).await?)
    }

    /// Deletes a policy that is bound to no cluster.
    pub async fn delete_policy(&self, id: PolicyId) -> Result<Removed, ServiceError> {
        Ok(self.store().delete_policy(DeletePolicy { id, events: Vec::new() }).await?)
    }
}
