//! Ephemeral clusters are deleted when their app is gone, and only then.

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::app::{App, AppIdentity, AppKind, AppState, AppTimes, GivenApp};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::ephemeral::{AppStatus, DriverEnd, LeaveRule};
use muster_core::event::Event;
use muster_core::ids::AppId;
use muster_core::profile::Profile;
use muster_core::time::TimeSpan;
use muster_core::{principal::Owner, sample};
use muster_engine::admission::apps::DeletionForApp;
use muster_engine::{Config, NewClusterUser, Recipe};
use muster_store::commands::{AppUseChanged, AppUseRefusal, ChangeAppUse, RegisterApp, RenewApp};
use muster_store::reads::{ActionQuery, AppQuery, EventQuery};
use muster_testkit::operator::{OPERATED_CLUSTER, Operated};
use muster_testkit::{ManualClock, database_test, eventually};
use uuid::Uuid;

use crate::harness::{self, Harness, Kind, PATIENCE, caller, setup};

/// Long enough to be observed, short enough to wait for.
const SHORT: TimeSpan = TimeSpan::from_millis(300);

/// Longer than a test.
const LONG: TimeSpan = TimeSpan::from_secs(600);

fn config(grace: TimeSpan, lease: TimeSpan) -> Config {
    Config {
        app_times: AppTimes { grace, lease },
        safety_period: TimeSpan::from_millis(100),
        ..Config::default()
    }
}

struct Scenario {
    harness: Harness,
    app: App,
    cluster: Cluster,
}

fn identity(name: &str) -> AppIdentity {
    AppIdentity {
        namespace: sample::cluster(1, 0, None).namespace,
        kind: AppKind::ReplicaSet,
        name: name.to_owned(),
        uid: Uuid::now_v7().to_string(),
    }
}

fn app(identity: AppIdentity) -> App {
    let AppIdentity { namespace, kind, name, uid } = identity;
    App {
        id: AppId::from_uuid(Uuid::now_v7()),
        instance: Operated::instance_id(),
        namespace,
        name,
        kind,
        uid,
        project: sample::principal().project,
        owner: Owner::default(),
        process: None,
        lease_until: None,
        cluster_name: String::new(),
        cluster_id: None,
        state: AppState::Running,
        created_at: harness::now(),
        ended_at: None,
    }
}

impl Scenario {
    /// A ReplicaSet that wants one driver, and its ephemeral cluster.
    async fn with(kind: Kind, grace: TimeSpan) -> Option<Self> {
        let harness = setup().config(config(grace, LONG)).open(kind).await?;
        let identity = identity("bob-1");
        harness.operators.apps.wants(&identity, 1);
        Some(Self::over(harness, app(identity), None).await)
    }

    /// An ephemeral cluster of an app.
    async fn over(harness: Harness, app: App, lease: Option<TimeSpan>) -> Self {
        let (app, cluster) = Self::cluster_of(&harness, app, lease).await;
        Self { harness, app, cluster }
    }

    async fn cluster_of(harness: &Harness, app: App, lease: Option<TimeSpan>) -> (App, Cluster) {
        let register = RegisterApp { app, lease, cluster: None };
        let app = harness.store().register_app(register).await.expect("an app");
        let cluster = Cluster {
            instance: Operated::instance_id(),
            ephemeral: Some(Box::new(app.mark())),
            ..harness::cluster(OPERATED_CLUSTER, 1)
        };
        let profile =
            Profile { id: cluster.profile_id, kind: cluster.profile_type.clone(), ..sample::profile() };
        let recipe = Recipe::New(profile);
        let created = harness.engine.create_cluster_for(
            cluster.clone(),
            recipe,
            true,
            NewClusterUser::App(app.id),
            caller(),
        );
        let created = created.await.expect("a new cluster");
        harness.ended(created.action.id).await;
        (app, cluster)
    }

    async fn deletions(&self) -> Vec<Action> {
        let query = ActionQuery { cluster: Some(self.cluster.id), ..ActionQuery::default() };
        let actions = self.harness.store().actions(&query).await.expect("the store answers").items;
        actions.into_iter().filter(|action| action.kind == ActionKind::ClusterDelete).collect()
    }

