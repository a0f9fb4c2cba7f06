//! Finds objects by an id, a name, or the beginning of an id.

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::ids::{ActionId, ClusterId, EventId, NodeId, PolicyId, ProfileId, ReceiverId};
use muster_core::node::Node;
use muster_core::policy::Policy;
use muster_core::profile::Profile;
use muster_core::receiver::Receiver;
use muster_store::StoreError;
use muster_store::reads::{Found, ObjectKind};
use uuid::Uuid;

use super::is_permitted;
use crate::access::{Access, UNOWNED};
use crate::authorize::Resource;
use crate::error::ServiceError;
use crate::service::Service;

/// The reason why an object was not identified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentifyError {
    /// Several objects have this name or an id that begins so.
    #[error("several objects match '{0}'")]
    Ambiguous(String),
    /// The caller may not perform the operation, or the object could not be read.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<StoreError> for IdentifyError {
    fn from(error: StoreError) -> Self {
        Self::Service(error.into())
    }
}

fn at_most_one(given: &str, found: Found) -> Result<Option<Uuid>, IdentifyError> {
    match found {
        Found::Nothing => Ok(None),
        Found::One(id) => Ok(Some(id)),
        Found::Several => Err(IdentifyError::Ambiguous(given.to_owned())),
    }
}

/// Declares functions that identify an object, read it, and authorize the operation on it.
macro_rules! identified {
    ($($(#[$doc:meta])* $name:ident: $kind:ident, $id:ident, $read:ident -> $object:ident,
        |$found:ident| $project:expr;)+) => {
        impl Service {
            $(
                $(#[$doc])*
                pub async fn $name(
                    &self,
                    access: &Access,
                    given: &str,
                ) -> Result<Option<$object>, IdentifyError> {
                    let Some(id) = self.identify(access, ObjectKind::$kind, given).await? else { return Ok(None) };
                    let Some($found) = self.store().$read($id::from_uuid(id)).await? else { return Ok(None) };
                    let what = format!("{} '{given}'", stringify!($kind).to_lowercase());
                    let on = Resource { what: &what, project: &$project, owner: &UNOWNED };
                    Ok(is_permitted(access, on)?.then_some($found))
                }
            )+
        }
    };
}

identified! {
    /// The cluster that a text identifies; a deleted cluster only by its whole id.
    identify_cluster: Cluster, ClusterId, cluster -> Cluster, |cluster| cluster.project;
    /// The node that a text identifies.
    identify_node: Node, NodeId, node -> Node, |node| node.project;
    /// The profile that a text identifies.
    identify_profile: Profile, ProfileId, profile -> Profile, |profile| profile.project;
    /// The policy that a text identifies.
    identify_policy: Policy, PolicyId, policy -> Policy, |policy| policy.project;
    /// The receiver that a text identifies.
    identify_receiver: Receiver, ReceiverId, receiver -> Receiver, |receiver| receiver.project;
    /// The action that a text identifies. An action is recorded with the project of its cluster, not that of its
    /// requester.
    identify_action: Action, ActionId, action -> Action, |action| action.principal.project;
    /// The event that a text identifies.
    identify_event: Event, EventId, event -> Event, |event| event.project;
}

impl Service {
    async fn identify(
        &self,
        access: &Access,
        kind: ObjectKind,
        given: &str,
    ) -> Result<Option<Uuid>, IdentifyError> {
        at_most_one(given, self.store().identify(kind, access.scope(), given).await?)
    }

    /// The ids of the clusters that texts identify, in their order.
    pub async fn identify_clusters(
        &self,
        access: &Access,
        given: &[String],
    ) -> Result<Vec<Option<ClusterId>>, IdentifyError> {
        let found = self.identify_all(access, ObjectKind::Cluster, given).await?;
        Ok(found.into_iter().map(|id| id.map(ClusterId::from_uuid)).collect())
    }

    /// The ids of the nodes that texts identify, in their order.
    pub(crate) async fn identify_nodes(
        &self,
        access: &Access,
        given: &[String],
    ) -> Result<Vec<Option<NodeId>>, IdentifyError> {
        let found = self.identify_all(access, ObjectKind::Node, given).await?;
        Ok(found.into_iter().map(|id| id.map(NodeId::from_uuid)).collect())
    }

    async fn identify_all(
        &self,
        access: &Access,
        kind: ObjectKind,
        given: &[String],
    ) -> Result<Vec<Option<Uuid>>, IdentifyError> {
        let texts: Vec<&str> = given.iter().map(String::as_str).collect();
        let found = self.store().identify_all(kind, access.scope(), &texts).await?;
        texts.into_iter().zip(found).map(|(given, found)| at_most_one(given, found)).collect()
    }
}
