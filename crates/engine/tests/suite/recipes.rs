//! Updates of a cluster's recipe are applied to the nodes that run.

use std::collections::BTreeMap;

use muster_core::action::{ActionKind, ActionStatus};
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::node::{Node, NodeRole, NodeStatus};
use muster_core::recipe::NodeRecipe;
use muster_engine::policy::Policies;
use muster_engine::ports::provider::ProviderError;
use muster_testkit::database_test;
use muster_testkit::fake::Verb;
use serde_json::{Value, json};

use crate::delegated::recorded_events;
use crate::harness::{Harness, setup};
use crate::policies::{attach, ended, policy};

/// The physical ids of the head and of the workers.
type Instances = (Vec<String>, Vec<String>);

async fn instances(harness: &Harness, cluster: &Cluster) -> Instances {
    let nodes = harness.nodes(cluster.id).await;
    let of = |role| {
        let own = nodes.iter().filter(|node| node.role == role);
        own.filter_map(|node| node.physical_id.clone()).collect::<Vec<_>>()
    };
    (of(NodeRole::Head), of(NodeRole::Worker))
}

fn with_image(group: &WorkerGroup, image: &str) -> WorkerGroup {
    let mut group = group.clone();
    NodeRecipe { image: Some(image.to_owned()), ..NodeRecipe::default() }.store_in(&mut group);
    group
}

fn other_head() -> Value {
    json!({"head": {"image": "head:2", "env": {"A": "1"}}})
}

/// What the core API shows of the head.
async fn shown_head(harness: &Harness, cluster: &Cluster) -> Value {
    let spec = Value::Object(harness.cluster(cluster.id).await.spec);
    spec["cluster"]["clusterSpec"]["headGroupSpec"].clone()
}

async fn updated(harness: &Harness, cluster: &Cluster, inputs: Value) {
    let action = ended(harness, ActionKind::ClusterUpdate, cluster, inputs).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    assert!(harness.nodes(cluster.id).await.iter().all(|node| node.status == NodeStatus::Active));
    harness.assert_agreement(cluster.id).await;
}

fn is_disjoint(before: &[String], after: &[String]) -> bool {
    before.len() == after.len() && before.iter().all(|id| !after.contains(id))
}

#[database_test(Harness::open)]
async fn a_head_with_another_recipe_is_replaced_with_the_workers_that_depend_on_it(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let (head, workers) = instances(&harness, &cluster).await;
    let since = harness.provider.log().len();
    updated(&harness, &cluster, other_head()).await;
    let after = instances(&harness, &cluster).await;
    assert!(is_disjoint(&head, &after.0) && is_disjoint(&workers, &after.1), "{after:?}");
    let starts = harness.provider.log().into_iter().skip(since).filter(|entry| entry.verb == Verb::Start);
    assert_eq!(starts.count(), 3, "each once");
    assert_eq!(harness.cluster(cluster.id).await.incarnation, cluster.incarnation + 1);
    assert_eq!(shown_head(&harness, &cluster).await["image"], "head:2");
    let crashed = harness.nodes(cluster.id).await.into_iter().filter(|node| node.starts.len() > 1);
    assert_eq!(crashed.count(), 0, "a node that is replaced did not crash");
}

#[database_test(Harness::open)]
async fn nodes_with_another_recipe_are_replaced_and_others_stay(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let (head, workers) = instances(&harness, &cluster).await;
    let group = with_image(&cluster.groups[0], "worker:2");
    updated(&harness, &cluster, json!({"groups": [group]})).await;
    let of_group = instances(&harness, &cluster).await;
    assert_eq!(of_group.0, head);
    assert!(is_disjoint(&workers, &of_group.1), "{of_group:?}");
    assert_eq!(harness.cluster(cluster.id).await.incarnation, cluster.incarnation);
    updated(&harness, &cluster, json!({"env": {"keys": {"A": "1"}}})).await;
    let of_all = instances(&harness, &cluster).await;
    assert!(is_disjoint(&head, &of_all.0) && is_disjoint(&of_group.1, &of_all.1), "{of_all:?}");
}

#[database_test(Harness::open)]
async fn an_update_that_changes_no_recipe_replaces_no_node(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    updated(&harness, &cluster, other_head()).await;
    let before = instances(&harness, &cluster).await;
    updated(&harness, &cluster, other_head()).await;
    let bounds = WorkerGroup { max: Some(9), ..cluster.groups[0].clone() };
    let inputs = json!({"metadata": {"a": 1}, "head": {"args": []}, "groups": [bounds]});
    updated(&harness, &cluster, inputs).await;
    assert_eq!(instances(&harness, &cluster).await, before);
}

