//! Adoption: a node that exists at the provider gets a row.

use std::sync::Arc;

use muster_core::event::{Event, Level};
use muster_core::ids::{InstanceId, NodeId, ProfileId};
use muster_core::node::{Node, NodeStatus};
use muster_core::profile::{Profile, ProfileType};
use muster_store::commands::Adopt;
use serde_json::{Map, Value};

use crate::admission::request::{Caller, SubmitError};
use crate::context::Engine;
use crate::events;
use crate::ids::new_id;
use crate::intent::naming;
use crate::ports::provider::Provider;

/// An external node to be adopted.
#[derive(Debug, Clone)]
pub struct Adoptee {
    /// The instance where it runs.
    pub instance: InstanceId,
    /// The profile type of the node.
    pub kind: ProfileType,
    /// The id of the node at the provider.
    pub identity: String,
    /// Properties that override those that are read from the node.
    pub overrides: Map<String, Value>,
}

/// The name and metadata that the caller gives an adopted node.
#[derive(Debug, Clone)]
pub struct NewName {
    /// Its name; without one, a name is generated.
    pub name: Option<String>,
    /// The role that the user gives it, which Muster only stores.
    pub role: String,
    /// User metadata.
    pub metadata: Map<String, Value>,
}

/// The result of an adoption.
#[derive(Debug, Clone)]
pub enum Adopted {
    /// The node was adopted by this request.
    Now(Box<Node>),
    /// The node was managed before, under this id.
    Before(NodeId),
}

impl Engine {
    /// Returns the profile that the adopted node would have; stores nothing.
    pub async fn adopt_preview(&self, adoptee: &Adoptee, caller: &Caller) -> Result<Profile, SubmitError> {
        let Adoptee { instance, kind, identity, overrides } = adoptee;
        self.check_local_code(&caller.principal, instance)?;
        let provider =
            self.provider(instance).ok_or_else(|| SubmitError::NoProvider(instance.to_string()))?;
        let can = provider.capabilities(kind, None).is_some_and(|capabilities| capabilities.adopt);
        if !can {
            let why = format!("nodes of type {kind} cannot be adopted: only Muster creates them");
            return Err(SubmitError::NotSupported(why));
        }
        let Some(nodes) = Arc::clone(&provider).node_provider() else {
            return Err(SubmitError::NoProvider(instance.to_string()));
        };
        let found = nodes.adopt(kind, identity).await;
        let mut properties = found.map_err(|error| SubmitError::Invalid(error.message))?;
        properties.extend(overrides.clone());
        let profile = Profile {
            id: ProfileId::from_uuid(new_id()),
            name: String::new(),
            kind: kind.clone(),
            project: caller.principal.project.clone(),
            user: caller.principal.id.clone(),
            properties,
            envelope: Map::new(),
            metadata: Map::new(),
            implicit: false,
            created_at: self.now(),
            updated_at: None,
        };
        provider.check_profile(&profile).map_err(SubmitError::Invalid)?;
        Ok(profile)
    }

    /// Adopts a node, with a profile of its own. The node already works, so that no action is needed.
    pub async fn adopt(
        &self,
        adoptee: &Adoptee,
        named: NewName,
        caller: Caller,
    ) -> Result<Adopted, SubmitError> {
        let NewName { name, role, metadata } = named;
        let profile = self.adopt_preview(adoptee, &caller).await?;
        if let Some(nodes) = self.provider(&adoptee.instance).and_then(Provider::node_provider) {
            let taken = nodes.take_in(&adoptee.kind, &adoptee.identity).await;
            taken.map_err(|error| SubmitError::Invalid(error.message))?;
        }
        let name = name.unwrap_or_else(naming::default_name);
        let profile = Profile { name: format!("prof-{name}"), ..profile };
        let now = self.now();
        let (id, instance) = (NodeId::from_uuid(new_id()), adoptee.instance.clone());
        let node = Node {
            user_role: role,
            name,
            physical_id: Some(adoptee.identity.clone()),
            user: profile.user.clone(),
            status: NodeStatus::Active,
            status_reason: "Node adopted successfully".to_owned(),
            metadata,
            created_at: Some(now),
            ..Node::new(id, &profile.project, instance, profile.id, now)
        };
        let message = format!("'{}' was adopted as a node", adoptee.identity);
        let reason = events::reason::NODE_ADOPTED;
        let event = events::of_node(None, &node, Level::Info, reason, &message, now);
        let event = Event { user: node.user.clone(), door: caller.door, ..event };
        match self.context.store.adopt(Adopt { profile, node: node.clone(), event }).await? {
            Some(known) => Ok(Adopted::Before(known)),
            None => Ok(Adopted::Now(Box::new(node))),
        }
    }
}
