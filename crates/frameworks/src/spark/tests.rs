use muster_core::quantity::{Cpu, Memory};
use rstest::rstest;

use super::*;
use crate::Method;
use crate::sample::{after, contact, seat};

/// As the master of Spark 4.3.0 answers while an application runs and a worker that was let go has ended.
const BUSY: &[u8] = include_bytes!("busy.json");

/// The same a while later.
const IDLE: &[u8] = include_bytes!("idle.json");

/// While it starts.
const STANDBY: &[u8] = br#"{
  "url" : "spark://127.0.0.1:27077", "workers" : [ ], "aliveworkers" : 0, "cores" : 0, "coresused" : 0,
  "memory" : 0, "memoryused" : 0, "resources" : [ ], "resourcesused" : [ ], "activeapps" : [ ],
  "completedapps" : [ ], "activedrivers" : [ ], "completeddrivers" : [ ], "status" : "STANDBY"
}"#;

/// As a worker answers on which an executor runs, but for most of its command.
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

/// The same once it has ended.
const DRAINED: &[u8] = br#"{
  "id" : "worker-20261115111127-127.7.0.3-43371",
  "masterurl" : "spark://127.0.0.1:27077", "masterwebuiurl" : "http://localhost:28080",
  "cores" : 1, "coresused" : 0, "memory" : 1024, "memoryused" : 0, "resources" : { }, "resourcesused" : { },
  "executors" : [ ], "finishedexecutors" : [ ]
}"#;

fn ports() -> Ports {
    Ports::from([(MASTER.to_owned(), 27077), (DASHBOARD.to_owned(), 28080)])
}

fn head() -> Contact {
    contact(endpoints(&ports()))
}

fn worker(host: &str) -> LiveWorker {
    LiveWorker { name: host.to_owned(), address: format!("http://{host}:41591") }
}

#[test]
fn a_master_answers_at_the_ports_that_it_is_given_and_its_clients_know_them() {
    let head = head();
    assert_eq!(head.endpoints.get(Endpoints::ADDRESS), Some("spark://127.0.0.1:27077"));
    assert_eq!(head.endpoints.get(Endpoints::DASHBOARD), Some("http://127.0.0.1:28080/"));
    assert_eq!(Spark.ports(&head.endpoints), ports());
    assert_eq!(Spark.ask_workers(&head), Ask::get("http://127.0.0.1:28080/json/".to_owned()));
    let variables = Spark.client_environment(&head, "/venv/bin/python");
    let of = |name: &str| variables[name].as_str();
    assert_eq!((of("SPARK_MASTER"), of("MASTER")), ("spark://127.0.0.1:27077", "spark://127.0.0.1:27077"));
    assert_eq!((of("PYSPARK_PYTHON"), of("SPARK_LOCAL_IP")), ("/venv/bin/python", "127.0.0.1"));
}