#[database_test(Harness::open)]
async fn members_that_an_update_adds_are_not_replaced_again(harness: Harness) {
    let (cluster, _) = harness.created(1).await;
    let since = harness.provider.log().len();
    let group = WorkerGroup { desired: 3, ..with_image(&cluster.groups[0], "worker:2") };
    updated(&harness, &cluster, json!({"groups": [group]})).await;
    let mut starts: BTreeMap<_, u32> = BTreeMap::new();
    for entry in harness.provider.log().into_iter().skip(since).filter(|entry| entry.verb == Verb::Start) {
        *starts.entry(entry.node).or_default() += 1;
    }
    assert_eq!((starts.len(), starts.values().max()), (3, Some(&1)), "{starts:?}");
}

#[database_test(|kind| setup().policies(Policies::standard()).open(kind))]
async fn a_batch_policy_decides_how_many_workers_are_replaced_at_a_time(harness: Harness) {
    let (cluster, _) = harness.created(3).await;
    let batch = json!({"min_in_service": 1, "max_batch_size": 1, "pause_time": 0});
    let batch = policy(&harness, "senlin.policy.batch-1.0", batch).await;
    attach(&harness, &cluster, &batch).await;
    let since = harness.provider.log().len();
    let group = with_image(&cluster.groups[0], "worker:2");
    updated(&harness, &cluster, json!({"groups": [group]})).await;
    let verbs: Vec<Verb> = harness.provider.log().into_iter().skip(since).map(|entry| entry.verb).collect();
    let moves: Vec<Verb> =
        verbs.into_iter().filter(|verb| matches!(verb, Verb::Start | Verb::Stop)).collect();
    assert_eq!(moves, [Verb::Stop, Verb::Start].repeat(3));
}

#[database_test(Harness::open)]
async fn another_engine_continues_and_replaces_no_node_twice(mut harness: Harness) {
    let (cluster, _) = harness.created(3).await;
    let since = harness.provider.log().len();
    let group = with_image(&cluster.groups[0], "worker:2");
    harness.provider.hold_after(Verb::Start, 3 + 1);
    let action = harness.submit(ActionKind::ClusterUpdate, &cluster, json!({"groups": [group]})).await;
    harness.provider.begun(Verb::Start, 3 + 2).await;
    harness.engine.stop().await;
    harness.provider.release();
    harness.engine = setup().start(harness.store().clone(), &harness).await;
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    let mut stops: Vec<_> = harness
        .provider
        .log()
        .into_iter()
        .skip(since)
        .filter(|entry| entry.verb == Verb::Stop)
        .map(|entry| entry.node)
        .collect();
    let all = stops.len();
    stops.sort_unstable();
    stops.dedup();
    assert_eq!((all, stops.len()), (3, 3), "each once");
    harness.assert_agreement(cluster.id).await;
}

#[database_test(Harness::open)]
async fn a_recipe_that_does_not_work_is_taken_back_and_can_be_asked_for_again(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    harness.provider.fail_next(Verb::Start, ProviderError::permanent("Broken", "it cannot start"));
    let action = ended(&harness, ActionKind::ClusterUpdate, &cluster, other_head()).await;
    assert_eq!(action.status, ActionStatus::Failed);
    assert!(action.status_reason.contains("it cannot start"), "{}", action.status_reason);
    let row = harness.cluster(cluster.id).await;
    assert_eq!(row.spec.get("cluster"), None, "what does not work is not used for the next start");
    let recovered = ended(&harness, ActionKind::ClusterRecover, &row, json!({})).await;
    assert_eq!(recovered.status, ActionStatus::Succeeded, "{}", recovered.status_reason);
    let before = instances(&harness, &cluster).await;
    updated(&harness, &cluster, other_head()).await;
    let after = instances(&harness, &cluster).await;
    assert!(is_disjoint(&before.0, &after.0), "{after:?}");
    assert_eq!(shown_head(&harness, &cluster).await["image"], "head:2");
}

#[database_test(Harness::open)]
async fn a_profile_that_does_not_work_is_taken_back_with_what_was_given_before(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    updated(&harness, &cluster, other_head()).await;
    let before = harness.cluster(cluster.id).await;
    let profile = crate::rolling::recipe(&harness, &cluster).await;
    harness.provider.fail_next(Verb::Start, ProviderError::permanent("Broken", "it cannot start"));
    let action = ended(&harness, ActionKind::ClusterUpdate, &before, json!({"profile_id": profile})).await;
    assert_eq!(action.status, ActionStatus::Failed, "{}", action.status_reason);
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.profile_id, &row.spec), (before.profile_id, &before.spec));
    let nodes = harness.nodes(cluster.id).await;
    assert!(nodes.iter().all(|node| node.profile_id == before.profile_id));
    let lost = nodes.iter().filter(|node| node.status != NodeStatus::Active);
    assert!(
        lost.clone().count() > 0 && lost.clone().all(|node| node.starts.is_empty()),
        "a new count begins"
    );
    let recovered = ended(&harness, ActionKind::ClusterRecover, &row, json!({})).await;
    assert_eq!(recovered.status, ActionStatus::Succeeded, "{}", recovered.status_reason);
}

