//! The lifecycle of a delegated cluster: create, grow, shrink, restart, update, delete.

use muster_core::action::{ActionKind, ActionStatus, OnConflict};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::node::{NodeRole, NodeStatus};
use muster_engine::ChangeRequest;
use muster_engine::ports::provider::{Bounds, ObservedGroup, ProviderError};
use muster_store::reads::ActionQuery;
use muster_testkit::operator::{OPERATED_CLUSTER, PLAIN_OPERATED, ROLLING, Verb};
use muster_testkit::{database_test, read_change};
use rstest::rstest;
use serde_json::json;

use super::{created, ids, names, open, operated, recorded_events, restarted, workers};
use crate::harness::{Harness, Kind, caller, exactly};

#[database_test(open)]
async fn nodes_that_were_asked_for_keep_their_ids_when_their_members_come(harness: Harness) {
    harness.operators.stop();
    let cluster = operated(OPERATED_CLUSTER, 3);
    let create = harness.create(&cluster).await;
    harness.applied(create).await;
    let asked = harness.nodes(cluster.id).await;
    assert_eq!(asked.len(), 4, "a head and three workers");
    assert!(asked.iter().all(|node| node.status == NodeStatus::Init && node.physical_id.is_none()));
    harness.operators.resume();
    assert_eq!(harness.ended(create).await.status, ActionStatus::Succeeded);
    let nodes = harness.nodes(cluster.id).await;
    assert_eq!(ids(&nodes), ids(&asked));
    assert!(nodes.iter().all(|node| node.status == NodeStatus::Active && node.physical_id.is_some()));
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.status, row.observed.ready_workers), (ClusterStatus::Active, Some(3)));
    assert_eq!((row.observed.head_ready, row.observed.endpoints.len()), (Some(true), 1));
    assert_eq!((harness.operators.count(Verb::Create), harness.operators.objects()), (1, 1));
    let children = ActionQuery { parent: Some(create), ..ActionQuery::default() };
    assert_eq!(harness.store().actions(&children).await.unwrap().items, []);
}

#[database_test(open)]
async fn it_grows_and_shrinks_by_one_call_each_and_the_chosen_ones_go(harness: Harness) {
    let cluster = created(&harness, 2).await;
    let before = workers(harness.nodes(cluster.id).await);
    assert_eq!(harness.resized(&cluster, 5).await.status, ActionStatus::Succeeded);
    let grown = workers(harness.nodes(cluster.id).await);
    assert_eq!(grown.len(), 5);
    assert!(ids(&before).iter().all(|id| ids(&grown).contains(id)), "a node lost its id");
    let victims = [grown[1].id, grown[3].id];
    let mut inputs = exactly(3);
    inputs["candidates"] = json!(victims);
    let shrink = harness.submit(ActionKind::ClusterResize, &cluster, inputs).await;
    assert_eq!(harness.ended(shrink).await.status, ActionStatus::Succeeded);
    let left = workers(harness.nodes(cluster.id).await);
    assert_eq!(ids(&left), [grown[0].id, grown[2].id, grown[4].id]);
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
    assert_eq!(harness.operators.victims(cluster.id), Vec::<String>::new(), "they were not taken away again");
    assert_eq!(harness.operators.count(Verb::Update), 2);
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.desired(), row.generation, row.status), (3, 3, ClusterStatus::Active));
    assert_eq!(recorded_events(&harness, cluster.id, "NodeLost").await, []);
    assert_eq!(recorded_events(&harness, cluster.id, "ChangedElsewhere").await, []);
}

#[database_test(open)]
async fn the_row_changes_when_the_write_is_acknowledged_and_not_before(harness: Harness) {
    let cluster = created(&harness, 3).await;
    harness.operators.hold(Verb::Update);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(5)).await;
    harness.operators.begun(Verb::Update, 1).await;
    assert_eq!(harness.cluster(cluster.id).await.desired(), 3);
    assert_eq!(harness.action(resize).await.applied_at, None);
    harness.operators.release();
    harness.applied(resize).await;
    assert_eq!(harness.cluster(cluster.id).await.desired(), 5);
    harness.ended(resize).await;
}

