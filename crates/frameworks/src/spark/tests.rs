use muster_core::quantity::{Cpu, Memory};
use rstest::rstest;

use super::*;
use crate::RequestMethod;
use crate::sample::{argument_after, head_access, launch_context};

/// A response of the master of Spark 4.3.0 while an application runs, after a decommissioned worker has exited.
const BUSY: &[u8] = include_bytes!("busy.json");

/// A response of the same master after the application ended.
const IDLE: &[u8] = include_bytes!("idle.json");

/// A response of a master that starts.
const STANDBY: &[u8] = br#"{
  "url" : "spark://127.0.0.1:27077", "workers" : [ ], "aliveworkers" : 0, "cores" : 0, "coresused" : 0,
  "memory" : 0, "memoryused" : 0, "resources" : [ ], "resourcesused" : [ ], "activeapps" : [ ],
  "completedapps" : [ ], "activedrivers" : [ ], "completeddrivers" : [ ], "status" : "STANDBY"
}"#;

/// A response of a worker with a running executor, whose command is cut.
const WORKING: &[u8] = br#"{
  "id" : "worker-20261115111937-127.7.0.3-36739",
  "masterurl" : "spark://127.0.0.1:27077", "masterwebuiurl" : "http://127.0.0.1:28080",
  "cores" : 1, "coresused" : 1, "memory" : 1024, "memoryused" : 1024, "resources" : { }, "resourcesused" : { },
  "executors" : [ {
    "id" : 0, "memory" : 1024, "resources" : { }, "appid" : "app-20261115112009-0000",
    "appdesc" : {
      "name" : "exp", "cores" : 0, "memoryperexecutor" : 1024, "resourcesperexecutor" : [ ],
      "memoryperslave" : 1024, "resourcesperslave" : [ ], "user" : "root", "command" : "Command(org.apache.spark)"
    }
  } ],
  "finishedexecutors" : [ ]
}"#;

/// A response of a worker whose executors have exited.
const DRAINED: &[u8] = br#"{
  "id" : "worker-20261115111127-127.7.0.3-43371",
  "masterurl" : "spark://127.0.0.1:27077", "masterwebuiurl" : "http://localhost:28080",
  "cores" : 1, "coresused" : 0, "memory" : 1024, "memoryused" : 0, "resources" : { }, "resourcesused" : { },
  "executors" : [ ], "finishedexecutors" : [ ]
}"#;

fn ports() -> HeadPorts {
    HeadPorts::from([(MASTER.to_owned(), 27077), (DASHBOARD.to_owned(), 28080)])
}

fn head() -> HeadAccess {
    head_access(endpoints(&ports()))
}

fn worker(host: &str) -> LiveWorker {
    LiveWorker { name: host.to_owned(), address: format!("http://{host}:41591") }
}

#[test]
fn a_master_listens_on_its_assigned_ports_and_clients_connect_to_them() {
    let head = head();
    assert_eq!(head.endpoints.get(Endpoints::ADDRESS), Some("spark://127.0.0.1:27077"));
    assert_eq!(head.endpoints.get(Endpoints::DASHBOARD), Some("http://127.0.0.1:28080/"));
    assert_eq!(Spark.reusable_ports(&head.endpoints), ports());
    assert_eq!(
        Spark.workers_request(&head),
        FrameworkRequest::get("http://127.0.0.1:28080/json/".to_owned())
    );
    let variables = Spark.client_environment(&head, "/venv/bin/python");
    let of = |name: &str| variables[name].as_str();
    assert_eq!((of("SPARK_MASTER"), of("MASTER")), ("spark://127.0.0.1:27077", "spark://127.0.0.1:27077"));
    assert_eq!((of("PYSPARK_PYTHON"), of("SPARK_LOCAL_IP")), ("/venv/bin/python", "127.0.0.1"));
}

