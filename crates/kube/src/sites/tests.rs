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
fn what_a_watch_tells_late_is_passed_over() {
    let (sites, _) = complete();
    let watched = &kuberay().watched()[0];
    sites.take_object(watched, &root(7, 3), true);
    sites.take_object(watched, &root(6, 2), true);
    assert_eq!(desired(&sites), Some(3));
    sites.take_object(watched, &root(8, 2), true);
    assert_eq!(desired(&sites), Some(2));
}

#[test]
fn what_is_gone_does_not_come_back_with_a_late_answer() {
    let (sites, _) = complete();
    let watched = &kuberay().watched()[0];
    sites.take_object(watched, &root(7, 3), true);
    sites.drop_object(watched, &root(9, 3));
    sites.take_object(watched, &root(8, 3), true);
    assert_eq!(desired(&sites), None);
}

#[test]
fn what_is_not_in_a_complete_list_is_gone_unless_it_was_written_since() {
    let (sites, _) = complete();
    let watched = &kuberay().watched()[0];
    sites.take_object(watched, &root(7, 3), true);
    let begun = sites.begin();
    sites.complete(&roots(), begun);
    assert_eq!(desired(&sites), None);
    let begun = sites.begin();
    sites.take_object(watched, &root(8, 4), true);
    sites.complete(&roots(), begun);
    assert_eq!(desired(&sites), Some(4));
}

#[test]
fn changes_are_told_once() {
    let (sites, mut told) = complete();
    assert_eq!(told.try_recv(), Ok(WorldChange::Everything));
    let watched = &kuberay().watched()[0];
    let id: ClusterId = UID.parse().expect("an id");
    sites.take_object(watched, &root(7, 3), true);
    sites.take_object(watched, &root(7, 3), true);
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
    sites.take_object(&kuberay().watched()[0], &root(1, 3), true);
    assert_eq!((desired(&sites), sites.clusters().len()), (Some(3), 1));
    let closed = Key { namespace: "closed".to_owned(), ..key() };
    assert_eq!(sites.look(&closed).expect_err("unknown").message, "forbidden");
}
