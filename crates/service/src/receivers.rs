//! Creates, changes and deletes receivers: webhooks that change a cluster in the name of a principal.

use muster_core::action::ActionKind;
use muster_core::event::Event;
use muster_core::ids::{ClusterId, ReceiverId};
use muster_core::receiver::{Receiver, ReceiverKind};
use muster_engine::new_id;
use muster_store::commands::{DeleteReceiver, PutReceiver};
use serde_json::{Map, Value};

use crate::error::ServiceError;
use crate::service::Service;
use crate::write_event::{Object, Writer, Written};

/// The properties of a new receiver.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReceiver {
    /// The display name.
    pub name: String,
    /// The cluster that it changes.
    pub cluster_id: ClusterId,
    /// The kind of change.
    pub action: ActionKind,
    /// Data that is stored for clients and has no effect.
    pub actor: Map<String, Value>,
    /// The inputs of the change, unless the request that triggers it gives others.
    pub params: Map<String, Value>,
}

/// Changed properties of a receiver; absent ones stay as they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReceiverUpdate {
    /// The display name.
    pub name: Option<String>,
    /// The kind of change.
    pub action: Option<ActionKind>,
    /// The inputs of the change.
    pub params: Option<Map<String, Value>>,
}

impl ReceiverUpdate {
    /// Returns true if the update changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Service {
    /// Creates a receiver that acts in the name of the caller.
    pub async fn create_receiver(&self, writer: &Writer, new: NewReceiver) -> Result<Receiver, ServiceError> {
        let principal = &writer.principal;
        let NewReceiver { name, cluster_id, action, actor, params } = new;
        let receiver = Receiver {
            id: ReceiverId::from_uuid(new_id()),
            name,
            kind: ReceiverKind::Webhook,
            project: principal.project.clone(),
            principal: principal.clone(),
            cluster_id,
            action,
            actor,
            params,
            created_at: self.now(),
            updated_at: None,
        };
        self.put_receiver(writer, Written::Created, receiver).await
    }

    /// The receiver with this id. The caller is not authorized, because everyone who knows the id may trigger the
    /// receiver.
    pub async fn receiver(&self, id: ReceiverId) -> Result<Option<Receiver>, ServiceError> {
        Ok(self.store().receiver(id).await?)
    }

    /// Changes a receiver. If the kind of change or its inputs change, the caller becomes the principal of the
    /// receiver, so that the rights of its creator cannot be used for something else.
    pub async fn update_receiver(
        &self,
        writer: &Writer,
        receiver: Receiver,
        update: ReceiverUpdate,
    ) -> Result<Receiver, ServiceError> {
        let is_renamed_only = update.action.is_none() && update.params.is_none();
        let receiver = Receiver {
            principal: if is_renamed_only { receiver.principal } else { writer.principal.clone() },
            name: update.name.unwrap_or(receiver.name),
            action: update.action.unwrap_or(receiver.action),
            params: update.params.unwrap_or(receiver.params),
            updated_at: Some(self.now()),
            ..receiver
        };
        self.put_receiver(writer, Written::Updated, receiver).await
    }

    async fn put_receiver(
        &self,
        writer: &Writer,
        written: Written,
        receiver: Receiver,
    ) -> Result<Receiver, ServiceError> {
        let events = vec![self.receiver_event(writer, written, &receiver)];
        self.store().put_receiver(PutReceiver { receiver: receiver.clone(), events }).await?;
        Ok(receiver)
    }

    /// Deletes a receiver.
    pub async fn delete_receiver(&self, writer: &Writer, receiver: &Receiver) -> Result<(), ServiceError> {
        let events = vec![self.receiver_event(writer, Written::Deleted, receiver)];
        Ok(self.store().delete_receiver(DeleteReceiver { id: receiver.id, events }).await?)
    }

    fn receiver_event(&self, writer: &Writer, written: Written, receiver: &Receiver) -> Event {
        let Receiver { id, name, project, .. } = receiver;
        self.write_event(writer, written, &Object { kind: "Receiver", id: id.to_string(), name, project })
    }
}
