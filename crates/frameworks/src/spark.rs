//! Spark as local processes: a standalone master and its workers.

use std::collections::{BTreeMap, HashMap, HashSet};

use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use muster_core::shape::Shape;
use muster_core::time::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::endpoints::Endpoints;
use crate::head_access::HeadAccess;
use crate::local::{
    Activity, AfterRetirement, EndpointDiscovery, GracefulShutdown, HeadCommand, HeadPorts, LaunchContext,
    LiveWorker, LocalFramework, OutputFolder, ProcessSpec, PythonPackage, ShutdownSignal, TaskOutput,
    WorkerNaming, WorkerRetirement,
};
use crate::request::{FrameworkRequest, UnreadableResponse, parse_json};
use crate::requirement::{JAVA, Requirement};

/// The framework Spark, with its standalone cluster manager.
pub(crate) struct Spark;

/// The port that drivers and workers connect to.
const MASTER: &str = "master";

/// The port of the master's web page and of all other HTTP requests.
const DASHBOARD: &str = "dashboard";

/// The address of the master and of drivers.
const HEAD_HOST: &str = "127.0.0.1";

/// The heap of a master or worker process in MiB; executors have memory of their own.
pub(crate) const DAEMON_MEMORY: u64 = 256;

/// Returns the label of an executor's file: `<application>/executor-<number>.<stdout|stderr>`.
fn executor_file(names: &[String]) -> String {
    match names {
        [.., application, number, stream] => format!("{application}/executor-{number}.{stream}"),
        _ => names.join("/"),
    }
}

/// The file with the addresses of a worker's GPUs.
const RESOURCES: &str = "resources.json";

/// The default memory of a worker for executors in MiB: enough for one executor of default size.
const WORKER_MEMORY: u64 = 1024;

/// Options for the cheapest start of a Java process. `-UsePerfData`, because a killed process would leave its file
/// behind in the machine's temporary folder.
pub(crate) const LIGHT: &str = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData";

/// A master whose port is in use must fail, because clients would not find it at the next port. Jobs are not accepted
/// by HTTP, and workers can be decommissioned.
pub(crate) const MASTER_OPTIONS: &str = "-Dspark.port.maxRetries=0 -Dspark.master.rest.enabled=false \
                                         -Dspark.decommission.enabled=true";

/// A restarted master counts workers and drivers as lost that do not reconnect within 15 seconds.
const RECOVERY: &str = "-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryTimeout=15";

/// A decommissioned worker and its executors finish their tasks and move their blocks to others, and check every second
/// (by default every 30 s) whether all have arrived. Executors take these settings from their driver, where
/// decommissioning is off by default; options of the Java process override that.
pub(crate) const DECOMMISSION: &str = "-Dspark.decommission.enabled=true -Dspark.storage.decommission.enabled=true \
                            -Dspark.storage.decommission.replicationReattemptInterval=1s -XX:-UsePerfData";

impl LocalFramework for Spark {
    fn framework(&self) -> Framework {
        Framework::Spark
    }

    fn package(&self) -> PythonPackage {
        PythonPackage { module: "pyspark", pins: include_str!("../pins/spark.txt") }
    }

    fn requirement(&self) -> Option<Requirement> {
        Some(JAVA)
    }

    fn workers_outlive_head(&self) -> bool {
        // The next master recovers its workers and drivers from files, and contacts them.
        true
    }

    fn worker_naming(&self) -> WorkerNaming {
        // The master decommissions workers by host.
        WorkerNaming::LoopbackAddresses
    }

    fn endpoint_discovery(&self) -> EndpointDiscovery {
        EndpointDiscovery::AssignedPorts { ports: &[MASTER, DASHBOARD], endpoints }
    }

