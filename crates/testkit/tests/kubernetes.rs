//! The properties of the testbed's Kubernetes that tests rely on.

#![expect(clippy::unwrap_used, reason = "helpers of tests may stop at what they did not expect")]

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use tokio::time::timeout;

const SOON: Duration = Duration::from_mins(1);

fn is_running_and_ready(pod: &Pod) -> bool {
    let status = pod.status.clone().unwrap_or_default();
    let ready = |c: &k8s_openapi::api::core::v1::PodCondition| c.type_ == "Ready" && c.status == "True";
    status.phase.as_deref() == Some("Running") && status.conditions.unwrap_or_default().iter().any(ready)
}

fn deployment(name: &str, replicas: i32) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.test/main:1"}]},
            },
        },
    }))
    .unwrap()
}

/// Returns once every node has renewed its lease twice: such a node does not count as lost.
async fn leases_are_renewed(client: kube::Client) {
    let nodes = Api::<Node>::all(client.clone()).list_metadata(&ListParams::default()).await.unwrap();
    let mut renewals: BTreeMap<_, _> = nodes.iter().map(|node| (node.name_any(), BTreeSet::new())).collect();
    assert!(!renewals.is_empty());
    let leases = Api::<Lease>::namespaced(client, "kube-node-lease");
    let mut changes = pin!(watcher(leases, watcher::Config::default()).applied_objects());
    // The first time comes from the list, and two renewals follow.
    while renewals.values().any(|times| times.len() < 3) {
        let lease = changes.try_next().await.expect("the watch holds").expect("it continues");
        let time = lease.spec.as_ref().and_then(|spec| spec.renew_time.clone());
        if let (Some(times), Some(time)) = (renewals.get_mut(&lease.name_any()), time) {
            times.insert(time.0);
        }
    }
}

#[tokio::test]
async fn a_deployments_pods_become_running_on_kwok_nodes_and_stay_so_while_the_nodes_renew_their_leases() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let namespace = kubernetes.namespace().await;
    let deployments = namespace.api::<Deployment>();
    deployments.create(&PostParams::default(), &deployment("web", 20)).await.unwrap();
    namespace
        .wait("20 pods are ready", &deployments, "web", SOON, |web| {
            web.status.as_ref().and_then(|status| status.ready_replicas) == Some(20)
        })
        .await;

    let mut running = BTreeMap::new();
    let mut changes = pin!(watcher(namespace.api::<Pod>(), watcher::Config::default()));
    let stay = async {
        while let Some(change) = changes.next().await {
            match change.expect("the watch holds") {
                Event::Init | Event::InitDone => {}
                Event::Delete(pod) => panic!("{} is gone", pod.name_any()),
                Event::Apply(pod) | Event::InitApply(pod) => {
                    assert!(is_running_and_ready(&pod), "{} left Running: {:?}", pod.name_any(), pod.status);
                    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
                    running.insert(pod.name_any(), node);
                }
            }
        }
        panic!("the watch ended");
    };
    tokio::select! {
        () = stay => {}
        renewed = timeout(SOON, leases_are_renewed(kubernetes.client())) => renewed.expect("nodes renew their leases"),
    }

    assert_eq!(running.len(), 20, "{running:?}");
    assert!(running.values().all(|node| node.starts_with("node-")), "{running:?}");
}

#[tokio::test]
async fn a_watch_sees_every_change() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let namespace = kubernetes.namespace().await;
    let maps = namespace.api::<ConfigMap>();
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "counter"}})).unwrap();
    let made = maps.create(&PostParams::default(), &map).await.unwrap();

    let only_counter = WatchParams::default().fields("metadata.name=counter");
    let watch = maps.watch(&only_counter, &made.resource_version().unwrap()).await.unwrap();
    let mut written = Vec::new();
    for count in 0..50 {
        let patch = Patch::Merge(json!({"data": {"count": count.to_string()}}));
        let map = maps.patch("counter", &PatchParams::default(), &patch).await.unwrap();
        written.push((count.to_string(), map.resource_version().unwrap()));
    }

    let seen = watch.take(written.len()).map_ok(|event| match event {
        WatchEvent::Modified(map) => {
            let count = map.data.as_ref().and_then(|data| data.get("count")).cloned();
            (count.unwrap_or_default(), map.resource_version().unwrap())
        }
        other => panic!("nothing but changes was made: {other:?}"),
    });
    let seen: Vec<_> = timeout(SOON, seen.try_collect()).await.expect("50 changes are seen").unwrap();
    assert_eq!(seen, written);
}