#[database_test(open)]
async fn size_and_bounds_are_one_write(harness: Harness) {
    let cluster = created(&harness, 2).await;
    let inputs = json!({"adjustment_type": "CHANGE_IN_CAPACITY", "number": 2, "min_size": 1, "max_size": 6});
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, inputs).await;
    assert_eq!(harness.ended(resize).await.status, ActionStatus::Succeeded);
    let bounds = Some(Bounds { min: 1, max: Some(6) });
    let group = ObservedGroup {
        name: "default".to_owned(),
        desired: 4,
        bounds,
        floor_differs: false,
        autoscaled: false,
        template: None,
    };
    assert_eq!(harness.operators.group(cluster.id), Some(group));
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.desired(), row.min_size(), row.max_size()), (4, 1, Some(6)));
    assert_eq!(harness.operators.count(Verb::Update), 1);
    let beyond = harness.submit(ActionKind::ClusterResize, &cluster, exactly(7)).await;
    let beyond = harness.ended(beyond).await;
    assert_eq!(beyond.status, ActionStatus::Failed);
    assert!(
        beyond.status_reason.contains("greater than the cluster's max_size (6)"),
        "{}",
        beyond.status_reason
    );
    assert_eq!(harness.operators.count(Verb::Update), 1, "it was written all the same");
}

#[database_test(open)]
async fn a_restarted_head_keeps_its_id_and_takes_the_workers_along_that_cannot_rejoin(harness: Harness) {
    let cluster = created(&harness, 2).await;
    let before = harness.nodes(cluster.id).await;
    let head = before.iter().find(|node| node.role == NodeRole::Head).unwrap();
    assert_eq!(restarted(&harness, &cluster, head.id).await.status, ActionStatus::Succeeded);
    let after = harness.nodes(cluster.id).await;
    let head_now = after.iter().find(|node| node.role == NodeRole::Head).unwrap();
    assert_eq!(head_now.id, head.id);
    assert_ne!(head_now.name, head.name, "it was not replaced");
    assert!(after.iter().all(|node| node.status == NodeStatus::Active && node.incarnation == 2), "{after:?}");
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
    assert!(before.iter().all(|old| after.iter().all(|new| new.name != old.name)));
    assert_eq!(harness.operators.count(Verb::RestartHead), 1);
    assert_eq!(recorded_events(&harness, cluster.id, "NodeLost").await, []);
    assert_eq!(harness.cluster(cluster.id).await.incarnation, 2);
}

#[database_test(open)]
async fn workers_stay_where_the_object_says_that_its_head_remembers_them(harness: Harness) {
    let cluster = created(&harness, 2).await;
    harness.operators.remember(cluster.id);
    let before = names(&harness, cluster.id).await;
    let head = harness.nodes(cluster.id).await.into_iter().find(|node| node.role == NodeRole::Head).unwrap();
    assert_eq!(restarted(&harness, &cluster, head.id).await.status, ActionStatus::Succeeded);
    let now = harness.nodes(cluster.id).await.into_iter().find(|node| node.role == NodeRole::Head).unwrap();
    assert_ne!(now.name, head.name, "it was not replaced");
    assert_eq!(names(&harness, cluster.id).await, before);
}

#[database_test(open)]
async fn what_was_never_made_is_made_by_a_recovery_and_by_nothing_else(harness: Harness) {
    let refused = ProviderError::permanent("QuotaExceeded", "exceeded quota: few");
    harness.operators.fail_next(Verb::Create, refused);
    let cluster = operated(OPERATED_CLUSTER, 2);
    let create = harness.create(&cluster).await;
    assert_eq!(harness.ended(create).await.status, ActionStatus::Failed);
    let resize = harness.submit(ActionKind::ClusterResize, &cluster, exactly(3)).await;
    let words = "it does not exist, because its creation failed: recover or delete it";
    assert_eq!(harness.ended(resize).await.status_reason, words);
    assert_eq!(harness.operators.objects(), 0);

    let recover = harness.submit(ActionKind::ClusterRecover, &cluster, json!({})).await;
    assert_eq!(harness.ended(recover).await.status, ActionStatus::Succeeded);
    let nodes = harness.nodes(cluster.id).await;
    assert!(nodes.len() == 3 && nodes.iter().all(|node| node.status == NodeStatus::Active), "{nodes:?}");
    assert_eq!(harness.operators.objects(), 1);
}

