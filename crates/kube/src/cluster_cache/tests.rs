use muster_core::time::TimeSpan;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_frameworks::kubernetes::flavors;
use serde_json::json;

use super::*;

const UID: &str = "0190f3a2-7b1c-4d4e-8f00-000000000001";

fn kuberay() -> &'static dyn Flavor {
    *flavors().iter().find(|flavor| flavor.name() == "kuberay").expect("the flavor exists")
}

fn roots() -> FlavorWatch {
    FlavorWatch { index: 0, target: WatchTarget::Objects(&kuberay().watched_kinds()[0]), namespace: None }
}

fn key() -> ClusterKey {
    ClusterKey { namespace: "demo".to_owned(), name: "fred".to_owned() }
}

fn root(version: u32, replicas: u32) -> Value {
    let metadata =
        json!({"name": "fred", "namespace": "demo", "uid": UID, "resourceVersion": version.to_string()});
    let spec = json!({"workerGroupSpecs": [{"groupName": "g", "replicas": replicas}]});
    json!({"metadata": metadata, "spec": spec, "status": {"state": "ready"}})
}

/// A cache whose only watch is in sync, and the changes that it publishes.
fn synced() -> (ClusterCache, broadcast::Receiver<WorldChange>) {
    let (changes, published) = broadcast::channel(16);
    let cache = ClusterCache::new(kuberay(), &[roots()], changes);
    cache.mark_synced(&roots(), cache.next_epoch());
    (cache, published)
}

fn desired(cache: &ClusterCache) -> Option<u32> {
    let cached = cache.snapshot(&key()).expect("the watch is in sync");
    cached.root.map(|root| root.value.projection.groups[0].desired)
}

#[test]
fn a_cluster_is_unknown_until_the_watch_is_in_sync() {
    let cache = ClusterCache::new(kuberay(), &[roots()], broadcast::channel(1).0);
    assert!(cache.snapshot(&key()).is_err());
    let (cache, _) = synced();
    assert_eq!(desired(&cache), None);
    cache.mark_stale(&roots(), "it does not answer".to_owned());
    assert_eq!(cache.snapshot(&key()).expect_err("the watch is stale").message, "it does not answer");
}

#[test]
fn an_operator_that_does_not_react_to_a_change_is_noticed() {
    let (cache, _) = synced();
    let watched = &kuberay().watched_kinds()[0];
    let at = |version: u32, generation: u32, state: &str| {
        let mut root = root(version, generation);
        root["metadata"]["generation"] = generation.into();
        root["status"]["state"] = state.into();
        root
    };
    let now = || SystemClock.now().after(TimeSpan::from_secs(40));
    let unanswered = || cache.snapshot(&key()).expect("the watch is in sync").unanswered_for(now()).is_some();
    cache.apply_object(None, watched, &at(1, 1, "ready"), true);
    assert!(!unanswered(), "the specification has not changed since its creation");
    cache.apply_object(None, watched, &at(2, 2, "ready"), true);
    assert!(unanswered());
    cache.apply_object(None, watched, &at(1, 1, "ready"), true);
    assert!(unanswered(), "a late report is no sign");
    cache.apply_object(None, watched, &at(3, 2, "other"), true);
    assert!(!unanswered(), "its status was written");
}

/// A worker that is ready.
fn worker(name: &str) -> LeanPod {
    let labels = json!({"ray.io/cluster": "fred", "ray.io/node-type": "worker", "ray.io/group": "g"});
    let metadata =
        json!({"name": name, "namespace": "demo", "uid": name, "resourceVersion": "1", "labels": labels});
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    let pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "ray-worker", "image": "ray"}]},
        "status": {"phase": "Running", "conditions": conditions}});
    serde_json::from_value(pod).expect("a pod")
}