    fn head_process(&self, context: LaunchContext<'_>, ports: &HeadPorts) -> ProcessSpec {
        let port = |name: &str| ports.get(name).copied().unwrap_or(0).to_string();
        let recovery =
            quoted("-Dspark.deploy.recoveryDirectory=", &format!("{}/recovery", context.cluster_folder));
        let options =
            format!("{LIGHT} {MASTER_OPTIONS} {RECOVERY} {recovery} {}", temporary_folder_option(context));
        let arguments = ["--host", HEAD_HOST, "--port", &port(MASTER), "--webui-port", &port(DASHBOARD)];
        let memory = mebibytes(context.shape).unwrap_or(DAEMON_MEMORY);
        daemon_process(context, "master.Master", &arguments, HEAD_HOST, memory, &options)
    }

    fn worker_process(&self, context: LaunchContext<'_>, head: &HeadAccess) -> ProcessSpec {
        let memory = format!("{}m", mebibytes(context.shape).unwrap_or(WORKER_MEMORY));
        let cores = context.shape.cpu.map_or(1, |cpu| cpu.millis().div_ceil(1000).max(1)).to_string();
        // Users read the output of executors after their worker was removed.
        let applications = format!("{}/executors/{}", context.cluster_folder, context.name);
        let arguments = [
            head.address(Endpoints::ADDRESS),
            "--host",
            context.name,
            "--cores",
            &cores,
            "--memory",
            &memory,
            "--webui-port",
            "0",
            "--work-dir",
            &applications,
        ];
        let gpus = gpus(context);
        let options =
            gpus.as_ref().map_or_else(|| LIGHT.to_owned(), |gpus| format!("{LIGHT} {}", gpus.options));
        let mut launch =
            daemon_process(context, "worker.Worker", &arguments, context.name, DAEMON_MEMORY, &options);
        launch.files.extend(gpus.map(|gpus| (gpus.file, gpus.content)));
        let executors = format!("{DECOMMISSION} {}", temporary_folder_option(context));
        launch.environment.insert("JAVA_TOOL_OPTIONS".to_owned(), executors);
        launch.environment.insert("SPARK_LOCAL_DIRS".to_owned(), context.node_folder.to_owned());
        launch
    }

    fn task_output(&self, role: &NodeRole, name: &str) -> Option<TaskOutput> {
        (*role == NodeRole::Worker).then(|| TaskOutput {
            folder: OutputFolder::Cluster,
            names: ["executors", name, "*", "*", "std*"].map(str::to_owned).to_vec(),
            label: executor_file,
            hidden: &[],
        })
    }

    fn reusable_ports(&self, endpoints: &Endpoints) -> HeadPorts {
        let known = [(MASTER, Endpoints::ADDRESS), (DASHBOARD, Endpoints::DASHBOARD)];
        let port = |(name, purpose): (&str, &str)| Some((name.to_owned(), endpoints.port(purpose)?));
        known.into_iter().filter_map(port).collect()
    }

    fn workers_request(&self, head: &HeadAccess) -> FrameworkRequest {
        FrameworkRequest::get(format!("{}json/", head.address(Endpoints::DASHBOARD)))
    }

    fn read_workers(&self, response: &[u8]) -> Result<Vec<LiveWorker>, UnreadableResponse> {
        #[derive(Deserialize)]
        struct Response {
            status: String,
            workers: Vec<Worker>,
        }
        #[derive(Deserialize)]
        struct Worker {
            host: String,
            state: String,
            webuiaddress: String,
        }
        let what = "the master's list of workers";
        let Response { status, workers } = parse_json(what, response)?;
        if status != "ALIVE" {
            // A master that recovers does not know yet which of its workers are alive.
            return Err(UnreadableResponse { what, why: format!("the master is {status}") });
        }
        let alive = workers.into_iter().filter(|worker| worker.state == "ALIVE");
        Ok(alive.map(|worker| LiveWorker { name: worker.host, address: worker.webuiaddress }).collect())
    }