#[rstest]
#[case::sqlite(Kind::Sqlite, None)]
#[case::postgres(Kind::Postgres, None)]
#[case::sqlite_rolling(Kind::Sqlite, Some(ROLLING))]
#[case::postgres_rolling(Kind::Postgres, Some(ROLLING))]
#[tokio::test]
async fn a_changed_recipe_rolls_or_names_the_outdated_nodes(
    #[case] kind: Kind,
    #[case] flavor: Option<&str>,
) {
    let Some(harness) = open(kind).await else { return };
    let cluster = Cluster { flavor: flavor.map(str::to_owned), ..operated(OPERATED_CLUSTER, 2) };
    let create = harness.create(&cluster).await;
    harness.ended(create).await;
    let before = names(&harness, cluster.id).await;
    let group = json!({"name": cluster.groups[0].name, "image": "ray:2"});
    let update = harness.submit(ActionKind::ClusterUpdate, &cluster, json!({"groups": [group]})).await;
    let update = harness.ended(update).await;
    assert_eq!(update.status, ActionStatus::Succeeded);
    let row = harness.cluster(cluster.id).await;
    assert_eq!(row.groups[0].spec["node"]["image"], "ray:2");
    let recorded = recorded_events(&harness, cluster.id, "RestartNeeded").await;
    let after = names(&harness, cluster.id).await;
    if flavor.is_some() {
        assert!(before.iter().all(|name| !after.contains(name)), "{after:?}");
        assert_eq!(recorded, []);
        assert_eq!(update.status_reason, "Cluster update completed.");
    } else {
        assert_eq!(after, before);
        let words =
            format!("these nodes keep an older recipe until they are restarted: {}", before.join(", "));
        let needed = format!("RestartNeeded: {words}.");
        assert_eq!(update.status_reason, format!("Cluster update completed. {needed}"));
        assert!(row.status_reason.ends_with(&needed), "{}", row.status_reason);
        assert_eq!(recorded.iter().map(|event| event.message.as_str()).collect::<Vec<_>>(), [words]);
    }
    assert_eq!(harness.operators.count(Verb::Update), 1);
}

#[rstest]
#[case::sqlite_at_once(Kind::Sqlite, true)]
#[case::postgres_at_once(Kind::Postgres, true)]
#[case::sqlite_later(Kind::Sqlite, false)]
#[tokio::test]
async fn workers_are_replaced_on_request_and_the_head_is_not(#[case] kind: Kind, #[case] at_once: bool) {
    let Some(harness) = open(kind).await else { return };
    let cluster = operated(OPERATED_CLUSTER, 3);
    let create = harness.create(&cluster).await;
    harness.ended(create).await;
    let head = async || {
        let nodes = harness.nodes(cluster.id).await;
        nodes.into_iter().find(|node| node.role == NodeRole::Head).expect("a head").physical_id
    };
    let (workers, before) = (names(&harness, cluster.id).await, head().await);
    let group = json!({"name": cluster.groups[0].name, "image": "ray:2"});
    let inputs = if at_once {
        json!({"groups": [group], "restart": "workers"})
    } else {
        let update = harness.submit(ActionKind::ClusterUpdate, &cluster, json!({"groups": [group]})).await;
        harness.ended(update).await;
        assert_eq!(names(&harness, cluster.id).await, workers);
        json!({"restart": "workers"})
    };
    let update = harness.submit(ActionKind::ClusterUpdate, &cluster, inputs).await;
    let update = harness.ended(update).await;
    assert_eq!(update.status, ActionStatus::Succeeded, "{}", update.status_reason);
    let after = names(&harness, cluster.id).await;
    assert!(after.len() == 3 && workers.iter().all(|name| !after.contains(name)), "{after:?}");
    assert_eq!(head().await, before);
    assert_eq!(harness.operators.count(Verb::RestartHead), 3, "each for itself");
    assert_eq!(recorded_events(&harness, cluster.id, "NodeLost").await, []);
    let row = harness.cluster(cluster.id).await;
    assert!(!row.status_reason.contains("RestartNeeded"), "{}", row.status_reason);
}

