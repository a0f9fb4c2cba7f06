use muster_core::quantity::{Cpu, Memory};
use muster_core::time::Timestamp;
use rstest::rstest;

use super::*;
use crate::sample::{argument_after, head_access, launch_context};

/// A file of Dask 2026.8.0.
const FILE: &[u8] = br#"{
  "type": "Scheduler",
  "id": "Scheduler-f8562504-d38f-41db-91de-4debcdf452f4",
  "address": "tcp://127.0.0.1:39147",
  "services": { "dashboard": 44645 },
  "started": 1794728367.7432055,
  "n_workers": 0, "total_threads": 0, "total_memory": 0, "workers": {}
}"#;

fn head() -> HeadAccess {
    head_access(endpoints(FILE).unwrap())
}

#[test]
fn the_file_of_a_scheduler_has_its_endpoints() {
    let head = head();
    assert_eq!(head.endpoints.get(Endpoints::ADDRESS), Some("tcp://127.0.0.1:39147"));
    assert_eq!(head.endpoints.get(Endpoints::DASHBOARD), Some("http://127.0.0.1:44645/status"));
    assert_eq!(
        Dask.workers_request(&head),
        FrameworkRequest::get("http://127.0.0.1:44645/api/v1/get_workers".to_owned())
    );
    let environment = Dask.client_environment(&head, "/venv/bin/python");
    assert_eq!(environment["DASK_SCHEDULER_ADDRESS"], "tcp://127.0.0.1:39147");
}

#[test]
fn a_file_that_is_half_written_is_unreadable() {
    assert!(endpoints(&FILE[..60]).is_err());
    assert!(endpoints(b"").is_err());
}

#[test]
fn a_head_picks_its_ports_and_the_next_one_reuses_them() {
    let shape = Shape::default();
    let first = Dask.head_process(launch_context(&shape), &HeadPorts::new());
    assert_eq!(
        (argument_after(&first, "--port"), argument_after(&first, "--dashboard-address")),
        ("0", "127.0.0.1:0")
    );
    let ports = Dask.reusable_ports(&head().endpoints);
    let second = Dask.head_process(launch_context(&shape), &ports);
    assert_eq!(
        (argument_after(&second, "--port"), argument_after(&second, "--dashboard-address")),
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
    let process = Dask.worker_process(launch_context(&shape), &head());
    assert_eq!(process.command[4], "tcp://127.0.0.1:39147");
    assert_eq!(
        (argument_after(&process, "--nthreads"), argument_after(&process, "--memory-limit")),
        (threads, memory)
    );
    assert_eq!(
        (argument_after(&process, "--name"), argument_after(&process, "--local-directory")),
        ("w-1", "/node")
    );
    assert_eq!(process.environment[SCRATCH], "/node");
}

#[test]
fn workers_are_those_that_the_scheduler_lists() {
    let response = br#"{"num_workers": 2, "workers": [
        {"address": "tcp://127.0.0.1:40001", "name": "w-1"}, {"address": "tcp://127.0.0.1:40002", "name": 7}]}"#;
    let workers = Dask.read_workers(response).unwrap();
    let expected = [("w-1", "tcp://127.0.0.1:40001"), ("7", "tcp://127.0.0.1:40002")];
    let found: Vec<(&str, &str)> =
        workers.iter().map(|worker| (worker.name.as_str(), worker.address.as_str())).collect();
    assert_eq!(found, expected);
    assert!(Dask.read_workers(b"404: Not Found").is_err());
}

#[test]
fn the_load_of_a_worker_is_the_number_of_its_unfinished_tasks() {
    let response = br#"{"type": "Scheduler", "workers": {
        "tcp://127.0.0.1:1": {"name": "w-1", "metrics": {"task_counts": {"executing": 1, "ready": 2, "memory": 9}}},
        "tcp://127.0.0.1:2": {"name": "w-2", "metrics": {"task_counts": {"memory": 3}}},
        "tcp://127.0.0.1:3": {"name": "w-3", "metrics": {}}}}"#;
    assert_eq!(Dask.read_load(response).unwrap(), HashMap::from([("tcp://127.0.0.1:1".to_owned(), 3)]));
    assert_eq!(Dask.load_requests(&head())[0].url, "http://127.0.0.1:44645/json/identity.json");
}

#[rstest]
#[case(
    br#"{"idle_since": 1794728367.5}"#,
    Activity::IdleSince(Timestamp::from_micros(1_794_728_367_500_000))
)]
#[case(br#"{"idle_since": null}"#, Activity::Busy)]
#[case(br#"{"idle_since": -1}"#, Activity::Unknown)]
#[case(b"<html>", Activity::Unknown)]
fn activity_is_unknown_unless_the_scheduler_reports_it(#[case] response: &[u8], #[case] expected: Activity) {
    assert_eq!(Dask.read_activity(response), expected);
}

#[test]
fn retired_workers_are_named_by_their_addresses() {
    let (head, python) = (head(), "/venv/bin/python");
    let workers = [LiveWorker { name: "w-1".to_owned(), address: "tcp://127.0.0.1:1".to_owned() }];
    let drain = Dask.retire_workers(WorkerRetirement { head: &head, workers: &workers, python, within: 300 });
    let HeadCommand::Program(drain) = drain else { panic!("a program drains them") };
    assert_eq!(
        (argument_after(&drain, DRAIN), drain.command[6].as_str()),
        ("tcp://127.0.0.1:39147", "tcp://127.0.0.1:1")
    );
    let response = br#"["tcp://127.0.0.1:1"]"#;
    assert_eq!(Dask.read_retired(&[], response).unwrap(), HashSet::from(["tcp://127.0.0.1:1".to_owned()]));
    assert_eq!(Dask.read_retired(&[], b"[]").unwrap(), HashSet::new(), "what it holds could not be moved");
    assert!(Dask.read_retired(&[], b"{}").is_err());
}