    async fn events(&self, reason: &str) -> Vec<Event> {
        let query = EventQuery { cluster: Some(self.cluster.id), ..EventQuery::default() };
        let events = self.harness.store().events(&query).await.expect("the store answers").items;
        events.into_iter().filter(|event| event.reason == reason).collect()
    }

    async fn is_deleted(&self) {
        self.harness.until_status(self.cluster.id, ClusterStatus::Deleted).await;
        let deletions = self.deletions().await;
        assert_eq!(deletions.len(), 1, "one deletion: {deletions:?}");
        assert_eq!(deletions[0].status, ActionStatus::Succeeded);
    }

    /// Checks that the cluster still exists after enough observations of the app to act on.
    async fn stays(&self) {
        self.harness.operators.apps.observed_again(4).await;
        assert!(self.deletions().await.is_empty());
        assert_eq!(self.harness.cluster(self.cluster.id).await.status, ClusterStatus::Active);
    }

    async fn until_event(&self, reason: &str) {
        eventually(&format!("event {reason}"), PATIENCE, async || {
            let events = self.events(reason).await;
            if events.is_empty() { Err("none yet") } else { Ok(()) }
        })
        .await;
    }

    async fn delete(&self, given: &str, status: AppStatus) -> Result<DeletionForApp, String> {
        let given: GivenApp = given.parse().expect("an app");
        let end = DriverEnd { status, exit_code: None };
        let cluster = self.harness.cluster(self.cluster.id).await;
        let deleted = self.harness.engine.delete_for_app(&cluster, &given, end, &caller()).await;
        deleted.map_err(|error| error.to_string())
    }
}

async fn short_grace(kind: Kind) -> Option<Scenario> {
    Scenario::with(kind, SHORT).await
}

async fn long_grace(kind: Kind) -> Option<Scenario> {
    Scenario::with(kind, LONG).await
}

async fn no_grace(kind: Kind) -> Option<Scenario> {
    Scenario::with(kind, TimeSpan::default()).await
}

#[database_test(short_grace)]
async fn a_cluster_ends_with_its_app_after_a_warning(scenario: Scenario) {
    let identity = scenario.app.identity();
    scenario.harness.operators.apps.is_gone(&identity, false);
    scenario.is_deleted().await;
    let warnings = scenario.events("AppGone").await;
    assert_eq!(warnings.len(), 1, "one warning: {warnings:?}");
    assert!(warnings[0].message.contains("its app 'bob-1' is gone: it does not exist"), "{warnings:?}");
    assert_eq!(scenario.events("DeletedWithApp").await.len(), 1);
    eventually("the label of the app is cleared", PATIENCE, async || {
        let marks = scenario.harness.operators.apps.marks(&identity.uid).unwrap_or_default();
        if marks.uses.is_empty() && marks.cluster_name.is_none() { Ok(()) } else { Err(format!("{marks:?}")) }
    })
    .await;
}

#[database_test(long_grace)]
async fn an_app_that_comes_back_keeps_its_cluster(scenario: Scenario) {
    let identity = scenario.app.identity();
    scenario.harness.operators.apps.is_gone(&identity, false);
    scenario.until_event("AppGone").await;
    scenario.harness.operators.apps.wants(&identity, 1);
    eventually("it runs again", PATIENCE, async || {
        let app =
            scenario.harness.store().app(scenario.app.id).await.expect("the store answers").expect("a row");
        if app.state == AppState::Running && app.ended_at.is_none() {
            Ok(())
        } else {
            Err(format!("{app:?}"))
        }
    })
    .await;
    assert!(scenario.deletions().await.is_empty());
}

#[database_test(no_grace)]
async fn an_app_that_cannot_be_observed_is_not_gone(scenario: Scenario) {
    scenario.harness.operators.apps.set(&scenario.app.identity(), None);
    scenario.stays().await;
    let refused = scenario.delete("bob-1", AppStatus::Completed).await.expect_err("it is unknown");
    assert!(refused.contains("cannot be observed"), "{refused}");
}