#[rstest]
#[case::sqlite(Kind::Sqlite, None)]
#[case::postgres(Kind::Postgres, None)]
#[case::sqlite_rolling(Kind::Sqlite, Some(ROLLING))]
#[case::postgres_rolling(Kind::Postgres, Some(ROLLING))]
#[tokio::test]
async fn a_changed_recipe_of_the_head_is_written_like_a_groups(
    #[case] kind: Kind,
    #[case] flavor: Option<&str>,
) {
    let Some(harness) = open(kind).await else { return };
    let cluster = Cluster { flavor: flavor.map(str::to_owned), ..operated(OPERATED_CLUSTER, 2) };
    let create = harness.create(&cluster).await;
    harness.ended(create).await;
    let head = async || {
        let nodes = harness.nodes(cluster.id).await;
        nodes.into_iter().find(|node| node.role == NodeRole::Head).expect("a head")
    };
    let (before, workers) = (head().await, names(&harness, cluster.id).await);
    let inputs = json!({"head": {"image": "ray:2"}});
    let update = harness.submit(ActionKind::ClusterUpdate, &cluster, inputs.clone()).await;
    let update = harness.ended(update).await;
    assert_eq!(update.status, ActionStatus::Succeeded, "{}", update.status_reason);
    assert_eq!(
        harness.cluster(cluster.id).await.spec["cluster"]["clusterSpec"]["headGroupSpec"]["image"],
        "ray:2"
    );
    let (after, recorded) = (head().await, recorded_events(&harness, cluster.id, "RestartNeeded").await);
    assert_eq!((after.id, names(&harness, cluster.id).await), (before.id, workers));
    if flavor.is_some() {
        assert_ne!(after.physical_id, before.physical_id);
        assert_eq!((after.status, recorded), (NodeStatus::Active, Vec::new()));
    } else {
        assert_eq!(after.physical_id, before.physical_id);
        let words = format!("these nodes keep an older recipe until they are restarted: {}", before.name);
        assert_eq!(recorded.iter().map(|event| event.message.as_str()).collect::<Vec<_>>(), [words]);
    }
    assert_eq!(harness.operators.count(Verb::Update), 1);
    let same = harness.submit(ActionKind::ClusterUpdate, &cluster, inputs).await;
    assert_eq!(harness.ended(same).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.operators.count(Verb::Update), 1, "nothing differs any more");
}

#[database_test(open)]
async fn what_only_rows_know_is_changed_without_a_call(harness: Harness) {
    let cluster = created(&harness, 1).await;
    let inputs = json!({"metadata": {"team": "red"}, "timeout_seconds": 60});
    let update = harness.submit(ActionKind::ClusterUpdate, &cluster, inputs).await;
    assert_eq!(harness.ended(update).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.cluster(cluster.id).await.metadata["team"], "red");
    assert_eq!(harness.operators.count(Verb::Update), 0);
}

#[database_test(open)]
async fn a_size_in_an_update_is_written_to_the_object(harness: Harness) {
    let cluster = created(&harness, 1).await;
    let inputs = json!({"metadata": {"team": "red"}, "resize": exactly(3)});
    let update = harness.submit(ActionKind::ClusterUpdate, &cluster, inputs).await;
    let ended = harness.ended(update).await;
    assert_eq!(ended.status, ActionStatus::Succeeded, "{}", ended.status_reason);
    assert_eq!(harness.operators.workers(cluster.id).len(), 3);
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.desired(), &row.metadata["team"]), (3, &json!("red")));
    assert_eq!(harness.operators.count(Verb::Update), 1);
}

