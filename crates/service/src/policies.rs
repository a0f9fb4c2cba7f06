//! Creates, renames and deletes policies: plain writes without an action.

use muster_core::event::Event;
use muster_core::ids::PolicyId;
use muster_core::policy::{self, InvalidPolicy, Policy};
use muster_core::principal::Principal;
use muster_engine::new_id;
use muster_store::commands::{CreatePolicy, DeletePolicy, RenamePolicy};
use serde_json::{Map, Value};

pub use muster_store::commands::Removed;

use crate::error::ServiceError;
use crate::service::Service;
use crate::write_event::{Object, Writer, Written};

impl Service {
    /// Builds a policy from a specification. Nothing is stored.
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
    pub async fn create_policy(&self, writer: &Writer, policy: Policy) -> Result<(), ServiceError> {
        let events = vec![self.policy_event(writer, Written::Created, &policy)];
        Ok(self.store().create_policy(CreatePolicy { policy, events }).await?)
    }

    /// Renames a policy, whose other properties cannot be changed; none if it was deleted meanwhile.
    pub async fn rename_policy(
        &self,
        writer: &Writer,
        policy: Policy,
        name: String,
    ) -> Result<Option<Policy>, ServiceError> {
        let renamed = Policy { name: name.clone(), ..policy };
        let events = vec![self.policy_event(writer, Written::Updated, &renamed)];
        let command = RenamePolicy { id: renamed.id, name, now: self.now(), events };
        Ok(self.store().rename_policy(command).await?)
    }

    /// Deletes a policy that is bound to no cluster.
    pub async fn delete_policy(&self, writer: &Writer, policy: &Policy) -> Result<Removed, ServiceError> {
        let events = vec![self.policy_event(writer, Written::Deleted, policy)];
        Ok(self.store().delete_policy(DeletePolicy { id: policy.id, events }).await?)
    }

    fn policy_event(&self, writer: &Writer, written: Written, policy: &Policy) -> Event {
        let Policy { id, name, project, .. } = policy;
        self.write_event(writer, written, &Object { kind: "Policy", id: id.to_string(), name, project })
    }
}
