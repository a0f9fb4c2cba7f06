use muster_core::quantity::Cpu;
use rstest::rstest;

use super::*;
use crate::sample::{argument_after, head_access, launch_context};

fn ports() -> HeadPorts {
    [(GCS, 23846), (CLIENT, 30725), (DASHBOARD, 29950)]
        .map(|(name, port)| (name.to_owned(), port))
        .into_iter()
        .collect()
}

fn head() -> HeadAccess {
    head_access(endpoints(&ports()))
}

fn has(process: &ProcessSpec, flag: &str) -> bool {
    process.command.iter().any(|word| word == flag)
}

#[test]
fn a_head_listens_on_its_assigned_ports_and_the_next_one_reuses_them() {
    let head = head();
    assert_eq!(head.endpoints.get(Endpoints::ADDRESS), Some("127.0.0.1:23846"));
    assert_eq!(head.endpoints.get("client"), Some("ray://127.0.0.1:30725"));
    assert_eq!(head.endpoints.get(Endpoints::DASHBOARD), Some("http://127.0.0.1:29950"));
    assert_eq!(Ray.reusable_ports(&head.endpoints), ports());
    let shape = Shape::default();
    let process = Ray.head_process(launch_context(&shape), &ports());
    assert!(has(&process, "--head") && has(&process, "--block"));
    assert_eq!(argument_after(&process, "--port"), "23846");
    assert_eq!(argument_after(&process, "--ray-client-server-port"), "30725");
    assert_eq!(
        (argument_after(&process, "--dashboard-host"), argument_after(&process, "--dashboard-port")),
        ("127.0.0.1", "29950")
    );
    assert_eq!(
        (argument_after(&process, "--temp-dir"), argument_after(&process, "--object-spilling-directory")),
        ("/run/c", "/node")
    );
}

#[test]
fn two_clusters_on_a_machine_share_no_port() {
    let shape = Shape::default();
    let (first, worker) = (
        Ray.head_process(launch_context(&shape), &ports()),
        Ray.worker_process(launch_context(&shape), &head()),
    );
    for process in [&first, &worker] {
        for flag in ["--min-worker-port", "--max-worker-port", "--dashboard-agent-listen-port"] {
            assert_eq!(argument_after(process, flag), "0", "{flag}");
        }
        assert_eq!(argument_after(process, "--node-ip-address"), "127.0.0.1");
    }
    for name in ["AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT"] {
        assert_eq!(first.environment[name], "0");
    }
}

#[test]
fn only_the_head_sends_the_output_of_tasks_to_drivers() {
    let shape = Shape::default();
    let worker = Ray.worker_process(launch_context(&shape), &head());
    assert_eq!(argument_after(&worker, "--include-log-monitor"), "false");
    assert!(!has(&Ray.head_process(launch_context(&shape), &ports()), "--include-log-monitor"));
}

#[test]
fn the_load_of_a_worker_is_the_number_of_its_tasks_and_actors() {
    let response = br#"{"result": true, "data": {"result": {"total": 3, "result": [
        {"task_id": "t1", "state": "RUNNING", "node_id": "a1"}, {"task_id": "t2", "state": "RUNNING", "node_id": "a1"},
        {"task_id": "t3", "state": "RUNNING", "node_id": null}]}}}"#;
    assert_eq!(Ray.read_load(response).unwrap(), HashMap::from([("a1".to_owned(), 2)]));
    assert_eq!(Ray.load_requests(&head()).len(), 2, "tasks and actors");
}

#[test]
fn the_secret_is_in_environments_and_headers_and_in_no_command() {
    let (shape, head) = (Shape::default(), head());
    let retirement = WorkerRetirement { head: &head, workers: &[], python: "python", within: 300 };
    let HeadCommand::Program(drain) = Ray.retire_workers(retirement) else { panic!("not a program") };
    for process in [
        Ray.head_process(launch_context(&shape), &ports()),
        Ray.worker_process(launch_context(&shape), &head),
        drain,
    ] {
        assert_eq!(process.environment["RAY_AUTH_MODE"], "token");
        assert_eq!(process.environment["RAY_AUTH_TOKEN"], "abracadabra");
        assert!(!process.command.iter().any(|word| word.contains("abracadabra")));
    }
    let client = Ray.client_environment(&head, "/venv/bin/python");
    assert_eq!(client["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"], "0");
    assert_eq!(client["RAY_ADDRESS"], "127.0.0.1:23846");
    assert_eq!(client["RAY_API_SERVER_ADDRESS"], "http://127.0.0.1:29950");
    assert_eq!((&*client["RAY_AUTH_MODE"], &*client["RAY_AUTH_TOKEN"]), ("token", "abracadabra"));
    for request in
        [Ray.workers_request(&head), Ray.activity_request(&head), Ray.unattended_request(&head).unwrap()]
    {
        assert!(request.url.starts_with("http://127.0.0.1:29950/api/"), "{request:?}");
        assert_eq!(request.bearer.as_ref().map(Secret::reveal), Some("abracadabra"));
    }
}

