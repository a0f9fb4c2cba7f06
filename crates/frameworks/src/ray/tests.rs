use muster_core::quantity::Cpu;
use rstest::rstest;

use super::*;
use crate::sample::{after, contact, seat};

fn ports() -> Ports {
    [(GCS, 23846), (CLIENT, 30725), (DASHBOARD, 29950)]
        .map(|(name, port)| (name.to_owned(), port))
        .into_iter()
        .collect()
}

fn head() -> Contact {
    contact(endpoints(&ports()))
}

fn has(launch: &Launch, flag: &str) -> bool {
    launch.command.iter().any(|word| word == flag)
}

#[test]
fn a_head_answers_at_the_ports_that_were_chosen_and_keeps_them() {
    let head = head();
    assert_eq!(head.endpoints.get(Endpoints::ADDRESS), Some("127.0.0.1:23846"));
    assert_eq!(head.endpoints.get("client"), Some("ray://127.0.0.1:30725"));
    assert_eq!(head.endpoints.get(Endpoints::DASHBOARD), Some("http://127.0.0.1:29950"));
    assert_eq!(Ray.ports(&head.endpoints), ports());
    let shape = Shape::default();
    let launch = Ray.head(seat(&shape), &ports());
    assert!(has(&launch, "--head") && has(&launch, "--block"));
    assert_eq!(after(&launch, "--port"), "23846");
    assert_eq!(after(&launch, "--ray-client-server-port"), "30725");
    assert_eq!(
        (after(&launch, "--dashboard-host"), after(&launch, "--dashboard-port")),
        ("127.0.0.1", "29950")
    );
    assert_eq!(
        (after(&launch, "--temp-dir"), after(&launch, "--object-spilling-directory")),
        ("/run/c", "/node")
    );
}

#[test]
fn nothing_of_two_clusters_on_a_machine_wants_the_same_port() {
    let shape = Shape::default();
    let (first, worker) = (Ray.head(seat(&shape), &ports()), Ray.worker(seat(&shape), &head()));
    for launch in [&first, &worker] {
        for flag in ["--min-worker-port", "--max-worker-port", "--dashboard-agent-listen-port"] {
            assert_eq!(after(launch, flag), "0", "{flag}");
        }
        assert_eq!(after(launch, "--node-ip-address"), "127.0.0.1");
    }
    for name in ["AUTOSCALER_METRIC_PORT", "DASHBOARD_METRIC_PORT"] {
        assert_eq!(first.environment[name], "0");
    }
}

#[test]
fn a_worker_is_as_loaded_as_it_has_tasks_and_actors() {
    let answer = br#"{"result": true, "data": {"result": {"total": 3, "result": [
        {"task_id": "t1", "state": "RUNNING", "node_id": "a1"}, {"task_id": "t2", "state": "RUNNING", "node_id": "a1"},
        {"task_id": "t3", "state": "RUNNING", "node_id": null}]}}}"#;
    assert_eq!(Ray.load(answer).unwrap(), HashMap::from([("a1".to_owned(), 2)]));
    assert_eq!(Ray.ask_load(&head()).len(), 2, "tasks, and actors that wait");
}

#[test]
fn the_secret_is_known_to_nodes_clients_and_questions_and_stands_in_no_command() {
    let (shape, head) = (Shape::default(), head());
    let retirement = Retirement { head: &head, workers: &[], python: "python", within: 300 };
    let Tell::Run(drain) = Ray.retire(retirement) else { panic!("a program is run") };
    for launch in [Ray.head(seat(&shape), &ports()), Ray.worker(seat(&shape), &head), drain] {
        assert_eq!(launch.environment["RAY_AUTH_MODE"], "token");
        assert_eq!(launch.environment["RAY_AUTH_TOKEN"], "abracadabra");
        assert!(!launch.command.iter().any(|word| word.contains("abracadabra")));
    }
    let client = Ray.client_environment(&head, "/venv/bin/python");
    assert_eq!(client["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"], "0");
    assert_eq!(client["RAY_ADDRESS"], "127.0.0.1:23846");
    assert_eq!(client["RAY_API_SERVER_ADDRESS"], "http://127.0.0.1:29950");
    assert_eq!((&*client["RAY_AUTH_MODE"], &*client["RAY_AUTH_TOKEN"]), ("token", "abracadabra"));
    for ask in [Ray.ask_workers(&head), Ray.ask_activity(&head), Ray.ask_unattended(&head).unwrap()] {
        assert!(ask.url.starts_with("http://127.0.0.1:29950/api/"), "{ask:?}");
        assert_eq!(ask.bearer.as_ref().map(Secret::reveal), Some("abracadabra"));
    }
}