#[test]
fn a_master_keeps_what_it_knows_where_it_stays() {
    let shape = Shape::default();
    let launch = Spark.head(seat(&shape), &ports());
    assert_eq!(
        launch.command[..2],
        ["/venv/lib/package/bin/spark-class", "org.apache.spark.deploy.master.Master"]
    );
    assert_eq!((after(&launch, "--port"), after(&launch, "--webui-port")), ("27077", "28080"));
    let options = &launch.environment["SPARK_DAEMON_JAVA_OPTS"];
    assert!(options.contains(r#""-Dspark.deploy.recoveryDirectory=/cluster/kept/recovery""#), "{options}");
    assert!(options.contains("-Dspark.deploy.recoveryMode=FILESYSTEM"), "{options}");
    assert!(options.contains(r#""-Djava.io.tmpdir=/node""#), "{options}");
    assert_eq!(launch.environment["SPARK_DAEMON_MEMORY"], "256m");
    assert_eq!(launch.environment["SPARK_HOME"], "/venv/lib/package");
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
    let launch = Spark.worker(seat(&shape), &head());
    assert_eq!(launch.command[2], "spark://127.0.0.1:27077");
    assert_eq!((after(&launch, "--cores"), after(&launch, "--memory")), (cores, memory));
    assert_eq!(launch.environment["SPARK_DAEMON_MEMORY"], "256m", "what runs in it has its own");
}

#[test]
fn a_worker_is_called_by_its_address_and_leaves_only_what_its_executors_wrote() {
    let shape = Shape::default();
    let launch = Spark.worker(Seat { name: "127.7.0.2", ..seat(&shape) }, &head());
    assert_eq!(
        (after(&launch, "--host"), after(&launch, "--work-dir")),
        ("127.7.0.2", "/cluster/kept/executors/127.7.0.2")
    );
    assert_eq!(launch.environment["SPARK_LOCAL_IP"], "127.7.0.2");
    assert_eq!(launch.environment["SPARK_LOCAL_DIRS"], "/node");
    let executors = &launch.environment["JAVA_TOOL_OPTIONS"];
    assert!(executors.contains("-Dspark.decommission.enabled=true"), "{executors}");
    assert!(executors.contains(r#""-Djava.io.tmpdir=/node""#), "{executors}");
}

#[test]
fn only_workers_that_are_alive_count() {
    let alive = LiveWorker { name: "127.51.0.2".to_owned(), address: "http://127.51.0.2:35383".to_owned() };
    assert_eq!(Spark.workers(BUSY).unwrap(), [alive]);
}

#[test]
fn a_worker_is_as_loaded_as_it_has_cores_in_use() {
    let load = |answer| Spark.load(answer).unwrap().get("http://127.51.0.2:35383").copied();
    assert_eq!((load(BUSY), load(IDLE)), (Some(1), None));
}

#[test]
fn a_master_that_is_not_ready_does_not_count_anybody() {
    let why = Spark.workers(STANDBY).unwrap_err().to_string();
    assert_eq!(why, "the master's list of workers cannot be read: the master is STANDBY");
    assert_eq!(Spark.activity(STANDBY), Activity::Unknown);
    assert!(Spark.workers(b"<html>").is_err());
}

#[test]
fn workers_are_let_go_by_host_all_at_once() {
    let workers = [worker("127.7.0.2"), worker("127.7.0.3")];
    let retirement = Retirement { head: &head(), workers: &workers, python: "python", within: 300 };
    let Tell::Ask(ask) = Spark.retire(retirement) else { panic!("it is asked") };
    assert_eq!(ask.url, "http://127.0.0.1:28080/workers/kill/?host=127.7.0.2&host=127.7.0.3");
    assert_eq!(ask.method, Method::Post);
    let addresses: HashSet<String> = workers.iter().map(|worker| worker.address.clone()).collect();
    assert_eq!(Spark.retired(&workers, b"").unwrap(), addresses);
}

#[rstest]
#[case(WORKING, Ok(false))]
#[case(DRAINED, Ok(true))]
#[case(b"{}", Err(()))]
fn a_worker_has_left_once_its_last_executor_has(#[case] answer: &[u8], #[case] left: Result<bool, ()>) {
    let ask = Ask::get("http://127.7.0.2:41591/json/".to_owned());
    assert_eq!(Spark.leaving(&worker("127.7.0.2"), 300), Leaving::Until(ask));
    assert_eq!(Spark.has_left(answer).map_err(drop), left);
}

#[test]
fn a_cluster_is_busy_while_an_application_is_there_and_then_idle_since_its_end() {
    assert_eq!(Spark.activity(BUSY), Activity::Busy);
    let end = (1_794_743_290_994 + 89_019) * 1000;
    assert_eq!(Spark.activity(IDLE), Activity::IdleSince(Timestamp::from_micros(end)));
    let never = String::from_utf8_lossy(STANDBY).replace("STANDBY", "ALIVE");
    assert_eq!(Spark.activity(never.as_bytes()), Activity::IdleSince(Timestamp::from_micros(0)));
    assert_eq!(Spark.activity(b"{}"), Activity::Unknown);
}
