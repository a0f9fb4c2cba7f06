use serde_json::json;

use super::*;

fn inventory(value: serde_json::Value) -> TestbedInventory {
    serde_json::from_value(value).unwrap()
}

fn missing<T: std::fmt::Debug>(answer: Result<T, PartProblem>) -> String {
    match answer {
        Err(PartProblem::Missing(why)) => why,
        other => panic!("it is not said to be missing: {other:?}"),
    }
}

#[test]
fn what_is_there_is_found() {
    let here = std::env::current_exe().unwrap();
    let full = inventory(json!({
        "binaries": {"etcd": here, "kube-apiserver": here, "kube-controller-manager": here, "kube-scheduler": here,
            "kwok": here, "helm": here, "domino": here},
        "python": {"dask": here, "dask-operator": here},
        "crds": {"domino": "/", "dask": "/"},
        "webhooks": {"domino": here},
        "postgres": {"bin_dir": "/usr/lib/postgresql/15/bin"},
        "pins": {"etcd": "v3.6.5"},
    }));
    assert_eq!(full.kubernetes().unwrap().etcd, here);
    assert_eq!(full.python("dask").unwrap(), here);
    assert_eq!(full.binary("helm").unwrap(), here);
    let domino = full.operator(Operator::Domino).unwrap();
    assert_eq!((domino.program, domino.webhooks), (here.clone(), Some(here.clone())));
    let dask = full.operator(Operator::Dask).unwrap();
    assert_eq!((dask.program, dask.crds, dask.webhooks), (here.clone(), "/".into(), None));
    assert_eq!(full.postgres().unwrap(), PostgresSource::BinDir("/usr/lib/postgresql/15/bin".into()));
}

#[test]
fn a_postgres_may_belong_to_the_user() {
    let url = "postgres://user:pw@127.0.0.1:5432/postgres";
    let foreign = inventory(json!({"postgres": {"url": url}}));
    assert_eq!(foreign.postgres().unwrap(), PostgresSource::Url(url.to_owned()));
}

#[test]
fn what_xtask_writes_is_read() {
    // A test in xtask asserts that it writes exactly this file.
    let sample: TestbedInventory = serde_json::from_str(include_str!("sample.json")).unwrap();
    assert_eq!(sample.binaries.len(), 4);
    assert_eq!(sample.python("dask").unwrap(), Path::new("/bin/sh"));
    let url = "postgres://user:secret@127.0.0.1/postgres";
    assert_eq!(sample.postgres().unwrap(), PostgresSource::Url(url.to_owned()));
    let why = "Kubernetes is missing here (kwok: needs Go 1.26, and `go` was not found)";
    assert_eq!(missing(sample.kubernetes()), why);
}

#[test]
fn what_is_missing_is_named_with_its_reason_once() {
    let why = "needs Go 1.26 or newer, and `go` was not found";
    let here = std::env::current_exe().unwrap();
    let poor = inventory(json!({
        "binaries": {"etcd": here, "kube-apiserver": here, "kube-controller-manager": here},
        "missing": {"kube-scheduler": why, "kwok": why, "kuberay": why, "python/dask": "needs python3",
            "python/dask-operator": "needs python3", "postgres": "needs root"},
    }));
    let expected = format!("Kubernetes is missing here (kube-scheduler, kwok: {why})");
    assert_eq!(missing(poor.kubernetes()), expected);
    assert_eq!(missing(poor.python("dask")), "python/dask is missing here (python/dask: needs python3)");
    assert_eq!(
        missing(poor.operator(Operator::KubeRay)),
        format!("kuberay is missing here (kuberay: {why})")
    );
    let expected = "crds/dask is missing here (python/dask-operator: needs python3)";
    assert_eq!(missing(poor.crds(Operator::Dask)), expected);
    assert_eq!(missing(poor.postgres()), "PostgreSQL is missing here (postgres: needs root)");
}

#[test]
fn what_is_not_mentioned_is_missing() {
    let why = missing(TestbedInventory::default().postgres());
    assert!(why.contains("run `cargo xtask testbed`"), "{why}");
}

#[test]
fn what_the_inventory_promises_but_is_not_there_is_a_failure() {
    let broken = inventory(json!({"python": {"dask": "/nowhere/bin/python"}}));
    assert!(matches!(broken.python("dask"), Err(PartProblem::Failed(_))));
}
