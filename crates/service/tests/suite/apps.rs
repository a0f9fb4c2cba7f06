//! Apps, and the clusters that they use.

use muster_core::app::{App, AppKind, AppState, AppUse, Process};
use muster_core::cluster::Cluster;
use muster_core::ids::{AppId, InstanceId};
use muster_core::principal::{Door, Role};
use muster_core::sample;
use muster_core::time::Timestamp;
use muster_core::unknown_fields::UnknownFields;
use muster_service::apps::Registration;
use muster_service::{ErrorKind, Writer};
use muster_store::commands::{AppUseChanged, ChangeAppUse, RegisterApp};
use muster_testkit::fake::Fake;
use rstest::rstest;
use uuid::Uuid;

use crate::harness::{Harness, changing};

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
        let attach = ChangeAppUse { app: id, cluster: cluster.id, uses: true, now, events: Vec::new() };
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
    Writer { principal: sample::principal(), door: Door::Core, request_id: String::new() }
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
