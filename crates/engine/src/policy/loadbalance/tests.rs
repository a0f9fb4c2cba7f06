use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_core::ids::{BindingId, PolicyId};
use muster_core::policy::Policy;
use muster_core::sample;
use muster_core::time::Timestamp;
use uuid::Uuid;

use super::*;
use crate::action_data::ActionData;
use crate::policy::Effects;
use crate::ports::provider::{Capabilities, Membership};

/// A cluster of three, as an action sees it.
struct World {
    action: Action,
    cluster: Cluster,
    nodes: Vec<Node>,
    change: Change,
    data: ActionData,
    effects: Effects,
}

impl World {
    fn new(kind: ActionKind, inputs: Value) -> Self {
        let cluster = sample::cluster(3, 0, None);
        let change = Change::read(kind, &inputs).unwrap();
        let action = Action { inputs, ..sample::action(1, kind, cluster.id) };
        let working = |index| Node { status: NodeStatus::Active, ..sample::node(index) };
        let nodes = (1..=3).map(working).collect();
        Self { action, cluster, nodes, change, data: ActionData::default(), effects: Effects::default() }
    }

    fn context(&mut self) -> PolicyContext<'_> {
        PolicyContext {
            action: &self.action,
            change: &self.change,
            cluster: &self.cluster,
            nodes: &self.nodes,
            capabilities: Capabilities {
                membership: Membership::Individual,
                head: false,
                workers_outlive_head: true,
                several_groups: false,
                orphans: true,
                choose_victims: true,
                update_in_place: true,
                heals_by_default: false,
                adopt: true,
                reports_activity: false,
                supports_placement: false,
                reports_machines: false,
            },
            profile_created_at: Box::new(|_| Timestamp::default()),
            probe: None,
            hooks: &crate::ports::webhook::NoWebhooks,
            limit: 100,
            data: &mut self.data,
            effects: &mut self.effects,
            now: Timestamp::default(),
        }
    }

    /// Returns the nodes that join the service, and those that leave it.
    fn changes(&self) -> (Vec<NodeId>, Vec<NodeId>) {
        let ids = |joins: bool| {
            let these = self.effects.node_data.iter().filter(|(_, _, value)| value.is_some() == joins);
            these.map(|(id, _, _)| *id).collect()
        };
        (ids(true), ids(false))
    }
}

fn binding() -> Binding {
    let spec =
        json!({"properties": {"pool": {"subnet": "net"}, "vip": {"subnet": "net", "address": "10.0.0.9"}}});
    Binding {
        id: BindingId::from_uuid(Uuid::from_u128(1)),
        cluster_id: sample::cluster(0, 0, None).id,
        policy: Policy {
            id: PolicyId::from_uuid(Uuid::from_u128(2)),
            name: "lb".to_owned(),
            kind: "senlin.policy.loadbalance-1.3".to_owned(),
            project: "demo".to_owned(),
            user: "ann".to_owned(),
            spec: spec.as_object().expect("a map").clone(),
            data: Map::new(),
            created_at: Timestamp::default(),
            updated_at: None,
        },
        enabled: true,
        priority: 500,
        data: Map::new(),
        last_op: None,
    }
}

#[tokio::test]
async fn attaching_adds_all_working_members_to_the_service() {
    let mut world = World::new(ActionKind::ClusterAttachPolicy, json!({"policy_id": sample::profile().id}));
    world.nodes[1].status = NodeStatus::Error;
    let mut binding = binding();
    LoadBalancePolicy.attach(&mut binding, &mut world.context()).await.unwrap();
    assert_eq!(world.changes(), (vec![world.nodes[0].id, world.nodes[2].id], vec![]));
    let services = json!({binding.policy.id.to_string(): {"vip_address": "10.0.0.9"}});
    assert_eq!(world.effects.cluster_data, [(SERVICES, Some(services))]);
    assert_eq!(binding.data["LoadBalancingPolicy"]["data"]["preexisting"], false);
}

#[tokio::test]
async fn detaching_removes_all_members_from_the_service() {
    let mut world = World::new(ActionKind::ClusterDetachPolicy, json!({"policy_id": sample::profile().id}));
    let binding = binding();
    world.nodes[2].data.insert(MEMBER.to_owned(), json!("m"));
    world.cluster.data.insert(SERVICES.to_owned(), json!({binding.policy.id.to_string(): {}}));
    LoadBalancePolicy.detach(&binding, &mut world.context()).await.unwrap();
    assert_eq!(world.changes(), (vec![], vec![world.nodes[2].id]));
    assert_eq!(world.effects.cluster_data, [(SERVICES, None)]);
}

#[tokio::test]
async fn victims_leave_the_service_before_they_are_removed() {
    let chosen = sample::node(2).id;
    let mut world = World::new(ActionKind::ClusterScaleIn, json!({}));
    world.data.deletion().candidates = Some(vec![chosen]);
    LoadBalancePolicy.before(&binding(), &mut world.context()).await.unwrap();
    assert_eq!(world.changes(), (vec![], vec![chosen]));
}

#[tokio::test]
async fn victims_are_chosen_if_no_other_policy_did() {
    let resize = json!({"adjustment_type": "EXACT_CAPACITY", "number": 1});
    let mut world = World::new(ActionKind::ClusterResize, resize);
    LoadBalancePolicy.before(&binding(), &mut world.context()).await.unwrap();
    let (_, out) = world.changes();
    assert_eq!(out.len(), 2);
    assert_eq!(json!(world.data.deletion), json!({"count": 2, "candidates": out}));
}

#[tokio::test]
async fn new_members_join_the_service_afterwards() {
    let mut world = World::new(ActionKind::ClusterScaleOut, json!({}));
    world.nodes[0].data.insert(MEMBER.to_owned(), json!("m"));
    LoadBalancePolicy.after(&binding(), &mut world.context(), true).await.unwrap();
    assert_eq!(world.changes(), (vec![world.nodes[1].id, world.nodes[2].id], vec![]));
}
