use muster_core::time::TimeSpan;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_frameworks::kubernetes::flavors;
use serde_json::json;

use super::*;

const UID: &str = "0190f3a2-7b1c-4d4e-8f00-000000000001";

fn kuberay() -> &'static dyn Flavor {
    *flavors().iter().find(|flavor| flavor.name() == "kuberay").expect("it is known")
}

fn roots() -> Watch {
    Watch { index: 0, of: Of::Objects(&kuberay().watched()[0]), namespace: None }
}

fn key() -> Key {
    Key { namespace: "demo".to_owned(), name: "fred".to_owned() }
}

fn root(version: u32, replicas: u32) -> Value {
    let metadata =
        json!({"name": "fred", "namespace": "demo", "uid": UID, "resourceVersion": version.to_string()});
    let spec = json!({"workerGroupSpecs": [{"groupName": "g", "replicas": replicas}]});
    json!({"metadata": metadata, "spec": spec, "status": {"state": "ready"}})
}

/// Sites whose only watch has told all.
fn complete() -> (Sites, broadcast::Receiver<WorldChange>) {
    let (changes, told) = broadcast::channel(16);
    let sites = Sites::new(kuberay(), &[roots()], changes);
    sites.complete(&roots(), sites.begin());
    (sites, told)
}

fn desired(sites: &Sites) -> Option<u32> {
    let site = sites.look(&key()).expect("all was told");
    site.root.map(|root| root.value.words.groups[0].desired)
}

#[test]
fn nobody_can_tell_until_all_was_told() {
    let sites = Sites::new(kuberay(), &[roots()], broadcast::channel(1).0);
    assert!(sites.look(&key()).is_err());
    let (sites, _) = complete();
    assert_eq!(desired(&sites), None);
    sites.lost(&roots(), "it does not answer".to_owned());
    assert_eq!(sites.look(&key()).expect_err("nobody can").message, "it does not answer");
}

#[test]
fn an_operator_that_shows_no_sign_after_a_change_is_noticed() {
    let (sites, _) = complete();
    let watched = &kuberay().watched()[0];
    let at = |version: u32, generation: u32, state: &str| {
        let mut root = root(version, generation);
        root["metadata"]["generation"] = generation.into();
        root["status"]["state"] = state.into();
        root
    };
    let now = || SystemClock.now().after(TimeSpan::from_secs(40));
    let unanswered = || sites.look(&key()).expect("the watch is in sync").unanswered_for(now()).is_some();
    sites.take_object(None, watched, &at(1, 1, "ready"), true);
    assert!(!unanswered(), "nothing was asked since it was made");
    sites.take_object(None, watched, &at(2, 2, "ready"), true);
    assert!(unanswered());
    sites.take_object(None, watched, &at(1, 1, "ready"), true);
    assert!(unanswered(), "what comes late is no sign");
    sites.take_object(None, watched, &at(3, 2, "other"), true);
    assert!(!unanswered(), "its status was written");
}

/// A worker that works.
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
    let (sites, _) = complete();
    let watched = &kuberay().watched()[0];
    let counting = |version: u32, workers: Option<u32>| {
        let mut root = root(version, 1);
        root["status"]["availableWorkerReplicas"] = workers.into();
        root
    };
    let is_known = || sites.look(&key()).expect("the watch is in sync").is_known_to_operator();
    sites.take_object(None, watched, &counting(1, None), true);
    assert!(is_known(), "there is none");
    sites.take_pod(None, worker("w"), true);
    assert!(!is_known());
    sites.take_object(None, watched, &counting(2, Some(1)), true);
    assert!(is_known());
}

#[test]
fn what_a_watch_tells_late_is_passed_over() {
    let (sites, _) = complete();
    let watched = &kuberay().watched()[0];
    sites.take_object(None, watched, &root(7, 3), true);
    sites.take_object(None, watched, &root(6, 2), true);
    assert_eq!(desired(&sites), Some(3));
    sites.take_object(None, watched, &root(8, 2), true);
    assert_eq!(desired(&sites), Some(2));
}

#[test]
fn a_restored_kubernetes_has_lower_versions() {
    let (sites, _) = complete();
    let watched = &kuberay().watched()[0];
    sites.take_object(None, watched, &root(7, 3), true);
    let begun = sites.begin();
    sites.take_object(Some(begun), watched, &root(6, 2), true);
    assert_eq!(desired(&sites), Some(2), "what is listed is how things are");
    let begun = sites.begin();
    sites.take_object(None, watched, &root(9, 4), true);
    sites.take_object(Some(begun), watched, &root(8, 3), true);
    assert_eq!(desired(&sites), Some(4), "unless something was written while it was listed");
}

#[test]
fn what_is_gone_does_not_come_back_with_a_late_answer() {
    let (sites, _) = complete();
    let watched = &kuberay().watched()[0];
    sites.take_object(None, watched, &root(7, 3), true);
    sites.drop_object(watched, &root(9, 3));
    sites.take_object(None, watched, &root(8, 3), true);
    assert_eq!(desired(&sites), None);
}

#[test]
fn what_is_not_in_a_complete_list_is_gone_unless_it_was_written_since() {
    let (sites, _) = complete();
    let watched = &kuberay().watched()[0];
    sites.take_object(None, watched, &root(7, 3), true);
    let begun = sites.begin();
    sites.complete(&roots(), begun);
    assert_eq!(desired(&sites), None);
    let begun = sites.begin();
    sites.take_object(None, watched, &root(8, 4), true);
    sites.complete(&roots(), begun);
    assert_eq!(desired(&sites), Some(4));
}

#[test]
fn changes_are_told_once() {
    let (sites, mut told) = complete();
    assert_eq!(told.try_recv(), Ok(WorldChange::Everything));
    let watched = &kuberay().watched()[0];
    let id: ClusterId = UID.parse().expect("an id");
    sites.take_object(None, watched, &root(7, 3), true);
    sites.take_object(None, watched, &root(7, 3), true);
    assert_eq!(told.try_recv(), Ok(WorldChange::Cluster(id)));
    assert!(told.try_recv().is_err());
}

#[test]
fn a_namespace_that_cannot_be_watched_leaves_the_others_known() {
    let watch = |index, namespace: &str| Watch { index, namespace: Some(namespace.to_owned()), ..roots() };
    let watches = [watch(0, "closed"), watch(1, "demo")];
    let sites = Sites::new(kuberay(), &watches, broadcast::channel(16).0);
    sites.complete(&watches[1], sites.begin());
    sites.lost(&watches[0], "forbidden".to_owned());
    sites.take_object(None, &kuberay().watched()[0], &root(1, 3), true);
    assert_eq!((desired(&sites), sites.clusters().len()), (Some(3), 1));
    let closed = Key { namespace: "closed".to_owned(), ..key() };
    assert_eq!(sites.look(&closed).expect_err("unknown").message, "forbidden");
}