/// Cpus of a head and of a worker, gpus, bytes for objects, memory of a head and of a worker.
type Given = (&'static str, &'static str, &'static str, &'static str, [&'static str; 2]);

#[rstest]
#[case::a_core_has_a_share_of_the_machine(None, None, None, ("0", "1", "0", "536870912", ["0", "4294967296"]))]
#[case(Some(2000), Some(10 << 30), Some(1), ("2", "2", "1", "3221225472", ["10737418240"; 2]))]
#[case(Some(1500), None, None, ("2", "2", "0", "536870912", ["8589934592"; 2]))]
#[case::and_never_more(Some(9000), None, None, ("9", "9", "0", "536870912", ["17179869184"; 2]))]
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
    let (head, worker) = (Ray.head(seat(&shape), &ports()), Ray.worker(seat(&shape), &head()));
    assert_eq!((after(&head, "--num-cpus"), after(&worker, "--num-cpus")), (of_head, of_worker));
    for launch in [&head, &worker] {
        assert_eq!((after(launch, "--num-gpus"), after(launch, "--object-store-memory")), (gpus, objects));
    }
    assert_eq!([after(&head, "--memory"), after(&worker, "--memory")], limit);
    assert_eq!((after(&worker, "--address"), after(&worker, "--node-name")), ("127.0.0.1:23846", "w-1"));
}

/// As Ray 2.60.0 answered once a worker had gone.
const NODES: &[u8] = br#"{"result": true, "msg": "", "data": {"result": {"total": 4, "num_after_truncation": 2, "num_filtered": 2, "result": [
    {"node_id": "3d15e70a70b9510cc30b58d8a109d4ddca08858869a20ad66016e137", "node_ip": "127.0.0.2", "is_head_node": false, "state": "ALIVE", "state_message": null, "node_name": "w-2", "resources_total": {"object_store_memory": 100000000.0, "memory": 21974777600.0, "CPU": 1.0, "node:127.0.0.2": 1.0}, "labels": {"ray.io/node-id": "3d15e70a70b9510cc30b58d8a109d4ddca08858869a20ad66016e137"}},
    {"node_id": "c7995624b479a8de027fddc519ce3eef5ea945951a50162e1211d886", "node_ip": "127.0.0.2", "is_head_node": false, "state": "DEAD", "state_message": "Terminated due to preemption: removed", "node_name": "w-1", "resources_total": {}, "labels": {}},
    {"node_id": "866c7e14b3e78131bb838edc710decd1380b1cd54645f11ee70104ac", "node_ip": "127.0.0.2", "is_head_node": true, "state": "ALIVE", "state_message": null, "node_name": "head-0", "resources_total": {"node:__internal_head__": 1.0, "object_store_memory": 100000000.0, "memory": 23835741952.0, "node:127.0.0.2": 1.0}, "labels": {"ray.io/node-id": "866c7e14b3e78131bb838edc710decd1380b1cd54645f11ee70104ac"}}
    ], "partial_failure_warning": "", "warnings": null}}}"#;

/// As it answered before the head's own node was there.
const TOO_EARLY: &[u8] = br#"{"result": true, "msg": "", "data": {"result": {"total": 0, "num_after_truncation": 0, "num_filtered": 0, "result": [], "partial_failure_warning": "", "warnings": null}}}"#;