#[database_test(Harness::open)]
async fn an_update_that_does_not_concern_the_nodes_succeeds_whatever_they_do(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    let broken = || ProviderError::permanent("Broken", "it cannot start");
    harness.provider.fail_next(Verb::Start, broken());
    let grown = ended(
        &harness,
        ActionKind::ClusterResize,
        &cluster,
        json!({"adjustment_type": "EXACT_CAPACITY", "number": 2}),
    );
    assert_eq!(grown.await.status, ActionStatus::Failed);
    harness.provider.fail_next(Verb::Start, broken());
    let named =
        ended(&harness, ActionKind::ClusterUpdate, &cluster, json!({"labels": {"keys": {"a": "1"}}})).await;
    assert_eq!(named.status, ActionStatus::Succeeded, "{}", named.status_reason);
    assert_eq!(harness.cluster(cluster.id).await.labels.len(), 1);
}

#[database_test(Harness::open)]
async fn another_recipe_begins_a_new_count_of_starts(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    let worker = harness.nodes(cluster.id).await.into_iter().find(|node| node.role == NodeRole::Worker);
    let worker = worker.expect("a worker").id;
    // Every healing counts as a start, until the budget of starts is used up.
    let row =
        async || harness.nodes(cluster.id).await.into_iter().find(|node| node.id == worker).expect("its row");
    for healings in 1..10 {
        harness.provider.kill(worker, "killed by signal 9");
        harness.until_healed_times(cluster.id, healings).await;
        if row().await.status == NodeStatus::Error {
            break;
        }
    }
    assert_eq!(row().await.status, NodeStatus::Error, "it is not started again");
    let group = with_image(&cluster.groups[0], "image:2");
    updated(&harness, &cluster, json!({"groups": [group]})).await;
}

#[database_test(Harness::open)]
async fn another_profile_goes_before_what_updates_have_changed(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    updated(&harness, &cluster, other_head()).await;
    let before: Vec<Node> = harness.nodes(cluster.id).await;
    let profile = crate::rolling::recipe(&harness, &cluster).await;
    updated(&harness, &cluster, json!({"profile_id": profile})).await;
    assert_eq!(shown_head(&harness, &cluster).await, json!({}));
    let after = harness.nodes(cluster.id).await;
    assert!(after.iter().all(|node| before.iter().all(|old| old.physical_id != node.physical_id)));
}

#[database_test(Harness::open)]
async fn updates_that_wait_for_each_other_do_not_undo_one_another(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let group = &cluster.groups[0].name;
    // The starts of the resize are held, so the updates are accepted while the cluster still has its old size.
    harness.provider.hold(Verb::Start);
    let grow = json!({"adjustment_type": "EXACT_CAPACITY", "number": 4});
    let grow = harness.submit(ActionKind::ClusterResize, &cluster, grow).await;
    let updates = [
        json!({"labels": {"keys": {"a": "1"}}, "groups": [{"name": group, "max": 9}]}),
        json!({"labels": {"keys": {"b": "2"}}}),
    ];
    let mut queued = Vec::new();
    for inputs in updates {
        queued.push(harness.submit(ActionKind::ClusterUpdate, &cluster, inputs).await);
    }
    harness.provider.release();
    for action in std::iter::once(grow).chain(queued) {
        let action = harness.ended(action).await;
        assert_eq!(action.status, ActionStatus::Succeeded, "{}", action.status_reason);
    }
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.groups[0].desired, row.groups[0].max), (4, Some(9)));
    assert_eq!(row.labels.len(), 2, "{:?}", row.labels);
}

fn outdated(nodes: &[Node]) -> Vec<String> {
    nodes.iter().filter(|node| node.is_outdated()).map(|node| node.name.clone()).collect()
}

#[database_test(Harness::open)]
async fn workers_are_replaced_one_after_the_other(harness: Harness) {
    let (cluster, _) = harness.created(3).await;
    let since = harness.provider.log().len();
    let group = with_image(&cluster.groups[0], "worker:2");
    updated(&harness, &cluster, json!({"groups": [group]})).await;
    let verbs = harness.provider.log().into_iter().skip(since).map(|entry| entry.verb);
    let moves: Vec<Verb> = verbs.filter(|verb| matches!(verb, Verb::Start | Verb::Stop)).collect();
    assert_eq!(moves, [Verb::Stop, Verb::Start].repeat(3));
}