#[database_test(no_grace)]
async fn while_pods_of_its_app_run_a_cluster_stays(scenario: Scenario) {
    let identity = scenario.app.identity();
    scenario.harness.operators.apps.is_gone(&identity, true);
    scenario.stays().await;
    assert!(scenario.events("AppGone").await.is_empty());
    scenario.harness.operators.apps.is_gone(&identity, false);
    scenario.is_deleted().await;
}

#[database_test(short_grace)]
async fn a_scaled_down_app_loses_its_cluster(scenario: Scenario) {
    scenario.harness.operators.apps.wants(&scenario.app.identity(), 0);
    scenario.is_deleted().await;
}

#[tokio::test]
async fn two_replicas_delete_a_cluster_once() {
    let Some(scenario) = short_grace(Kind::Postgres).await else { return };
    let other =
        setup().config(config(SHORT, LONG)).start(scenario.harness.store().clone(), &scenario.harness).await;
    scenario.harness.operators.apps.is_gone(&scenario.app.identity(), false);
    scenario.is_deleted().await;
    other.stop().await;
}

/// A scenario with a clock that can be set, and a grace period that is longer than the test.
async fn clocked(kind: Kind) -> Option<(Scenario, ManualClock)> {
    let clock = ManualClock::default();
    let harness = setup().clock(&clock).config(config(LONG, LONG)).open(kind).await?;
    let identity = identity("bob-1");
    harness.operators.apps.wants(&identity, 1);
    Some((Scenario::over(harness, app(identity), None).await, clock))
}

#[database_test(clocked)]
async fn a_clock_that_is_set_forward_shortens_no_grace((scenario, clock): (Scenario, ManualClock)) {
    let (apps, identity) = (&scenario.harness.operators.apps, scenario.app.identity());
    apps.is_gone(&identity, false);
    scenario.until_event("AppGone").await;
    clock.advance(TimeSpan::from_secs(24 * 60 * 60));
    // When the last of these observations is made, the watcher has acted on the earlier ones.
    for _ in 0..3 {
        tokio::join!(apps.observed_again(1), async { apps.is_gone(&identity, false) });
    }
    assert!(scenario.deletions().await.is_empty());
    assert_eq!(scenario.harness.cluster(scenario.cluster.id).await.status, ClusterStatus::Active);
}

async fn leased(kind: Kind) -> Option<Scenario> {
    let harness = setup().config(config(TimeSpan::default(), LONG)).open(kind).await?;
    let command = AppIdentity { kind: AppKind::Command, ..identity("run-1") };
    Some(Scenario::over(harness, app(command), Some(SHORT)).await)
}

#[database_test(leased)]
async fn a_command_that_renews_its_lease_keeps_its_cluster_and_a_silent_one_does_not(scenario: Scenario) {
    // The lease of the scenario's own command expires during the test.
    let other = AppIdentity { kind: AppKind::Command, ..identity("run-2") };
    let (renewed, kept) = Scenario::cluster_of(&scenario.harness, app(other), Some(LONG)).await;
    let store = scenario.harness.store();
    let again = RenewApp { id: renewed.id, lease: Some(LONG), process: None };
    let again = store.renew_app(again).await.expect("a row");
    assert!(again.lease_until > renewed.lease_until, "{again:?}");
    scenario.is_deleted().await;
    assert_eq!(scenario.harness.cluster(kept.id).await.status, ClusterStatus::Active);
}

/// A cluster with a mark that was written by hand.
async fn marked_by_hand(scenario: &Scenario) -> Cluster {
    marked(scenario, None, "carl-7", "").await
}