/// The cpus of a head and of a worker, their gpus and bytes for objects, and the memory of a head and of a worker.
type Given = (&'static str, &'static str, &'static str, &'static str, [&'static str; 2]);

#[rstest]
#[case::memory_in_proportion_to_cpus(None, None, None, ("0", "1", "0", "536870912", ["0", "4294967296"]))]
#[case(Some(2000), Some(10 << 30), Some(1), ("2", "2", "1", "3221225472", ["10737418240"; 2]))]
#[case(Some(1500), None, None, ("2", "2", "0", "536870912", ["8589934592"; 2]))]
#[case::never_more_than_the_machine_has(Some(9000), None, None, ("9", "9", "0", "536870912", ["17179869184"; 2]))]
#[case(Some(100), Some(128 << 20), None, ("1", "1", "0", "83886080", ["134217728"; 2]))]
fn nodes_are_given_their_shape(
    #[case] cpu: Option<u64>,
    #[case] memory: Option<u64>,
    #[case] gpu: Option<u32>,
    #[case] given: Given,
) {
    let (cpu, memory) = (cpu.map(Cpu::from_millis), memory.map(Memory::from_bytes));
    let shape = Shape { cpu, memory, gpu, ..Shape::default() };
    let (of_head, of_worker, gpus, objects, limit) = given;
    let (head, worker) = (
        Ray.head_process(launch_context(&shape), &ports()),
        Ray.worker_process(launch_context(&shape), &head()),
    );
    assert_eq!(
        (argument_after(&head, "--num-cpus"), argument_after(&worker, "--num-cpus")),
        (of_head, of_worker)
    );
    for process in [&head, &worker] {
        assert_eq!(
            (argument_after(process, "--num-gpus"), argument_after(process, "--object-store-memory")),
            (gpus, objects)
        );
    }
    assert_eq!([argument_after(&head, "--memory"), argument_after(&worker, "--memory")], limit);
    assert_eq!(
        (argument_after(&worker, "--address"), argument_after(&worker, "--node-name")),
        ("127.0.0.1:23846", "w-1")
    );
}

/// A response of Ray 2.60.0 after a worker was removed.
const NODES: &[u8] = br#"{"result": true, "msg": "", "data": {"result": {"total": 4, "num_after_truncation": 2, "num_filtered": 2, "result": [
    {"node_id": "3d15e70a70b9510cc30b58d8a109d4ddca08858869a20ad66016e137", "node_ip": "127.0.0.2", "is_head_node": false, "state": "ALIVE", "state_message": null, "node_name": "w-2", "resources_total": {"object_store_memory": 100000000.0, "memory": 21974777600.0, "CPU": 1.0, "node:127.0.0.2": 1.0}, "labels": {"ray.io/node-id": "3d15e70a70b9510cc30b58d8a109d4ddca08858869a20ad66016e137"}},
    {"node_id": "c7995624b479a8de027fddc519ce3eef5ea945951a50162e1211d886", "node_ip": "127.0.0.2", "is_head_node": false, "state": "DEAD", "state_message": "Terminated due to preemption: removed", "node_name": "w-1", "resources_total": {}, "labels": {}},
    {"node_id": "866c7e14b3e78131bb838edc710decd1380b1cd54645f11ee70104ac", "node_ip": "127.0.0.2", "is_head_node": true, "state": "ALIVE", "state_message": null, "node_name": "head-0", "resources_total": {"node:__internal_head__": 1.0, "object_store_memory": 100000000.0, "memory": 23835741952.0, "node:127.0.0.2": 1.0}, "labels": {"ray.io/node-id": "866c7e14b3e78131bb838edc710decd1380b1cd54645f11ee70104ac"}}
    ], "partial_failure_warning": "", "warnings": null}}}"#;

/// A response from before the head's own node had registered.
const TOO_EARLY: &[u8] = br#"{"result": true, "msg": "", "data": {"result": {"total": 0, "num_after_truncation": 0, "num_filtered": 0, "result": [], "partial_failure_warning": "", "warnings": null}}}"#;

