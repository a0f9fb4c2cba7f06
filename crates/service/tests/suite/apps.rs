//! Apps, and the clusters that they use.

use std::sync::Arc;

use muster_core::app::{App, AppIdentity, AppKind, AppState, AppUse, EphemeralMark, Process};
use muster_core::cluster::Cluster;
use muster_core::ids::{AppId, ClusterId, InstanceId, ProfileId};
use muster_core::principal::{Door, Role};
use muster_core::profile::Profile;
use muster_core::sample;
use muster_core::time::Timestamp;
use muster_core::unknown_fields::UnknownFields;
use muster_engine::Config;
use muster_service::apps::Registration;
use muster_service::{ErrorKind, Mutation, Recipe, ServiceError, Writer};
use muster_store::commands::{AppUseChanged, ChangeAppUse, RegisterApp};
use muster_testkit::fake::Fake;
use muster_testkit::operator::{OPERATED_CLUSTER, Operated, OperatorWorld};
use rstest::rstest;
use uuid::Uuid;

use crate::harness::{Harness, REACHED, caller, changing};

/// Registers an app of the name `bob`, and attaches it to the cluster.
async fn bob(
    harness: &Harness,
    kind: AppKind,
    instance: InstanceId,
    created: i64,
    uses: Option<&Cluster>,
) -> AppId {
    let id = AppId::from_uuid(Uuid::now_v7());
    let app = App {
        id,
        instance,
        namespace: "demo".to_owned(),
        name: "bob".to_owned(),
        kind,
        uid: id.to_string(),
        project: "demo".to_owned(),
        owner: sample::principal().as_owner(),
        process: None,
        lease_until: None,
        cluster_name: String::new(),
        cluster_id: None,
        state: AppState::Running,
        created_at: Timestamp::from_micros(created),
        ended_at: None,
    };
    let store = harness.service.engine().store();
    store.register_app(RegisterApp { app, lease: None, cluster: None }).await.expect("registered");
    if let Some(cluster) = uses {
        let now = Timestamp::from_micros(created);
        let attach = ChangeAppUse {
            app: id,
            deployment: None,
            cluster: cluster.id,
            uses: true,
            now,
            events: Vec::new(),
        };
        let attached = store.change_app_use(attach).await.expect("attached");
        assert_eq!(attached, AppUseChanged::Changed);
    }
    id
}

/// The provider of the harness has no apps, so all but commands are gone.
#[rstest]
#[case::gone_and_recreated(AppKind::Job, Fake::instance_id(), false)]
#[case::gone_here_and_present_elsewhere(AppKind::Job, InstanceId::new("other", "test"), false)]
#[case::both_used_it(AppKind::Job, Fake::instance_id(), true)]
#[case::of_another_kind(AppKind::Pod, Fake::instance_id(), false)]
#[tokio::test]
async fn detaching_an_app_that_is_gone_ends_its_use_whatever_has_its_name_now(
    #[case] later: AppKind,
    #[case] instance: InstanceId,
    #[case] later_uses: bool,
    #[values("bob", "job/bob")] given: &str,
) {
    let harness = Harness::open().await;
    let cluster = harness.cluster("fred").await;
    let first = bob(&harness, AppKind::Job, Fake::instance_id(), 1, Some(&cluster)).await;
    let later = bob(&harness, later, instance, 2, later_uses.then_some(&cluster)).await;
    detach(&harness, &cluster, given).await;
    assert_eq!(uses(&harness, &[first, later]).await, []);
    detach(&harness, &cluster, given).await;
}

#[tokio::test]
async fn detaching_a_command_ends_the_use_of_an_earlier_command_of_its_name() {
    let harness = Harness::open().await;
    let cluster = harness.cluster("fred").await;
    let first = bob(&harness, AppKind::Command, Fake::instance_id(), 1, Some(&cluster)).await;
    bob(&harness, AppKind::Command, Fake::instance_id(), 2, None).await;
    detach(&harness, &cluster, "bob").await;
    assert_eq!(uses(&harness, &[first]).await, []);
}

#[tokio::test]
async fn detaching_an_app_that_never_was_is_not_found() {
    let harness = Harness::open().await;
    let cluster = harness.cluster("fred").await;
    bob(&harness, AppKind::Job, InstanceId::new("other", "test"), 1, None).await;
    let access = changing("demo", Role::Member);
    let refused = harness.service.change_app_use(&access, &writer(), &cluster, "bob", false).await;
    assert_eq!(refused.expect_err("refused").code.as_deref(), Some("AppNotFound"));
}

async fn uses(harness: &Harness, apps: &[AppId]) -> Vec<AppUse> {
    harness.service.engine().store().app_uses(apps).await.expect("the uses")
}

fn writer() -> Writer {
    Writer { principal: sample::principal(), door: Door::Core, request_id: String::new(), named: None }
}

async fn detach(harness: &Harness, cluster: &Cluster, given: &str) {
    let access = changing("demo", Role::Member);
    let detached = harness.service.change_app_use(&access, &writer(), cluster, given, false).await;
    assert_eq!(detached.expect("detached").app.name, "bob");
}