#[database_test(Harness::open)]
async fn nodes_that_an_update_does_not_restart_are_named_until_they_are_replaced(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let before = instances(&harness, &cluster).await;
    let group = with_image(&cluster.groups[0], "worker:2");
    updated(&harness, &cluster, json!({"groups": [group], "restart": "never"})).await;
    assert_eq!(instances(&harness, &cluster).await, before, "no node is replaced");
    let nodes = harness.nodes(cluster.id).await;
    let workers: Vec<&Node> = nodes.iter().filter(|node| node.role == NodeRole::Worker).collect();
    let names: Vec<String> = workers.iter().map(|node| node.name.clone()).collect();
    assert_eq!(outdated(&nodes), names);
    let row = harness.cluster(cluster.id).await;
    assert_eq!(row.observed.outdated, names);
    let needed = "RestartNeeded: these nodes keep an older recipe until they are restarted: ";
    assert!(row.status_reason.contains(needed), "{}", row.status_reason);
    assert_eq!(recorded_events(&harness, cluster.id, "RestartNeeded").await.len(), 1);

    // A healed node is started from the present recipe.
    harness.provider.kill(workers[0].id, "killed by signal 9");
    harness.until_healed_times(cluster.id, 1).await;
    let row = harness.cluster(cluster.id).await;
    assert_eq!(row.observed.outdated, &names[1..]);
    assert!(row.status_reason.contains("RestartNeeded"), "{}", row.status_reason);

    let healed = instances(&harness, &cluster).await;
    updated(&harness, &cluster, json!({"restart": "workers"})).await;
    let after = instances(&harness, &cluster).await;
    assert_eq!((&after.0, &after.1[0]), (&healed.0, &healed.1[0]), "only what was old is replaced");
    assert_ne!(after.1[1], healed.1[1]);
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.observed.outdated, outdated(&harness.nodes(cluster.id).await)), (vec![], vec![]));
    assert!(!row.status_reason.contains("RestartNeeded"), "{}", row.status_reason);
}

#[database_test(Harness::open)]
async fn workers_can_be_replaced_without_their_head(harness: Harness) {
    let cluster = harness.created_with_head(2).await;
    let (head, workers) = instances(&harness, &cluster).await;
    updated(&harness, &cluster, json!({"env": {"keys": {"A": "1"}}, "restart": "workers"})).await;
    let after = instances(&harness, &cluster).await;
    assert_eq!(after.0, head);
    assert!(is_disjoint(&workers, &after.1), "{after:?}");
    let nodes = harness.nodes(cluster.id).await;
    let heads = nodes.iter().filter(|node| node.role == NodeRole::Head);
    assert_eq!(outdated(&nodes), heads.map(|node| node.name.clone()).collect::<Vec<_>>());
}

#[database_test(Harness::open)]
async fn a_head_that_keeps_a_recipe_that_is_restored_is_not_outdated(harness: Harness) {
    let cluster = harness.created_with_head(1).await;
    harness.provider.fail_next(Verb::Start, ProviderError::permanent("Broken", "it cannot start"));
    let update = json!({"env": {"keys": {"A": "1"}}, "restart": "workers"});
    let action = harness.submit(ActionKind::ClusterUpdate, &cluster, update).await;
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed, "{}", action.status_reason);
    let nodes = harness.nodes(cluster.id).await;
    let head = nodes.iter().find(|node| node.role == NodeRole::Head).expect("a head");
    assert!(!head.is_outdated(), "{:?}", outdated(&nodes));
    assert_eq!(harness.cluster(cluster.id).await.observed.outdated, Vec::<String>::new());
}

#[database_test(Harness::open)]
async fn workers_that_follow_a_recipe_that_is_taken_back_are_outdated(harness: Harness) {
    let (cluster, _) = harness.created(2).await;
    let nodes = harness.nodes(cluster.id).await;
    let group = with_image(&cluster.groups[0], "worker:2");
    harness.provider.hold_after(Verb::Stop, 1);
    let action = harness.submit(ActionKind::ClusterUpdate, &cluster, json!({"groups": [group]})).await;
    harness.provider.begun(Verb::Stop, 2).await;
    harness.provider.fail_next(Verb::Start, ProviderError::permanent("Broken", "it cannot start"));
    harness.provider.release();
    let action = harness.ended(action).await;
    assert_eq!(action.status, ActionStatus::Failed, "{}", action.status_reason);
    let first = nodes.into_iter().min_by_key(|node| node.index).expect("a worker");
    assert_eq!(harness.cluster(cluster.id).await.observed.outdated, [first.name]);
}
