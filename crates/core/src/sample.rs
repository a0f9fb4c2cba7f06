//! Sample objects for tests of this crate and others: a cluster, a node, an action.

use serde_json::Map;
use uuid::Uuid;

use crate::action::{Action, ActionKind, Target};
use crate::cluster::{Cluster, DEFAULT_GROUP, WorkerGroup};
use crate::ids::{ActionId, ClusterId, InstanceId, JobId, NodeId, ProfileId, TaskId};
use crate::job::{Job, JobSpec};
use crate::node::Node;
use crate::principal::{Door, Principal, Role};
use crate::profile::{Profile, ProfileType};
use crate::shape::Shape;
use crate::task::{Task, TaskKind};
use crate::time::Timestamp;

/// A member of the project `demo`.
pub fn principal() -> Principal {
    Principal {
        scheme: "sample".to_owned(),
        id: "ann".to_owned(),
        name: "Ann".to_owned(),
        project: "demo".to_owned(),
        roles: [Role::Member].into(),
    }
}

/// The provider instance of sample nodes.
pub fn instance() -> InstanceId {
    InstanceId::new("simulated", "sample")
}

/// A job on the sample cluster.
pub fn job() -> Job {
    let cluster = cluster(1, 0, None);
    let id = Uuid::from_u128(0x10b);
    Job {
        id: JobId::from_uuid(id),
        namespace: "demo".to_owned(),
        name: "job-1".to_owned(),
        project: cluster.project,
        owner: principal().as_owner(),
        instance: instance(),
        cluster_id: cluster.id,
        cluster_name: cluster.name,
        owns_cluster: false,
        spec: JobSpec::default(),
        stopped_by: None,
        task: Task::new(TaskId::from_uuid(id), TaskKind::Job, instance(), "demo", Timestamp::default()),
        created_at: Timestamp::default(),
    }
}

/// A cluster of one group without a head.
pub fn cluster(desired: u32, min: u32, max: Option<u32>) -> Cluster {
    let id = ClusterId::from_uuid(Uuid::from_u128(0xc1));
    Cluster {
        owner: principal().as_owner(),
        user: "ann".to_owned(),
        groups: vec![WorkerGroup {
            name: DEFAULT_GROUP.to_owned(),
            desired,
            min,
            max,
            shape: Shape::default(),
            spec: Map::new(),
        }],
        status_reason: String::new(),
        ..Cluster::new(id, "fred", "demo", instance(), &profile(), Timestamp::from_micros(1))
    }
}

/// A recipe of simulated nodes.
pub fn profile() -> Profile {
    Profile {
        id: ProfileId::from_uuid(Uuid::from_u128(0xf1)),
        name: "sample".to_owned(),
        kind: ProfileType::new("simulated.node", "1.0"),
        project: "demo".to_owned(),
        user: "ann".to_owned(),
        properties: Map::new(),
        envelope: Map::new(),
        metadata: Map::new(),
        implicit: true,
        created_at: Timestamp::from_micros(1),
        updated_at: None,
    }
}

/// A worker of [`cluster`] with this index.
pub fn node(index: u32) -> Node {
    let id = NodeId::from_uuid(Uuid::from_u128(0xd000 + u128::from(index)));
    Node {
        cluster_id: Some(ClusterId::from_uuid(Uuid::from_u128(0xc1))),
        group: Some(DEFAULT_GROUP.to_owned()),
        index: i64::from(index),
        name: format!("node-{index}"),
        user: "ann".to_owned(),
        incarnation: 1,
        ..Node::new(id, "demo", instance(), profile().id, Timestamp::from_micros(1))
    }
}

/// A request of [`principal`] about a cluster.
pub fn action(number: u128, kind: ActionKind, cluster: ClusterId) -> Action {
    let id = ActionId::from_uuid(Uuid::from_u128(number));
    let created_at = Timestamp::from_micros(i64::try_from(number).unwrap_or(i64::MAX));
    let target = Target::Cluster(cluster);
    let action = Action::new(id, kind, target, instance(), principal(), Door::Core, created_at);
    Action { updated_at: Timestamp::from_micros(1), ..action }
}