#[rstest]
#[case("bob", None)]
#[case("command/bob", None)]
#[case("deploy/bob", Some("app 'deploy/bob' is a Deployment, but an app with a process must be a command: "))]
#[case("pod/bob", Some("app 'pod/bob' is a Pod, but an app with a process must be a command: "))]
#[tokio::test]
async fn a_process_is_not_registered_as_an_object_of_kubernetes(
    #[case] app: &str,
    #[case] begins: Option<&str>,
) {
    let harness = Harness::open().await;
    let unknown = UnknownFields::default();
    let process = Some(Process { pid: 1, start_time: 1, boot_id: "boot".to_owned(), unknown });
    let registration = Registration { app, process, cluster: "", across_rollouts: false };
    let access = changing("demo", Role::Member);
    let registered = harness.service.register_app(&access, &Fake::instance_id(), "demo", registration).await;
    match (registered, begins) {
        (Ok(registered), None) => {
            assert_eq!((registered.app.kind, registered.app.name.as_str()), (AppKind::Command, "bob"));
        }
        (Err(refused), Some(begins)) => {
            assert!(refused.message.starts_with(begins), "{refused}");
            assert_eq!((refused.kind, refused.code.as_deref()), (ErrorKind::Invalid, Some("NotACommand")));
        }
        (registered, _) => panic!("{registered:?}"),
    }
}

/// A Deployment with its ReplicaSet, and a cluster, on a provider that has apps.
struct Rollout {
    harness: Harness,
    operators: Arc<OperatorWorld>,
    replica_set: AppIdentity,
    deployment: AppIdentity,
    cluster: Cluster,
}

impl Rollout {
    /// With a cluster that belongs to the Deployment, or is shared.
    async fn with_cluster(is_ephemeral: bool) -> Self {
        let operators = Arc::new(OperatorWorld::default());
        let harness = Harness::with(Config::default(), |_| Arc::new(Operated::new(&operators))).await;
        let identity = |kind: AppKind, name: &str| AppIdentity {
            namespace: "demo".to_owned(),
            kind,
            name: name.to_owned(),
            uid: Uuid::now_v7().to_string(),
        };
        let deployment = identity(AppKind::Deployment, "bob");
        let replica_set = identity(AppKind::ReplicaSet, "bob-7f6c");
        operators.apps.wants(&deployment, 1);
        operators.apps.wants(&replica_set, 1);
        operators.apps.is_rollout_of(&replica_set, &deployment);
        let mark = is_ephemeral.then(|| EphemeralMark {
            app: deployment.name.clone(),
            kind: Some(deployment.kind),
            uid: deployment.uid.clone(),
            unknown: UnknownFields::default(),
        });
        let kind = OPERATED_CLUSTER.parse().expect("a profile type");
        let profile = Profile { id: ProfileId::from_uuid(Uuid::now_v7()), kind, ..sample::profile() };
        let cluster = Cluster {
            id: ClusterId::from_uuid(Uuid::now_v7()),
            name: "fred".to_owned(),
            instance: Operated::instance_id(),
            profile_id: profile.id,
            profile_type: profile.kind.clone(),
            ephemeral: mark.map(Box::new),
            ..sample::cluster(0, 0, None)
        };
        let service = &harness.service;
        let mutation =
            Mutation { access: changing("demo", Role::Member), caller: caller(Door::Core), wait: REACHED };
        let submit = Box::pin(service.create_cluster(&mutation.caller, cluster, Recipe::New(profile), true));
        let (cluster, _) = service.mutate::<ServiceError>(&mutation, submit).await.expect("created");
        Self { harness, operators, replica_set, deployment, cluster }
    }

    async fn change(&self, given: &str, uses: bool) -> Result<(), ServiceError> {
        let access = changing("demo", Role::Member);
        let changed =
            self.harness.service.change_app_use(&access, &writer(), &self.cluster, given, uses).await;
        changed.map(drop)
    }
}

#[tokio::test]
async fn a_rollout_owns_the_cluster_of_its_deployment() {
    let scenario = Rollout::with_cluster(true).await;
    for given in ["bob-7f6c", "rs/bob-7f6c"] {
        scenario.change(given, true).await.expect("it uses the cluster already");
        let refused = scenario.change(given, false).await.expect_err("it cannot leave");
        assert_eq!(refused.code.as_deref(), Some("OwnEphemeralCluster"));
        assert!(refused.message.contains("ends with app Deployment/bob"), "{refused}");
    }
    let stranger = AppIdentity {
        name: "ann-1".to_owned(),
        uid: Uuid::now_v7().to_string(),
        ..scenario.replica_set.clone()
    };
    scenario.operators.apps.wants(&stranger, 1);
    let refused = scenario.change("ann-1", true).await.expect_err("it is another app");
    assert_eq!(refused.code.as_deref(), Some("OfAnotherApp"));
}

#[tokio::test]
async fn an_app_that_is_being_deleted_gets_no_cluster() {
    let scenario = Rollout::with_cluster(false).await;
    scenario.change("bob-7f6c", true).await.expect("attached");
    scenario.operators.apps.is_gone(&scenario.replica_set, true);
    scenario.operators.apps.is_gone(&scenario.deployment, true);
    let is_refused = |refused: ServiceError| {
        assert_eq!((refused.kind, refused.code.as_deref()), (ErrorKind::Impossible, Some("AppGone")));
    };
    is_refused(scenario.change("bob-7f6c", true).await.expect_err("it is gone"));
    let (service, access) = (&scenario.harness.service, changing("demo", Role::Member));
    for across_rollouts in [false, true] {
        let created =
            service.app_of_new_cluster(&access, &scenario.cluster, "bob-7f6c", true, across_rollouts).await;
        is_refused(created.expect_err("it is gone"));
    }
    let registration =
        Registration { app: "bob-7f6c", process: None, cluster: "fred", across_rollouts: false };
    let registered = service.register_app(&access, &Operated::instance_id(), "demo", registration).await;
    is_refused(registered.expect_err("it is gone"));
    scenario.change("bob-7f6c", false).await.expect("an app that is gone can be detached");
    scenario.operators.apps.wants(&scenario.replica_set, 1);
    scenario.change("bob-7f6c", true).await.expect("it is back");
}