#[test]
fn workers_that_live_are_counted_once_the_head_is_there() {
    let id = "3d15e70a70b9510cc30b58d8a109d4ddca08858869a20ad66016e137";
    let workers = Ray.workers(NODES).unwrap();
    assert_eq!(workers, [LiveWorker { name: "w-2".to_owned(), address: id.to_owned() }]);
    assert!(Ray.workers(TOO_EARLY).unwrap_err().to_string().contains("not there yet"));
    assert!(Ray.workers(b"401: Unauthorized").is_err());
    let (head, python) = (head(), "/venv/bin/python");
    let retirement = Retirement { head: &head, workers: &workers, python, within: 300 };
    let Tell::Run(drain) = Ray.retire(retirement) else { panic!("a program is run") };
    assert_eq!(drain.command[..3], ["/venv/bin/python", "-I", "-c"]);
    assert_eq!(drain.command[4..], ["127.0.0.1:23846", "300", id]);
    let answer = format!("[\"{id}\"]\n");
    assert_eq!(Ray.retired(&workers, answer.as_bytes()).unwrap(), HashSet::from([id.to_owned()]));
    assert_eq!(Ray.retired(&workers, b"[]").unwrap(), HashSet::new());
    assert!(Ray.retired(&workers, b"").is_err());
}

#[rstest]
#[case::never_used(br#"{"driver": {"is_active": "INACTIVE", "reason": null, "timestamp": 1794740765.9, "last_activity_at": null}}"#, Activity::IdleSince(Timestamp::from_micros(0)))]
#[case::used(br#"{"driver": {"is_active": "INACTIVE", "reason": null, "timestamp": 1794740765.919113, "last_activity_at": 1794740759.5}}"#, Activity::IdleSince(Timestamp::from_micros(1_794_740_759_500_000)))]
#[case::connected(br#"{"driver": {"is_active": "ACTIVE", "reason": "Number of active drivers: 1", "timestamp": 1794740903.655375, "last_activity_at": 1794740869.17}}"#, Activity::Busy)]
#[case::failed(br#"{"driver": {"is_active": "ERROR", "reason": "RpcError()", "timestamp": 1794740903.655375, "last_activity_at": null}}"#, Activity::Unknown)]
#[case::also_by_a_hook(br#"{"driver": {"is_active": "INACTIVE", "timestamp": 5, "last_activity_at": 3}, "mine": {"is_active": "INACTIVE", "timestamp": 5, "last_activity_at": 4}}"#, Activity::IdleSince(Timestamp::from_micros(4_000_000)))]
#[case::busy_by_a_hook(br#"{"driver": {"is_active": "ERROR", "timestamp": 5, "last_activity_at": 3}, "mine": {"is_active": "ACTIVE", "timestamp": 5, "last_activity_at": 4}}"#, Activity::Busy)]
#[case::nobody(b"{}", Activity::Unknown)]
#[case::no_answer(b"404: Not Found", Activity::Unknown)]
fn what_is_not_known_to_be_idle_is_not(#[case] answer: &[u8], #[case] expected: Activity) {
    assert_eq!(Ray.activity(answer), expected);
}

/// As Ray 2.60.0 answered, but for the numbers.
const ACTOR: &str = r#"{"result": true, "msg": "", "data": {"result": {"total": 4, "num_after_truncation": 1, "num_filtered": 1, "result": [
    {"actor_id": "4b466988eecbe4882f3ff59e03000000", "class_name": "Keeper", "state": "ALIVE", "job_id": "03000000", "name": "keeper", "node_id": "866c", "pid": 28212, "ray_namespace": "d0c3"}
    ], "partial_failure_warning": "", "warnings": null}}}"#;

#[test]
fn actors_that_nobody_is_connected_to_run_all_the_same() {
    assert_eq!(Ray.unattended(ACTOR.as_bytes()), Ok(true));
    assert_eq!(Ray.unattended(TOO_EARLY), Ok(false), "a list of nothing");
    assert!(Ray.unattended(b"500 Internal Server Error").is_err());
}

#[test]
fn a_worker_that_was_drained_need_not_be_asked_to_go() {
    let answer = serde_json::to_vec(&["a1b2"]).unwrap();
    let worker = LiveWorker { name: "w".into(), address: "a1b2".into() };
    assert_eq!(Ray.retired(std::slice::from_ref(&worker), &answer).unwrap(), ["a1b2".to_owned()].into());
    assert_eq!(Ray.leaving(&worker, 300), Leaving::Left);
}
