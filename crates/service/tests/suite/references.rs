//! A change refers to objects of its own project only.

use muster_core::change::{AddNodes, Change, ClusterUpdate, PolicyChange};
use muster_core::ids::ProfileId;
use muster_core::principal::{Door, Principal, Role};
use muster_core::profile::Profile;
use muster_core::sample;
use muster_service::{Caller, ErrorKind, NewNode, Writer};
use muster_testkit::fake::{FAKE_NODE, Fake};
use serde_json::{Map, json};
use uuid::Uuid;

use crate::harness::{Harness, caller};

/// A caller of another project.
fn other() -> Caller {
    let principal = Principal { project: "other".to_owned(), ..sample::principal() };
    Caller { principal, ..caller(Door::Clustering) }
}

/// A profile, a policy and a node of the other project, each as the change of a cluster that refers to it.
async fn changes(harness: &Harness) -> Vec<(&'static str, Change)> {
    let service = &harness.service;
    let profile = Profile {
        id: ProfileId::from_uuid(Uuid::now_v7()),
        kind: FAKE_NODE.parse().expect("a profile type"),
        project: "other".to_owned(),
        ..sample::profile()
    };
    let writer = Writer {
        principal: other().principal,
        door: Door::Clustering,
        request_id: String::new(),
        named: None,
    };
    service.create_profile(&writer, profile.clone()).await.expect("a profile");
    let spec = json!({"type": "senlin.policy.deletion", "version": "1.1", "properties": {}});
    let spec = spec.as_object().cloned().unwrap_or_default();
    let policy = service.build_policy(&other().principal, "p", &spec).expect("a policy");
    service.create_policy(&writer, policy.clone()).await.expect("a policy");
    let new = NewNode {
        name: "n".to_owned(),
        profile: profile.clone(),
        cluster: None,
        instance: Fake::instance_id(),
        role: String::new(),
        metadata: Map::new(),
    };
    let (_, node) = service.create_node(&other(), new).await.expect("a node");
    let update = ClusterUpdate { profile_id: Some(profile.id), ..ClusterUpdate::default() };
    vec![
        ("profile", Change::UpdateCluster(Box::new(update))),
        ("policy", Change::AttachPolicy(PolicyChange { policy_id: policy.id, enabled: None })),
        ("node", Change::AddNodes(AddNodes { nodes: vec![node.id], group: None })),
    ]
}

#[tokio::test]
async fn objects_of_other_projects_do_not_exist_for_a_change() {
    let harness = Harness::open().await;
    let cluster = harness.cluster("fred").await;
    for (kind, change) in changes(&harness).await {
        for door in [Door::Core, Door::Clustering, Door::Webhook] {
            let changed = harness.service.change_cluster(&caller(door), &cluster, change.clone()).await;
            let refused = changed.expect_err(kind);
            let expected = format!("{kind} '");
            assert!(
                refused.message.starts_with(&expected) && refused.message.contains("not found in project"),
                "{kind}, {door}: {refused}"
            );
            assert_eq!(refused.kind, ErrorKind::Invalid);
        }
    }
}

#[tokio::test]
async fn an_admin_may_refer_to_objects_of_every_project() {
    let harness = Harness::open().await;
    let cluster = harness.cluster("fred").await;
    let principal = Principal { roles: [Role::Admin].into(), ..sample::principal() };
    let admin = Caller { principal, ..caller(Door::Core) };
    let (_, change) = changes(&harness).await.remove(0);
    harness.service.change_cluster(&admin, &cluster, change).await.expect("accepted");
}
