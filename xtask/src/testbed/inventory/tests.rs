use anyhow::anyhow;
use rstest::rstest;

use super::*;

#[test]
fn what_is_missing_for_one_reason_is_one_entry_with_the_reason_first_and_the_log_last() {
    let mut inventory = Inventory::default();
    let error = anyhow!("needs the network (Go modules): building failed\n    dial tcp\n    no such host");
    inventory.lack(vec!["kube-apiserver".into(), "kube-scheduler".into()], &error);
    assert_eq!(
        inventory.table(),
        "The testbed has:\nIt lacks:\n\
         \x20 kube-apiserver, kube-scheduler: needs the network (Go modules): building failed\n\
         \x20   without it, not run: every test on Kubernetes\n\
         \x20   dial tcp\n    no such host\n"
    );
    assert_eq!(inventory.missing["kube-scheduler"], "needs the network (Go modules): building failed");
}

#[rstest]
#[case("kwok", "every test on Kubernetes")]
#[case("python/dask", "the tests with this framework's real processes")]
#[case("domino", "every test with this operator")]
#[case("python/dask-operator", "every test with this operator")]
#[case("postgres", "every test on PostgreSQL")]
#[case("helm", "the tests that ask for it")]
fn a_missing_part_says_which_tests_do_not_run(#[case] part: &str, #[case] tests: &str) {
    assert_eq!(needed_by(part), tests);
}

/// A test of the testkit reads the same file.
const SAMPLE: &str = "crates/testkit/src/testbed/inventory/sample.json";

#[test]
fn it_is_written_as_the_runner_reads_it() {
    let mut inventory = Inventory::default();
    for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        inventory.binaries.insert(name.into(), "/bin/sh".into());
    }
    inventory.python.insert("dask".into(), "/bin/sh".into());
    inventory.crds.insert("domino".into(), "/bin".into());
    inventory.webhooks.insert("domino".into(), "/bin/sh".into());
    inventory.postgres = Some(FoundPostgres::Url("postgres://user:secret@127.0.0.1/postgres".into()));
    inventory.lack(vec!["kwok".into()], &anyhow!("needs Go 1.26, and `go` was not found\nits log"));
    let sample = std::fs::read(crate::layout::root().join(SAMPLE)).unwrap();
    let sample: serde_json::Value = serde_json::from_slice(&sample).unwrap();
    assert_eq!(serde_json::to_value(&inventory).unwrap(), sample);
    let inventory_file = inventory.write_to_memory().unwrap();
    let read: serde_json::Value =
        serde_json::from_slice(&std::fs::read(inventory_file.path()).unwrap()).unwrap();
    assert_eq!(read, sample);
}

#[test]
fn one_part_of_its_own_postgres_is_written_by_its_folder() {
    let json = serde_json::to_value(FoundPostgres::BinDir("/usr/lib/postgresql/15/bin".into())).unwrap();
    assert_eq!(json, serde_json::json!({"bin_dir": "/usr/lib/postgresql/15/bin"}));
}