/// A cluster with a mark of another app.
async fn marked(scenario: &Scenario, kind: Option<AppKind>, name: &str, uid: &str) -> Cluster {
    let mut other = scenario.cluster.ephemeral.clone().expect("a mark");
    (other.app, other.kind, other.uid) = (name.to_owned(), kind, uid.to_owned());
    let cluster = Cluster {
        ephemeral: Some(other),
        name: "by-hand".to_owned(),
        instance: Operated::instance_id(),
        ..harness::cluster(OPERATED_CLUSTER, 1)
    };
    let action = scenario.harness.create(&cluster).await;
    scenario.harness.ended(action).await;
    cluster
}

#[database_test(no_grace)]
async fn a_mark_that_names_what_is_not_there_ends_its_cluster(scenario: Scenario) {
    let cluster = marked_by_hand(&scenario).await;
    scenario.harness.until_status(cluster.id, ClusterStatus::Deleted).await;
    let of_a_living_app = scenario.harness.cluster(scenario.cluster.id).await;
    assert_eq!(of_a_living_app.status, ClusterStatus::Active);
}

#[database_test(long_grace)]
async fn the_cluster_of_a_deployment_stays_while_pods_of_another_rollout_use_it(scenario: Scenario) {
    let deployment = AppIdentity { kind: AppKind::Deployment, ..identity("bob") };
    let apps = &scenario.harness.operators.apps;
    apps.wants(&deployment, 1);
    let cluster = marked(&scenario, Some(deployment.kind), &deployment.name, &deployment.uid).await;
    let delete = async || {
        let end = DriverEnd { status: AppStatus::Completed, exit_code: Some(0) };
        let given: GivenApp = "deployment/bob".parse().expect("an app");
        let row = scenario.harness.cluster(cluster.id).await;
        scenario.harness.engine.delete_for_app(&row, &given, end, &caller()).await
    };
    apps.runs_pods(&deployment, 2);
    let left = delete().await;
    assert!(matches!(left, Ok(DeletionForApp::Left(LeaveRule::StillWanted))), "{left:?}");
    apps.runs_pods(&deployment, 1);
    let deleted = delete().await;
    assert!(matches!(deleted, Ok(DeletionForApp::Deleting(_))), "{deleted:?}");
}

#[database_test(no_grace)]
async fn pods_that_outlive_an_app_of_a_mark_by_hand_keep_its_cluster(scenario: Scenario) {
    let (apps, carl) = (&scenario.harness.operators.apps, identity("carl-7"));
    apps.wants(&carl, 1);
    let cluster = marked_by_hand(&scenario).await;
    let query = AppQuery { cluster: Some(cluster.id), ..AppQuery::default() };
    eventually("the app is a user of the cluster", PATIENCE, async || {
        let users = scenario.harness.store().apps(&query).await.expect("the store answers").items;
        if users.is_empty() { Err("not yet") } else { Ok(()) }
    })
    .await;
    apps.is_gone(&carl, true);
    apps.lose_name(&carl);
    apps.observed_again(4).await;
    assert_eq!(scenario.harness.cluster(cluster.id).await.status, ClusterStatus::Active);
    apps.is_gone(&carl, false);
    scenario.harness.until_status(cluster.id, ClusterStatus::Deleted).await;
}

#[database_test(long_grace)]
async fn a_driver_deletes_a_cluster_whose_mark_names_what_is_not_there(scenario: Scenario) {
    let cluster = marked_by_hand(&scenario).await;
    let end = DriverEnd { status: AppStatus::Completed, exit_code: None };
    let given: GivenApp = "carl-7".parse().expect("an app");
    let row = scenario.harness.cluster(cluster.id).await;
    let deleted = scenario.harness.engine.delete_for_app(&row, &given, end, &caller()).await;
    assert!(matches!(deleted, Ok(DeletionForApp::Deleting(_))), "{deleted:?}");
}