#[test]
fn a_master_persists_its_state_in_the_folder_of_the_cluster() {
    let shape = Shape::default();
    let process = Spark.head_process(launch_context(&shape), &ports());
    assert_eq!(
        process.command[..2],
        ["/venv/lib/package/bin/spark-class", "org.apache.spark.deploy.master.Master"]
    );
    assert_eq!(
        (argument_after(&process, "--port"), argument_after(&process, "--webui-port")),
        ("27077", "28080")
    );
    let options = &process.environment["SPARK_DAEMON_JAVA_OPTS"];
    assert!(options.contains(r#""-Dspark.deploy.recoveryDirectory=/cluster/kept/recovery""#), "{options}");
    assert!(options.contains("-Dspark.deploy.recoveryMode=FILESYSTEM"), "{options}");
    assert!(options.contains(r#""-Djava.io.tmpdir=/node""#), "{options}");
    assert_eq!(process.environment["SPARK_DAEMON_MEMORY"], "256m");
    assert_eq!(process.environment["SPARK_HOME"], "/venv/lib/package");
}

#[rstest]
#[case(None, None, "1", "1024m")]
#[case(Some(2000), Some(4 << 30), "2", "4096m")]
#[case(Some(1500), None, "2", "1024m")]
#[case(Some(100), Some(1000), "1", "1m")]
fn a_worker_is_given_its_shape(
    #[case] millis: Option<u64>,
    #[case] bytes: Option<u64>,
    #[case] cores: &str,
    #[case] memory: &str,
) {
    let shape = Shape {
        cpu: millis.map(Cpu::from_millis),
        memory: bytes.map(Memory::from_bytes),
        ..Shape::default()
    };
    let process = Spark.worker_process(launch_context(&shape), &head());
    assert_eq!(process.command[2], "spark://127.0.0.1:27077");
    assert_eq!((argument_after(&process, "--cores"), argument_after(&process, "--memory")), (cores, memory));
    assert_eq!(process.environment["SPARK_DAEMON_MEMORY"], "256m", "executors have memory of their own");
}

#[test]
fn a_worker_declares_its_gpus_as_a_resource() {
    let shape = Shape { gpu: Some(2), ..Shape::default() };
    let process = Spark.worker_process(launch_context(&shape), &head());
    let options = &process.environment["SPARK_DAEMON_JAVA_OPTS"];
    assert!(options.contains("-Dspark.worker.resource.gpu.amount=2"), "{options}");
    assert!(options.contains(r#""-Dspark.worker.resourcesFile=/node/resources.json""#), "{options}");
    let content: serde_json::Value = serde_json::from_str(&process.files["/node/resources.json"]).unwrap();
    assert_eq!(content[0]["addresses"], json!(["0", "1"]));
    let shape = Shape { gpu: Some(0), ..Shape::default() };
    let process = Spark.worker_process(launch_context(&shape), &head());
    assert!(process.files.is_empty() && !process.environment["SPARK_DAEMON_JAVA_OPTS"].contains("gpu"));
}

#[test]
fn a_worker_is_named_by_its_address_and_its_executors_write_into_the_folder_of_the_cluster() {
    let shape = Shape::default();
    let process =
        Spark.worker_process(LaunchContext { name: "127.7.0.2", ..launch_context(&shape) }, &head());
    assert_eq!(
        (argument_after(&process, "--host"), argument_after(&process, "--work-dir")),
        ("127.7.0.2", "/cluster/kept/executors/127.7.0.2")
    );
    assert_eq!(process.environment["SPARK_LOCAL_IP"], "127.7.0.2");
    assert_eq!(process.environment["SPARK_LOCAL_DIRS"], "/node");
    let executors = &process.environment["JAVA_TOOL_OPTIONS"];
    assert!(executors.contains("-Dspark.decommission.enabled=true"), "{executors}");
    assert!(executors.contains(r#""-Djava.io.tmpdir=/node""#), "{executors}");
}

#[test]
fn only_workers_that_are_alive_count() {
    let alive = LiveWorker { name: "127.51.0.2".to_owned(), address: "http://127.51.0.2:35383".to_owned() };
    assert_eq!(Spark.read_workers(BUSY).unwrap(), [alive]);
}

#[test]
fn the_load_of_a_worker_is_the_number_of_its_cores_in_use() {
    let load = |response| Spark.read_load(response).unwrap().get("http://127.51.0.2:35383").copied();
    assert_eq!((load(BUSY), load(IDLE)), (Some(1), None));
}

#[test]
fn the_list_of_a_master_that_recovers_is_unreadable() {
    let why = Spark.read_workers(STANDBY).unwrap_err().to_string();
    assert_eq!(why, "the master's list of workers cannot be read: the master is STANDBY");
    assert_eq!(Spark.read_activity(STANDBY), Activity::Unknown);
    assert!(Spark.read_workers(b"<html>").is_err());
}

#[test]
fn one_request_decommissions_all_workers_by_host() {
    let workers = [worker("127.7.0.2"), worker("127.7.0.3")];
    let retirement = WorkerRetirement { head: &head(), workers: &workers, python: "python", within: 300 };
    let HeadCommand::Request(request) = Spark.retire_workers(retirement) else { panic!("not a request") };
    assert_eq!(request.url, "http://127.0.0.1:28080/workers/kill/?host=127.7.0.2&host=127.7.0.3");
    assert_eq!(request.method, RequestMethod::Post);
    let addresses: HashSet<String> = workers.iter().map(|worker| worker.address.clone()).collect();
    assert_eq!(Spark.read_retired(&workers, b"").unwrap(), addresses);
}

#[rstest]
#[case(WORKING, Ok(false))]
#[case(DRAINED, Ok(true))]
#[case(b"{}", Err(()))]
fn a_worker_is_idle_once_its_last_executor_has_exited(
    #[case] response: &[u8],
    #[case] idle: Result<bool, ()>,
) {
    let request = FrameworkRequest::get("http://127.7.0.2:41591/json/".to_owned());
    assert_eq!(Spark.after_retirement(&worker("127.7.0.2"), 300), AfterRetirement::StopOnceIdle(request));
    assert_eq!(Spark.read_is_idle(response).map_err(drop), idle);
}

#[test]
fn a_cluster_is_busy_while_an_application_runs_and_then_idle_since_its_end() {
    assert_eq!(Spark.read_activity(BUSY), Activity::Busy);
    let end = (1_794_743_290_994 + 89_019) * 1000;
    assert_eq!(Spark.read_activity(IDLE), Activity::IdleSince(Timestamp::from_micros(end)));
    let never = String::from_utf8_lossy(STANDBY).replace("STANDBY", "ALIVE");
    assert_eq!(Spark.read_activity(never.as_bytes()), Activity::IdleSince(Timestamp::from_micros(0)));
    assert_eq!(Spark.read_activity(b"{}"), Activity::Unknown);
}
