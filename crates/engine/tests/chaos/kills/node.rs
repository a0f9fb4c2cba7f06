//! Operations on single nodes that an engine is killed in.

use muster_core::action::ActionKind;
use muster_core::ids::{ActionId, ClusterId, NodeId, ProfileId};
use muster_core::node::NodeRole;
use muster_testkit::world::{Replica, WORLD_NODE};
use serde_json::json;

use super::made;
use super::operation::{KilledNodeOperation, Place};
use crate::facts;
use crate::harness::{Harness, created, succeeded};

const NEW_NAME: &str = "renamed";

/// An operation on a node, with its preparation.
pub(super) struct NodeTask {
    operation: KilledNodeOperation,
    place: Place,
    cluster: Option<ClusterId>,
    /// The node; none if the operation creates it.
    node: Option<NodeId>,
    /// The recipe of a node that the operation creates or recreates.
    profile: ProfileId,
}

impl NodeTask {
    pub(super) async fn prepare(
        operation: KilledNodeOperation,
        place: Place,
        harness: &Harness,
        engine: &Replica,
    ) -> Self {
        let cluster = match place {
            Place::Alone => None,
            Place::Member => Some(made::plain(engine, 2).await),
            Place::Head => Some(created(engine, 2).await),
        };
        let node = match (cluster, place) {
            _ if operation == KilledNodeOperation::Create => None,
            (None, _) => Some(made::alone(harness, engine).await),
            (Some(cluster), Place::Head) => Some(made::one(harness, cluster, NodeRole::Head).await),
            (Some(cluster), _) => Some(made::one(harness, cluster, NodeRole::Worker).await),
        };
        let profile = made::recipe(harness, WORLD_NODE).await;
        Self { operation, place, cluster, node, profile }
    }

    pub(super) async fn begin(&self, engine: &Replica) -> ActionId {
        let Some(node) = self.node else { return engine.create_node(self.cluster, self.profile).await.id };
        let (kind, inputs) = match self.operation {
            KilledNodeOperation::Create => unreachable!("it is there"),
            KilledNodeOperation::Delete => (ActionKind::NodeDelete, json!({})),
            KilledNodeOperation::Rename => (ActionKind::NodeUpdate, json!({"name": NEW_NAME})),
            KilledNodeOperation::Remake => (ActionKind::NodeUpdate, json!({"profile_id": self.profile})),
            KilledNodeOperation::Recover => (ActionKind::NodeRecover, json!({})),
            KilledNodeOperation::Check => (ActionKind::NodeCheck, json!({})),
        };
        engine.change_node(node, kind, inputs).await.id
    }

    pub(super) async fn finish(&self, harness: &Harness, engine: &Replica, begun: ActionId) {
        let action = engine.end(begun).await;
        succeeded(&action);
        let (node, expected) = (made::node_of(action.target), self.operation.expected(self.place));
        match self.cluster {
            Some(cluster) => facts::agree(harness, cluster, expected).await,
            None => facts::alone(harness, node, expected).await,
        }
        self.is_as_asked(harness, node).await;
    }

    async fn is_as_asked(&self, harness: &Harness, node: NodeId) {
        let store = harness.store().await;
        let row = store.node(node).await.expect("the store answers");
        store.close().await;
        assert_eq!(row.is_none(), self.operation == KilledNodeOperation::Delete);
        let Some(row) = row else { return };
        assert_eq!(row.cluster_id, self.cluster);
        match self.operation {
            KilledNodeOperation::Rename => assert_eq!(row.name, NEW_NAME),
            KilledNodeOperation::Create | KilledNodeOperation::Remake => {
                assert_eq!(row.profile_id, self.profile);
            }
            KilledNodeOperation::Check => assert_eq!(row.status_reason, facts::CHECKED),
            KilledNodeOperation::Delete | KilledNodeOperation::Recover => {}
        }
    }
}