#[database_test(long_grace)]
async fn a_driver_deletes_only_what_is_its_own(scenario: Scenario) {
    let other = identity("ann-1");
    scenario.harness.operators.apps.wants(&other, 1);
    let left = |deleted: Result<DeletionForApp, String>, rule: LeaveRule| {
        assert!(matches!(&deleted, Ok(DeletionForApp::Left(by)) if *by == rule), "{deleted:?}");
    };
    left(scenario.delete("ann-1", AppStatus::Completed).await, LeaveRule::NotLinked);
    left(scenario.delete("bob-1", AppStatus::Terminated).await, LeaveRule::StillWanted);
    scenario.harness.operators.apps.wants(&scenario.app.identity(), 2);
    left(scenario.delete("bob-1", AppStatus::Completed).await, LeaveRule::StillWanted);
    scenario.harness.operators.apps.wants(&scenario.app.identity(), 1);
    let deleted = scenario.delete("replicaset/bob-1", AppStatus::Completed).await;
    assert!(matches!(deleted, Ok(DeletionForApp::Deleting(_))), "{deleted:?}");
    scenario.is_deleted().await;
}

#[database_test(long_grace)]
async fn an_ephemeral_cluster_has_one_app_and_one_that_leaves_has_no_more(scenario: Scenario) {
    let store = scenario.harness.store();
    let other = store
        .register_app(RegisterApp { app: app(identity("ann-1")), lease: None, cluster: None })
        .await
        .expect("an app");
    let change = |app: AppId, uses: bool| ChangeAppUse {
        app,
        deployment: None,
        cluster: scenario.cluster.id,
        uses,
        now: harness::now(),
        events: Vec::new(),
    };
    let refused = store.change_app_use(change(other.id, true)).await.expect("decided");
    assert_eq!(refused, AppUseChanged::Refused(AppUseRefusal::OfAnother(scenario.app.mark())));
    let refused = store.change_app_use(change(scenario.app.id, false)).await.expect("decided");
    assert_eq!(refused, AppUseChanged::Refused(AppUseRefusal::OfThis(scenario.app.identity())));
    let same = store.change_app_use(change(scenario.app.id, true)).await.expect("decided");
    assert_eq!(same, AppUseChanged::Unchanged);
}

#[database_test(long_grace)]
async fn the_end_of_apps_of_shared_clusters_is_recorded(scenario: Scenario) {
    let harness = &scenario.harness;
    let shared = Cluster {
        name: "shared".to_owned(),
        instance: Operated::instance_id(),
        ..harness::cluster(OPERATED_CLUSTER, 1)
    };
    let created = harness.create(&shared).await;
    harness.ended(created).await;
    let [object, command] = [identity("ann-1"), AppIdentity { kind: AppKind::Command, ..identity("run-1") }];
    let mut apps = Vec::new();
    for (app, lease) in [(app(object.clone()), None), (app(command), Some(SHORT))] {
        let app =
            harness.store().register_app(RegisterApp { app, lease, cluster: None }).await.expect("an app");
        let (app, cluster, now) = (app.id, shared.id, harness::now());
        let attach = ChangeAppUse { app, deployment: None, cluster, uses: true, now, events: Vec::new() };
        assert_eq!(harness.store().change_app_use(attach).await.expect("decided"), AppUseChanged::Changed);
        apps.push(app);
    }
    harness.operators.apps.wants(&object, 1);
    harness.operators.apps.is_gone(&object, false);
    eventually("both have ended", PATIENCE, async || {
        for id in &apps {
            let app = harness.store().app(*id).await.expect("the store answers").expect("a row");
            if app.state != AppState::Gone || app.ended_at.is_none() {
                return Err(format!("{app:?}"));
            }
        }
        Ok(())
    })
    .await;
}

#[database_test(Harness::open)]
async fn several_drivers_of_an_app_get_the_same_name(harness: Harness) {
    let identity = identity("bob-1");
    let register = |name: &str| {
        let app = app(identity.clone());
        let store = harness.store().clone();
        let cluster = Some((name.to_owned(), None));
        async move { store.register_app(RegisterApp { app, lease: None, cluster }).await.expect("an app") }
    };
    let (one, two) = tokio::join!(register("cluster-aaaaaa"), register("cluster-bbbbbb"));
    assert_eq!((one.id, &one.cluster_name), (two.id, &two.cluster_name));
    let three = register("cluster-cccccc").await;
    assert_eq!(three.cluster_name, one.cluster_name);
}