#[test]
fn an_operator_knows_pods_once_its_status_counts_them() {
    let (cache, _) = synced();
    let watched = &kuberay().watched_kinds()[0];
    let counting = |version: u32, workers: Option<u32>| {
        let mut root = root(version, 1);
        root["status"]["availableWorkerReplicas"] = workers.into();
        root
    };
    let is_known = || cache.snapshot(&key()).expect("the watch is in sync").is_known_to_operator();
    cache.apply_object(None, watched, &counting(1, None), true);
    assert!(is_known(), "there are no pods");
    cache.apply_pod(None, worker("w"), true);
    assert!(!is_known());
    cache.apply_object(None, watched, &counting(2, Some(1)), true);
    assert!(is_known());
}

#[test]
fn a_late_report_is_ignored() {
    let (cache, _) = synced();
    let watched = &kuberay().watched_kinds()[0];
    cache.apply_object(None, watched, &root(7, 3), true);
    cache.apply_object(None, watched, &root(6, 2), true);
    assert_eq!(desired(&cache), Some(3));
    cache.apply_object(None, watched, &root(8, 2), true);
    assert_eq!(desired(&cache), Some(2));
}

#[test]
fn a_restored_kubernetes_has_lower_versions() {
    let (cache, _) = synced();
    let watched = &kuberay().watched_kinds()[0];
    cache.apply_object(None, watched, &root(7, 3), true);
    let begun = cache.next_epoch();
    cache.apply_object(Some(begun), watched, &root(6, 2), true);
    assert_eq!(desired(&cache), Some(2), "a list counts more than an earlier report");
    let begun = cache.next_epoch();
    cache.apply_object(None, watched, &root(9, 4), true);
    cache.apply_object(Some(begun), watched, &root(8, 3), true);
    assert_eq!(desired(&cache), Some(4), "a write during the list counts more than the list");
}

#[test]
fn a_late_report_does_not_restore_a_deleted_object() {
    let (cache, _) = synced();
    let watched = &kuberay().watched_kinds()[0];
    cache.apply_object(None, watched, &root(7, 3), true);
    cache.delete_object(watched, &root(9, 3));
    cache.apply_object(None, watched, &root(8, 3), true);
    assert_eq!(desired(&cache), None);
}

#[test]
fn an_object_that_a_complete_list_lacks_is_removed_unless_it_was_written_since() {
    let (cache, _) = synced();
    let watched = &kuberay().watched_kinds()[0];
    cache.apply_object(None, watched, &root(7, 3), true);
    let begun = cache.next_epoch();
    cache.mark_synced(&roots(), begun);
    assert_eq!(desired(&cache), None);
    let begun = cache.next_epoch();
    cache.apply_object(None, watched, &root(8, 4), true);
    cache.mark_synced(&roots(), begun);
    assert_eq!(desired(&cache), Some(4));
}

#[test]
fn a_change_is_published_once() {
    let (cache, mut published) = synced();
    assert_eq!(published.try_recv(), Ok(WorldChange::Everything));
    let watched = &kuberay().watched_kinds()[0];
    let id: ClusterId = UID.parse().expect("an id");
    cache.apply_object(None, watched, &root(7, 3), true);
    cache.apply_object(None, watched, &root(7, 3), true);
    assert_eq!(published.try_recv(), Ok(WorldChange::Cluster(id)));
    assert!(published.try_recv().is_err());
}

#[test]
fn a_namespace_that_cannot_be_watched_leaves_the_others_known() {
    let watch =
        |index, namespace: &str| FlavorWatch { index, namespace: Some(namespace.to_owned()), ..roots() };
    let watches = [watch(0, "closed"), watch(1, "demo")];
    let cache = ClusterCache::new(kuberay(), &watches, broadcast::channel(16).0);
    cache.mark_synced(&watches[1], cache.next_epoch());
    cache.mark_stale(&watches[0], "forbidden".to_owned());
    cache.apply_object(None, &kuberay().watched_kinds()[0], &root(1, 3), true);
    assert_eq!((desired(&cache), cache.clusters().len()), (Some(3), 1));
    let closed = ClusterKey { namespace: "closed".to_owned(), ..key() };
    assert_eq!(cache.snapshot(&closed).expect_err("unknown").message, "forbidden");
}