#[database_test(open)]
async fn another_profile_that_its_operator_cannot_follow_is_refused(harness: Harness) {
    let cluster = created(&harness, 1).await;
    let other = muster_core::ids::ProfileId::from_uuid(uuid::Uuid::now_v7());
    for inputs in [json!({"profile_id": other}), json!({"profile_id": other, "profile_only": true})] {
        let refused = harness.refused(ActionKind::ClusterUpdate, &cluster, inputs).await.to_string();
        let expected = format!(
            "clusters of type {} cannot follow another profile: create another cluster from it",
            cluster.profile_type
        );
        assert_eq!(refused, expected);
    }
    assert_eq!(harness.cluster(cluster.id).await.profile_id, cluster.profile_id);
}

#[database_test(open)]
async fn a_deletion_ends_when_the_object_is_gone(harness: Harness) {
    let cluster = created(&harness, 2).await;
    harness.operators.finalize(true);
    let delete = harness.submit(ActionKind::ClusterDelete, &cluster, json!({})).await;
    harness.applied(delete).await;
    assert_eq!(harness.operators.objects(), 1);
    assert_eq!(harness.action(delete).await.status, ActionStatus::Running);
    harness.operators.finalize(false);
    assert_eq!(harness.ended(delete).await.status, ActionStatus::Succeeded);
    assert_eq!((harness.operators.objects(), harness.operators.count(Verb::Delete)), (0, 1));
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.status, row.deleted_at.is_some()), (ClusterStatus::Deleted, true));
    assert_eq!(harness.nodes(cluster.id).await, []);
    assert_eq!(recorded_events(&harness, cluster.id, "DeletedElsewhere").await, []);
}

#[database_test(open)]
async fn what_its_operator_cannot_do_is_refused_at_once(harness: Harness) {
    let cluster = operated(PLAIN_OPERATED, 3);
    let create = harness.create(&cluster).await;
    assert_eq!(harness.ended(create).await.status, ActionStatus::Succeeded);
    let victim = harness.nodes(cluster.id).await[0].id;
    let mut inputs = exactly(2);
    inputs["candidates"] = json!([victim]);
    let change = ChangeRequest {
        change: read_change(ActionKind::ClusterResize, &inputs),
        cluster: harness.cluster(cluster.id).await,
        node: None,

        on_conflict: OnConflict::Queue,
        timeout: None,
    };
    let refused = harness.engine.submit(change, caller()).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "clusters of type operated.plain-1.0 cannot choose victims: their operator chooses the workers to remove"
    );
    assert_eq!(harness.resized(&cluster, 2).await.status, ActionStatus::Succeeded);
    assert_eq!(names(&harness, cluster.id).await, harness.operators.workers(cluster.id));
}

#[database_test(open)]
async fn a_check_observes_and_a_recovery_waits_for_the_operator(harness: Harness) {
    let cluster = created(&harness, 2).await;
    harness.operators.stop();
    harness.operators.lose(cluster.id, &harness.operators.workers(cluster.id)[0]);
    let check = harness.submit(ActionKind::ClusterCheck, &cluster, json!({})).await;
    assert_eq!(harness.ended(check).await.status, ActionStatus::Succeeded);
    let row = harness.cluster(cluster.id).await;
    assert_eq!((row.status, row.observed.ready_workers), (ClusterStatus::Warning, Some(1)));
    let recover = harness.submit(ActionKind::ClusterRecover, &cluster, json!({})).await;
    harness.applied(recover).await;
    harness.operators.resume();
    assert_eq!(harness.ended(recover).await.status, ActionStatus::Succeeded);
    assert_eq!(harness.cluster(cluster.id).await.status, ClusterStatus::Active);
    assert_eq!(harness.operators.calls().len(), 1, "only the creation was ever asked of it");
}