#[test]
fn live_workers_are_listed_once_the_head_has_registered() {
    let id = "3d15e70a70b9510cc30b58d8a109d4ddca08858869a20ad66016e137";
    let workers = Ray.read_workers(NODES).unwrap();
    assert_eq!(workers, [LiveWorker { name: "w-2".to_owned(), address: id.to_owned() }]);
    assert!(Ray.read_workers(TOO_EARLY).unwrap_err().to_string().contains("has not registered yet"));
    assert!(Ray.read_workers(b"401: Unauthorized").is_err());
    let (head, python) = (head(), "/venv/bin/python");
    let retirement = WorkerRetirement { head: &head, workers: &workers, python, within: 300 };
    let HeadCommand::Program(drain) = Ray.retire_workers(retirement) else { panic!("not a program") };
    assert_eq!(drain.command[..3], ["/venv/bin/python", "-I", "-c"]);
    assert_eq!(drain.command[4..], ["127.0.0.1:23846", "300", id]);
    let response = format!("[\"{id}\"]\n");
    assert_eq!(Ray.read_retired(&workers, response.as_bytes()).unwrap(), HashSet::from([id.to_owned()]));
    assert_eq!(Ray.read_retired(&workers, b"[]").unwrap(), HashSet::new());
    assert!(Ray.read_retired(&workers, b"").is_err());
}

#[rstest]
#[case::never_used(br#"{"driver": {"is_active": "INACTIVE", "reason": null, "timestamp": 1794740765.9, "last_activity_at": null}}"#, Activity::IdleSince(Timestamp::from_micros(0)))]
#[case::used(br#"{"driver": {"is_active": "INACTIVE", "reason": null, "timestamp": 1794740765.919113, "last_activity_at": 1794740759.5}}"#, Activity::IdleSince(Timestamp::from_micros(1_794_740_759_500_000)))]
#[case::connected(br#"{"driver": {"is_active": "ACTIVE", "reason": "Number of active drivers: 1", "timestamp": 1794740903.655375, "last_activity_at": 1794740869.17}}"#, Activity::Busy)]
#[case::failed(br#"{"driver": {"is_active": "ERROR", "reason": "RpcError()", "timestamp": 1794740903.655375, "last_activity_at": null}}"#, Activity::Unknown)]
#[case::used_by_a_hook(br#"{"driver": {"is_active": "INACTIVE", "timestamp": 5, "last_activity_at": 3}, "mine": {"is_active": "INACTIVE", "timestamp": 5, "last_activity_at": 4}}"#, Activity::IdleSince(Timestamp::from_micros(4_000_000)))]
#[case::busy_by_a_hook(br#"{"driver": {"is_active": "ERROR", "timestamp": 5, "last_activity_at": 3}, "mine": {"is_active": "ACTIVE", "timestamp": 5, "last_activity_at": 4}}"#, Activity::Busy)]
#[case::no_component(b"{}", Activity::Unknown)]
#[case::not_json(b"404: Not Found", Activity::Unknown)]
fn activity_is_unknown_unless_every_component_reports_it(
    #[case] response: &[u8],
    #[case] expected: Activity,
) {
    assert_eq!(Ray.read_activity(response), expected);
}

/// A response of Ray 2.60.0, with changed numbers.
const ACTOR: &str = r#"{"result": true, "msg": "", "data": {"result": {"total": 4, "num_after_truncation": 1, "num_filtered": 1, "result": [
    {"actor_id": "4b466988eecbe4882f3ff59e03000000", "class_name": "Keeper", "state": "ALIVE", "job_id": "03000000", "name": "keeper", "node_id": "866c", "pid": 28212, "ray_namespace": "d0c3"}
    ], "partial_failure_warning": "", "warnings": null}}}"#;

#[test]
fn detached_actors_count_as_unattended_work() {
    assert_eq!(Ray.read_unattended(ACTOR.as_bytes()), Ok(true));
    assert_eq!(Ray.read_unattended(TOO_EARLY), Ok(false), "a list of nothing");
    assert!(Ray.read_unattended(b"500 Internal Server Error").is_err());
}

#[test]
fn a_drained_worker_can_be_killed() {
    let response = serde_json::to_vec(&["a1b2"]).unwrap();
    let worker = LiveWorker { name: "w".into(), address: "a1b2".into() };
    assert_eq!(
        Ray.read_retired(std::slice::from_ref(&worker), &response).unwrap(),
        ["a1b2".to_owned()].into()
    );
    assert_eq!(Ray.after_retirement(&worker, 300), AfterRetirement::KillNow);
}
