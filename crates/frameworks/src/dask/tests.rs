use muster_core::quantity::{Cpu, Memory};
use muster_core::time::Timestamp;
use rstest::rstest;

use super::*;
use crate::sample::{after, contact, seat};

/// As Dask 2026.8.0 wrote it.
const FILE: &[u8] = br#"{
  "type": "Scheduler",
  "id": "Scheduler-f8562504-d38f-41db-91de-4debcdf452f4",
  "address": "tcp://127.0.0.1:39147",
  "services": { "dashboard": 44645 },
  "started": 1794728367.7432055,
  "n_workers": 0, "total_threads": 0, "total_memory": 0, "workers": {}
}"#;

fn head() -> Contact {
    contact(endpoints(FILE).unwrap())
}

#[test]
fn a_scheduler_tells_where_it_answers() {
    let head = head();
    assert_eq!(head.endpoints.get(Endpoints::ADDRESS), Some("tcp://127.0.0.1:39147"));
    assert_eq!(head.endpoints.get(Endpoints::DASHBOARD), Some("http://127.0.0.1:44645/status"));
    assert_eq!(Dask.ask_workers(&head), Ask::get("http://127.0.0.1:44645/api/v1/get_workers".to_owned()));
    let environment = Dask.client_environment(&head, "/venv/bin/python");
    assert_eq!(environment["DASK_SCHEDULER_ADDRESS"], "tcp://127.0.0.1:39147");
}

#[test]
fn a_file_that_is_half_written_is_unreadable() {
    assert!(endpoints(&FILE[..60]).is_err());
    assert!(endpoints(b"").is_err());
}

#[test]
fn ports_are_any_at_first_and_the_same_afterwards() {
    let shape = Shape::default();
    let first = Dask.head(seat(&shape), &Ports::new());
    assert_eq!((after(&first, "--port"), after(&first, "--dashboard-address")), ("0", "127.0.0.1:0"));
    let ports = Dask.ports(&head().endpoints);
    let second = Dask.head(seat(&shape), &ports);
    assert_eq!(
        (after(&second, "--port"), after(&second, "--dashboard-address")),
        ("39147", "127.0.0.1:44645")
    );
}

#[rstest]
#[case(None, None, "1", "auto")]
#[case(Some(2000), Some(512 << 20), "2", "536870912")]
#[case(Some(1500), None, "2", "auto")]
#[case(Some(100), None, "1", "auto")]
fn a_worker_is_given_its_shape(
    #[case] millis: Option<u64>,
    #[case] bytes: Option<u64>,
    #[case] threads: &str,
    #[case] memory: &str,
) {
    let shape = Shape {
        cpu: millis.map(Cpu::from_millis),
        memory: bytes.map(Memory::from_bytes),
        ..Shape::default()
    };
    let launch = Dask.worker(seat(&shape), &head());
    assert_eq!(launch.command[4], "tcp://127.0.0.1:39147");
    assert_eq!((after(&launch, "--nthreads"), after(&launch, "--memory-limit")), (threads, memory));
    assert_eq!((after(&launch, "--name"), after(&launch, "--local-directory")), ("w-1", "/node"));
    assert_eq!(launch.environment[SCRATCH], "/node");
}

#[test]
fn workers_are_counted_by_the_scheduler() {
    let answer = br#"{"num_workers": 2, "workers": [
        {"address": "tcp://127.0.0.1:40001", "name": "w-1"}, {"address": "tcp://127.0.0.1:40002", "name": 7}]}"#;
    let workers = Dask.workers(answer).unwrap();
    let expected = [("w-1", "tcp://127.0.0.1:40001"), ("7", "tcp://127.0.0.1:40002")];
    let seen: Vec<(&str, &str)> =
        workers.iter().map(|worker| (worker.name.as_str(), worker.address.as_str())).collect();
    assert_eq!(seen, expected);
    assert!(Dask.workers(b"404: Not Found").is_err());
}

#[test]
fn a_worker_is_as_loaded_as_it_has_tasks_to_finish() {
    let answer = br#"{"type": "Scheduler", "workers": {
        "tcp://127.0.0.1:1": {"name": "w-1", "metrics": {"task_counts": {"executing": 1, "ready": 2, "memory": 9}}},
        "tcp://127.0.0.1:2": {"name": "w-2", "metrics": {"task_counts": {"memory": 3}}},
        "tcp://127.0.0.1:3": {"name": "w-3", "metrics": {}}}}"#;
    assert_eq!(Dask.load(answer).unwrap(), HashMap::from([("tcp://127.0.0.1:1".to_owned(), 3)]));
    assert_eq!(Dask.ask_load(&head())[0].url, "http://127.0.0.1:44645/json/identity.json");
}

#[rstest]
#[case(
    br#"{"idle_since": 1794728367.5}"#,
    Activity::IdleSince(Timestamp::from_micros(1_794_728_367_500_000))
)]
#[case(br#"{"idle_since": null}"#, Activity::Busy)]
#[case(br#"{"idle_since": -1}"#, Activity::Unknown)]
#[case(b"<html>", Activity::Unknown)]
fn what_is_not_known_to_be_idle_is_not(#[case] answer: &[u8], #[case] expected: Activity) {
    assert_eq!(Dask.activity(answer), expected);
}

#[test]
fn those_that_were_let_go_are_named_by_their_addresses() {
    let (head, python) = (head(), "/venv/bin/python");
    let workers = [LiveWorker { name: "w-1".to_owned(), address: "tcp://127.0.0.1:1".to_owned() }];
    let drain = Dask.retire(Retirement { head: &head, workers: &workers, python, within: 300 });
    let Tell::Run(drain) = drain else { panic!("a program drains them") };
    assert_eq!(
        (after(&drain, DRAIN), drain.command[6].as_str()),
        ("tcp://127.0.0.1:39147", "tcp://127.0.0.1:1")
    );
    let answer = br#"["tcp://127.0.0.1:1"]"#;
    assert_eq!(Dask.retired(&[], answer).unwrap(), HashSet::from(["tcp://127.0.0.1:1".to_owned()]));
    assert_eq!(Dask.retired(&[], b"[]").unwrap(), HashSet::new(), "what it holds could not be moved");
    assert!(Dask.retired(&[], b"{}").is_err());
}