    fn load_requests(&self, head: &HeadAccess) -> Vec<FrameworkRequest> {
        vec![self.workers_request(head)]
    }

    fn read_load(&self, response: &[u8]) -> Result<HashMap<String, u64>, UnreadableResponse> {
        #[derive(Deserialize)]
        struct Response {
            workers: Vec<Worker>,
        }
        #[derive(Deserialize)]
        struct Worker {
            webuiaddress: String,
            coresused: u64,
        }
        let Response { workers } = parse_json("the master's list of workers", response)?;
        let busy = workers.into_iter().filter(|worker| worker.coresused > 0);
        Ok(busy.map(|worker| (worker.webuiaddress, worker.coresused)).collect())
    }

    fn retire_workers(&self, WorkerRetirement { head, workers, .. }: WorkerRetirement<'_>) -> HeadCommand {
        let hosts: Vec<String> = workers.iter().map(|worker| format!("host={}", worker.name)).collect();
        let url = format!("{}workers/kill/?{}", head.address(Endpoints::DASHBOARD), hosts.join("&"));
        HeadCommand::Request(FrameworkRequest::post(url))
    }

    fn read_retired(&self, workers: &[LiveWorker], _: &[u8]) -> Result<HashSet<String>, UnreadableResponse> {
        // The response does not name workers; it only says that at least one of them exists.
        Ok(workers.iter().map(|worker| worker.address.clone()).collect())
    }

    fn after_retirement(&self, worker: &LiveWorker, _: u32) -> AfterRetirement {
        // A decommissioned worker never exits, and only the worker knows when its last executor has exited.
        AfterRetirement::StopOnceIdle(FrameworkRequest::get(format!("{}/json/", worker.address)))
    }

    fn read_is_idle(&self, response: &[u8]) -> Result<bool, UnreadableResponse> {
        #[derive(Deserialize)]
        struct Response {
            executors: Vec<IgnoredAny>,
        }
        let Response { executors } = parse_json("the worker's list of executors", response)?;
        Ok(executors.is_empty())
    }

    fn activity_request(&self, head: &HeadAccess) -> FrameworkRequest {
        self.workers_request(head)
    }

    fn read_activity(&self, response: &[u8]) -> Activity {
        #[derive(Deserialize)]
        struct Response {
            status: String,
            activeapps: Vec<IgnoredAny>,
            activedrivers: Vec<IgnoredAny>,
            completedapps: Vec<Application>,
        }
        #[derive(Deserialize)]
        struct Application {
            /// The time of the start in milliseconds; `duration` is in milliseconds, too.
            starttime: i64,
            duration: i64,
        }
        let Ok(answer) = parse_json::<Response>("the master's list of applications", response) else {
            return Activity::Unknown;
        };
        if answer.status != "ALIVE" {
            return Activity::Unknown;
        }
        if !answer.activeapps.is_empty() || !answer.activedrivers.is_empty() {
            return Activity::Busy;
        }
        let end = |app: &Application| app.starttime.saturating_add(app.duration).saturating_mul(1000);
        // The master does not report its start time: one that was never used is idle since the epoch.
        let last = answer.completedapps.iter().map(end).max().unwrap_or_default();
        Activity::IdleSince(Timestamp::from_micros(last))
    }

    fn client_environment(&self, head: &HeadAccess, python: &str) -> BTreeMap<String, String> {
        let mut variables = environment(&head.endpoints);
        if variables.is_empty() {
            return variables;
        }
        let here = [
            // Executors must be able to connect to the driver.
            ("SPARK_LOCAL_IP", HEAD_HOST),
            // Executors would otherwise search their PATH for the name of the driver's Python.
            ("PYSPARK_PYTHON", python),
        ];
        variables.extend(here.map(|(name, value)| (name.to_owned(), value.to_owned())));
        variables
    }

