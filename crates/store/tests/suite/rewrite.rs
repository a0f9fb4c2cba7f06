//! Writing everything that was read, unchanged, to show that the store loses no unknown values.

use muster_core::action::{Action, ActionKind};
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::ids::{ActionId, EventId};
use muster_core::node::Node;
use muster_core::policy::{Binding, Policy};
use muster_core::profile::Profile;
use muster_core::receiver::Receiver;
use muster_core::time::Timestamp;
use muster_store::Store;
use muster_store::commands::{
    BindingChange, Claim, PutReceiver, Record, RenamePolicy, Ticket, UpdateProfile,
};
use muster_store::reads::{
    ActionQuery, ClusterQuery, Deleted, EventQuery, NodeQuery, PolicyQuery, ProfileQuery, ReceiverQuery,
};
use uuid::Uuid;

use crate::harness::{self, living};

/// All objects that the store's reads return.
pub(crate) struct Everything {
    pub(crate) profiles: Vec<Profile>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) receivers: Vec<Receiver>,
    pub(crate) actions: Vec<Action>,
    pub(crate) events: Vec<Event>,
}

impl Everything {
    pub(crate) async fn read(store: &Store) -> Self {
        let clusters = ClusterQuery { deleted: Deleted::Include, ..ClusterQuery::default() };
        let clusters = store.clusters(&clusters).await.expect("clusters").items;
        let mut bindings = Vec::new();
        for cluster in &clusters {
            bindings.extend(store.bindings(cluster.id).await.expect("bindings"));
        }
        Self {
            profiles: store.profiles(&ProfileQuery::default()).await.expect("profiles").items,
            policies: store.policies(&PolicyQuery::default()).await.expect("policies"),
            nodes: store.nodes(&NodeQuery::default()).await.expect("nodes").items,
            receivers: store.receivers(&ReceiverQuery::default()).await.expect("receivers").items,
            actions: store.actions(&ActionQuery::default()).await.expect("actions").items,
            events: store.events(&EventQuery::default()).await.expect("events").items,
            clusters,
            bindings,
        }
    }
}

/// Takes over an action of a dead engine; the ticket allows any write of a running action.
pub(crate) async fn take_over(store: &Store) -> Ticket {
    let engine = living(store, 0x77).await;
    let instances = store.clusters(&ClusterQuery::default()).await.expect("clusters").items;
    let claim = Claim {
        engine,
        instances: instances.into_iter().map(|cluster| cluster.instance).collect(),
        kinds: ActionKind::ALL.iter().map(|kind| (*kind, 1)).collect(),
        limit: 1,
        now: harness::now(1_800_000_000_000_000),
    };
    let claimed = store.claim(claim).await.expect("a claim").pop().expect("an action of a dead engine");
    harness::ticket(&claimed)
}

/// The id of the copy of an action or event.
pub(crate) fn copied(id: &Uuid) -> Uuid {
    Uuid::from_u128(id.as_u128() ^ (1 << 64))
}

/// Writes all objects as they were read. Actions and events are copied, because no command rewrites a whole one.
pub(crate) async fn rewrite(store: &Store, ticket: Ticket) {
    let now = Timestamp::from_micros(1_800_000_000_000_001);
    let Everything { profiles, policies, clusters, nodes, bindings, receivers, actions, events } =
        Everything::read(store).await;
    for Profile { id, name, metadata, .. } in profiles {
        store
            .update_profile(UpdateProfile { id, name, metadata, now, events: Vec::new() })
            .await
            .expect("a profile is written");
    }
    for Policy { id, name, .. } in policies {
        let renamed = store.rename_policy(RenamePolicy { id, name, now, events: Vec::new() }).await;
        assert!(renamed.expect("a policy is written").is_some());
    }
    for cluster in clusters {
        let write = Record { cluster: Some(cluster), ..Record::new(ticket, now) };
        store.record(write).await.expect("a cluster is written");
    }
    for receiver in receivers {
        store
            .put_receiver(PutReceiver { receiver, events: Vec::new() })
            .await
            .expect("a receiver is written");
    }
    let copy = |action: Action| Action { id: ActionId::from_uuid(copied(action.id.as_uuid())), ..action };
    let copy_event = |event: Event| Event { id: EventId::from_uuid(copied(event.id.as_uuid())), ..event };
    let write = Record {
        nodes: nodes.clone(),
        moved_nodes: nodes,
        bindings: bindings.into_iter().map(|binding| BindingChange::Put(Box::new(binding))).collect(),
        children: actions.into_iter().map(copy).collect(),
        events: events.into_iter().map(copy_event).collect(),
        ..Record::new(ticket, now)
    };
    store.record(write).await.expect("rows are written");
}