#[tokio::test]
async fn a_namespace_is_gone_after_its_test() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let watcher = kubernetes.namespace().await;
    let namespace = kubernetes.namespace().await;
    let name = namespace.name().to_owned();
    let pods = namespace.api::<Pod>();
    for (pod, driver) in [("ordinary", "false"), ("driver", "true")] {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": pod, "labels": {"muster.test/driver": driver}},
            "spec": {"containers": [{"name": "main", "image": "example.test/main:1"}]},
        }))
        .unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    namespace.wait("it runs", &pods, "ordinary", SOON, is_running_and_ready).await;

    drop(namespace);

    let namespaces: Api<Namespace> = Api::all(kubernetes.client());
    watcher.wait_gone("a dropped namespace is deleted, driver's pod and all", &namespaces, &name, SOON).await;
}

#[tokio::test]
async fn a_pod_with_the_drivers_label_is_left_alone_by_kwok() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let namespace = kubernetes.namespace().await;
    let pods = namespace.api::<Pod>();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "driver", "labels": {"muster.test/driver": "true"}},
        "spec": {"containers": [{"name": "main", "image": "example.test/main:1"}]},
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let scheduled = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    namespace.wait("the scheduler gives it a node", &pods, "driver", SOON, scheduled).await;

    let running = Patch::Merge(json!({"status": {"phase": "Running", "reason": "PlayedByATest"}}));
    pods.patch_status("driver", &PatchParams::default(), &running).await.unwrap();
    pods.delete("driver", &DeleteParams::default()).await.unwrap();

    let dying = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let pod = namespace.wait("it is being deleted and stays", &pods, "driver", SOON, dying).await;
    assert_eq!(pod.status.unwrap().reason.as_deref(), Some("PlayedByATest"));
}

#[tokio::test]
async fn a_service_account_without_rights_is_refused() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let namespace = kubernetes.namespace().await;
    let accounts = namespace.api::<ServiceAccount>();
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "stranger"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = TokenRequest::default();
    let issued = accounts.create_token_request("stranger", &PostParams::default(), &request).await.unwrap();

    let client = kubernetes.client_with_token(&issued.status.unwrap().token).await;
    let pods: Api<Pod> = Api::namespaced(client, namespace.name());
    let refusal = pods.list(&ListParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = refusal else { panic!("not an answer of the API server: {refusal}") };
    assert_eq!(status.code, 403, "{status:?}");
    let stranger = format!("system:serviceaccount:{}:stranger", namespace.name());
    assert!(status.message.contains(&stranger), "{status:?}");
}

#[tokio::test]
async fn a_wait_in_vain_shows_what_a_person_would_look_at() {
    let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    let namespace = kubernetes.namespace().await;
    let pods = namespace.api::<Pod>();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "giant"},
        "spec": {"containers": [{
            "name": "main", "image": "example.test/main:1", "resources": {"requests": {"cpu": "1000"}},
        }]},
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let unschedulable = |pod: &Pod| {
        let conditions =
            pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        conditions.iter().any(|condition| condition.reason.as_deref() == Some("Unschedulable"))
    };
    namespace.wait("the scheduler finds no node", &pods, "giant", SOON, unschedulable).await;
    namespace_event(&namespace, "FailedScheduling").await;

    let name = namespace.name().to_owned();
    let in_vain = tokio::spawn(async move {
        namespace.wait("it runs", &pods, "giant", Duration::from_millis(200), is_running_and_ready).await
    });
    let panic = in_vain.await.unwrap_err().into_panic();
    let report = panic.downcast_ref::<String>().unwrap();

    let expected = [
        &format!("waited 200ms in vain for giant in {name}: it runs"),
        "  name: giant",
        "Warning FailedScheduling Pod/giant: 0/3 nodes are available",
        "giant Pending PodScheduled=False(Unschedulable)",
        "--- the last lines of kube-scheduler",
    ];
    let absent: BTreeSet<_> = expected.into_iter().filter(|words| !report.contains(*words)).collect();
    assert!(absent.is_empty(), "{absent:?} are absent from:\n{report}");
}

/// Waits for an event with this reason: the scheduler writes it a moment after the pod's condition.
async fn namespace_event(namespace: &muster_testkit::Namespace, reason: &str) {
    let events = namespace.api::<k8s_openapi::api::core::v1::Event>();
    let with_reason = watcher::Config::default().fields(&format!("reason={reason}"));
    let mut changes = pin!(watcher(events, with_reason));
    timeout(SOON, async {
        while !matches!(changes.next().await, Some(Ok(Event::Apply(_) | Event::InitApply(_)))) {}
    })
    .await
    .expect("the event is written");
}