    fn graceful_shutdown(&self, role: NodeRole) -> GracefulShutdown {
        match role {
            NodeRole::Head => GracefulShutdown { signal: ShutdownSignal::Terminate, grace_seconds: 5 },
            // A worker gives its executors ten seconds.
            NodeRole::Worker | NodeRole::Unknown(_) => {
                GracefulShutdown { signal: ShutdownSignal::Terminate, grace_seconds: 15 }
            }
        }
    }
}

/// Returns the environment of programs that connect to a master.
pub(crate) fn environment(endpoints: &Endpoints) -> BTreeMap<String, String> {
    let Some(address) = endpoints.get(Endpoints::ADDRESS) else { return BTreeMap::new() };
    // Spark itself reads `MASTER`, so that a session needs no address.
    ["SPARK_MASTER", "MASTER"].map(|name| (name.to_owned(), address.to_owned())).into()
}

/// Returns the endpoints of a master with these ports.
fn endpoints(ports: &HeadPorts) -> Endpoints {
    let at = |name: &str| format!("{HEAD_HOST}:{}", ports.get(name).copied().unwrap_or(0));
    Endpoints::default()
        .with(Endpoints::ADDRESS, format!("spark://{}", at(MASTER)))
        .with(Endpoints::DASHBOARD, format!("http://{}/", at(DASHBOARD)))
}

/// Returns the process of a master or worker: the script replaces itself by the Java process.
fn daemon_process(
    context: LaunchContext<'_>,
    class: &str,
    arguments: &[&str],
    host: &str,
    memory: u64,
    options: &str,
) -> ProcessSpec {
    let (program, class) =
        (format!("{}/bin/spark-class", context.package), format!("org.apache.spark.deploy.{class}"));
    let command: Vec<&str> =
        [program.as_str(), &class].into_iter().chain(arguments.iter().copied()).collect();
    let memory = format!("{memory}m");
    let environment = [
        ("SPARK_HOME", context.package),
        ("SPARK_NO_DAEMONIZE", "1"),
        ("SPARK_DAEMON_MEMORY", &memory),
        ("SPARK_DAEMON_JAVA_OPTS", options),
        ("SPARK_LOCAL_IP", host),
        ("SPARK_PUBLIC_DNS", host),
    ];
    ProcessSpec::new(&command, &environment)
}

/// The declaration of a worker's GPUs.
struct WorkerGpus {
    /// The options of the worker's process.
    options: String,
    /// The path of the file with the addresses.
    file: String,
    /// The content of that file.
    content: String,
}

/// Declares the GPUs of a worker, so that applications can request them with `spark.executor.resource.gpu.amount`.
fn gpus(context: LaunchContext<'_>) -> Option<WorkerGpus> {
    let count = context.shape.gpu.filter(|gpus| *gpus > 0)?;
    let file = format!("{}/{RESOURCES}", context.node_folder);
    let options = format!(
        "-Dspark.worker.resource.gpu.amount={count} {}",
        quoted("-Dspark.worker.resourcesFile=", &file)
    );
    // Programs count the devices that are visible to them from 0.
    let addresses: Vec<String> = (0..count).map(|address| address.to_string()).collect();
    let id = json!({"componentName": "spark.worker", "resourceName": "gpu"});
    Some(WorkerGpus { options, file, content: json!([{"id": id, "addresses": addresses}]).to_string() })
}

/// Returns the folder for Java's temporary files: a killed process would leave them behind in the machine's folder.
fn temporary_folder_option(context: LaunchContext<'_>) -> String {
    quoted("-Djava.io.tmpdir=", context.node_folder)
}

/// Returns an option with a path, quoted because it may contain spaces.
fn quoted(option: &str, path: &str) -> String {
    format!("\"{option}{path}\"")
}

/// Returns the memory of a shape in MiB, Spark's unit.
fn mebibytes(shape: &Shape) -> Option<u64> {
    shape.memory.map(|memory| (memory.bytes() >> 20).max(1))
}

#[cfg(test)]
mod tests;
