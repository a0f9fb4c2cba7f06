//! Dask as local processes: a scheduler and its workers.

use std::collections::{BTreeMap, HashMap, HashSet};

use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use muster_core::shape::Shape;
use serde::Deserialize;

use crate::endpoints::Endpoints;
use crate::head_access::HeadAccess;
use crate::local::{
    Activity, AfterRetirement, EndpointDiscovery, GracefulShutdown, HeadCommand, HeadPorts, LaunchContext,
    LiveWorker, LocalFramework, ProcessSpec, PythonPackage, ShutdownSignal, WorkerRetirement,
};
use crate::request::{FrameworkRequest, UnreadableResponse, parse_json};

/// The framework Dask, with its distributed scheduler.
pub(crate) struct Dask;

/// The default HTTP routes of the scheduler, and `scheduler.api`, which lists workers.
pub(crate) const ROUTES: &str = r#"["distributed.http.scheduler.prometheus","distributed.http.scheduler.info","distributed.http.scheduler.json","distributed.http.health","distributed.http.proxy","distributed.http.statics","distributed.http.scheduler.api"]"#;

/// The setting with the HTTP routes of the scheduler.
pub(crate) const ROUTES_VARIABLE: &str = "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES";

/// The file into which the scheduler writes its addresses.
const SCHEDULER_FILE: &str = "scheduler.json";

/// The port that clients and workers connect to.
const SCHEDULER: &str = "scheduler";

/// The port of the dashboard and of all other HTTP requests.
const DASHBOARD: &str = "dashboard";

/// The variable with the scratch folder: without it every process leaves a folder behind in the machine's temporary
/// folder.
const SCRATCH: &str = "DASK_TEMPORARY_DIRECTORY";

/// The states of tasks that a worker has not finished.
const PENDING: [&str; 5] = ["executing", "long-running", "ready", "constrained", "waiting"];

/// The Python program that drains workers.
const DRAIN: &str = concat!(include_str!("end_with_caller.py"), include_str!("dask/drain.py"));

/// Seconds after which a worker that cannot connect to its scheduler exits.
const DEATH_TIMEOUT: &str = "60";

impl LocalFramework for Dask {
    fn framework(&self) -> Framework {
        Framework::Dask
    }

    fn package(&self) -> PythonPackage {
        PythonPackage { module: "distributed", pins: include_str!("../pins/dask.txt") }
    }

    fn workers_outlive_head(&self) -> bool {
        // The task graph is lost with the scheduler, and workers exit when they lose the connection.
        false
    }

    fn head_process(&self, context: LaunchContext<'_>, ports: &HeadPorts) -> ProcessSpec {
        let port = |name: &str| ports.get(name).copied().unwrap_or(0);
        let (scheduler, dashboard) = (port(SCHEDULER).to_string(), format!("127.0.0.1:{}", port(DASHBOARD)));
        let file = format!("{}/{SCHEDULER_FILE}", context.node_folder);
        let command = [
            context.python,
            "-m",
            "dask",
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            &scheduler,
            "--dashboard-address",
            &dashboard,
            "--scheduler-file",
            &file,
        ];
        let routes = (ROUTES_VARIABLE, ROUTES);
        ProcessSpec::new(&command, &[routes, (SCRATCH, context.node_folder)])
    }

    fn worker_process(&self, context: LaunchContext<'_>, head: &HeadAccess) -> ProcessSpec {
        let threads = threads(context.shape).to_string();
        let memory =
            context.shape.memory.map_or_else(|| "auto".to_owned(), |memory| memory.bytes().to_string());
        let command = [
            context.python,
            "-m",
            "dask",
            "worker",
            head.address(Endpoints::ADDRESS),
            "--host",
            "127.0.0.1",
            "--name",
            context.name,
            "--nworkers",
            "1",
            "--nthreads",
            &threads,
            "--memory-limit",
            &memory,
            "--no-nanny",
            "--no-dashboard",
            // The worker has an HTTP server even without a dashboard, on every address unless one is given.
            "--dashboard-address",
            "127.0.0.1:0",
            "--death-timeout",
            DEATH_TIMEOUT,
            "--local-directory",
            context.node_folder,
        ];
        let mut launch = ProcessSpec::new(&command, &[(SCRATCH, context.node_folder)]);
        if let Some(gpus) = context.shape.gpu.filter(|gpus| *gpus > 0) {
            launch.command.extend(["--resources".to_owned(), format!("GPU={gpus}")]);
        }
        launch
    }

    fn endpoint_discovery(&self) -> EndpointDiscovery {
        EndpointDiscovery::File { file: SCHEDULER_FILE, read: endpoints }
    }

    fn reusable_ports(&self, endpoints: &Endpoints) -> HeadPorts {
        let known = [(SCHEDULER, Endpoints::ADDRESS), (DASHBOARD, Endpoints::DASHBOARD)];
        let port = |(name, purpose): (&str, &str)| Some((name.to_owned(), endpoints.port(purpose)?));
        known.into_iter().filter_map(port).collect()
    }

    fn workers_request(&self, head: &HeadAccess) -> FrameworkRequest {
        FrameworkRequest::get(scheduler_url(head, "/api/v1/get_workers"))
    }

    fn read_workers(&self, response: &[u8]) -> Result<Vec<LiveWorker>, UnreadableResponse> {
        #[derive(Deserialize)]
        struct Response {
            workers: Vec<Worker>,
        }
        #[derive(Deserialize)]
        struct Worker {
            /// A text, or a number for workers that a user started without a name.
            name: serde_json::Value,
            address: String,
        }
        let Response { workers } = parse_json("the scheduler's list of workers", response)?;
        let alive = |Worker { name, address }| LiveWorker {
            name: name.as_str().map_or_else(|| name.to_string(), str::to_owned),
            address,
        };
        Ok(workers.into_iter().map(alive).collect())
    }

    fn load_requests(&self, head: &HeadAccess) -> Vec<FrameworkRequest> {
        vec![FrameworkRequest::get(scheduler_url(head, "/json/identity.json"))]
    }

    fn read_load(&self, response: &[u8]) -> Result<HashMap<String, u64>, UnreadableResponse> {
        #[derive(Deserialize)]
        struct Response {
            workers: HashMap<String, Worker>,
        }
        #[derive(Deserialize)]
        struct Worker {
            #[serde(default)]
            metrics: Metrics,
        }
        /// The worker's last report; few workers report every half second.
        #[derive(Deserialize, Default)]
        struct Metrics {
            #[serde(default)]
            task_counts: HashMap<String, u64>,
        }
        let Response { workers } = parse_json("the scheduler's list of workers with metrics", response)?;
        let tasks = |Worker { metrics }: Worker| -> u64 {
            let pending = metrics.task_counts.iter().filter(|(state, _)| PENDING.contains(&state.as_str()));
            pending.map(|(_, count)| count).sum()
        };
        let loads = workers.into_iter().map(|(address, worker)| (address, tasks(worker)));
        Ok(loads.filter(|(_, load)| *load > 0).collect())
    }

    fn retire_workers(
        &self,
        WorkerRetirement { head, workers, python, within }: WorkerRetirement<'_>,
    ) -> HeadCommand {
        let within = within.to_string();
        // Isolated mode, because a folder `distributed` in the working directory would shadow Dask's package.
        let mut command = vec![python, "-I", "-c", DRAIN, head.address(Endpoints::ADDRESS), &within];
        command.extend(workers.iter().map(|worker| worker.address.as_str()));
        HeadCommand::Program(ProcessSpec::new(&command, &[]))
    }

    fn read_retired(&self, _: &[LiveWorker], response: &[u8]) -> Result<HashSet<String>, UnreadableResponse> {
        parse_json("the list of workers that were drained", response)
    }

    fn after_retirement(&self, _: &LiveWorker, _: u32) -> AfterRetirement {
        // The scheduler answers after the worker's data was moved, and has asked the worker to exit.
        AfterRetirement::ExitsWithin(5)
    }

    fn activity_request(&self, head: &HeadAccess) -> FrameworkRequest {
        FrameworkRequest::get(scheduler_url(head, "/api/v1/check_idle"))
    }

    fn read_activity(&self, response: &[u8]) -> Activity {
        #[derive(Deserialize)]
        struct Response {
            idle_since: Option<f64>,
        }
        match parse_json("the scheduler's idleness", response) {
            Ok(Response { idle_since: None }) => Activity::Busy,
            Ok(Response { idle_since: Some(seconds) }) => Activity::idle_since_seconds(seconds),
            Err(_) => Activity::Unknown,
        }
    }

    fn client_environment(&self, head: &HeadAccess, _: &str) -> BTreeMap<String, String> {
        environment(&head.endpoints)
    }

    fn graceful_shutdown(&self, role: NodeRole) -> GracefulShutdown {
        match role {
            // A scheduler shuts down in order when it is interrupted; a worker unregisters when it is terminated.
            NodeRole::Head => GracefulShutdown { signal: ShutdownSignal::Interrupt, grace_seconds: 5 },
            NodeRole::Worker | NodeRole::Unknown(_) => {
                GracefulShutdown { signal: ShutdownSignal::Terminate, grace_seconds: 10 }
            }
        }
    }
}

/// Returns the environment of a scheduler's clients.
pub(crate) fn environment(endpoints: &Endpoints) -> BTreeMap<String, String> {
    let address = endpoints.get(Endpoints::ADDRESS);
    address.map(|address| ("DASK_SCHEDULER_ADDRESS".to_owned(), address.to_owned())).into_iter().collect()
}

/// Parses the file that a scheduler writes.
fn endpoints(file: &[u8]) -> Result<Endpoints, UnreadableResponse> {
    #[derive(Deserialize)]
    struct File {
        address: String,
        services: Services,
    }
    #[derive(Deserialize)]
    struct Services {
        dashboard: u16,
    }
    let File { address, services } = parse_json(SCHEDULER_FILE, file)?;
    let dashboard = format!("http://127.0.0.1:{}/status", services.dashboard);
    Ok(Endpoints::default().with(Endpoints::ADDRESS, address).with(Endpoints::DASHBOARD, dashboard))
}

/// Returns the threads of a worker: its cpus, rounded up.
fn threads(shape: &Shape) -> u64 {
    shape.cpu.map_or(1, |cpu| cpu.millis().div_ceil(1000).max(1))
}

/// Returns the URL of a path on the scheduler's HTTP server; the dashboard is one of its pages.
fn scheduler_url(head: &HeadAccess, path: &str) -> String {
    let dashboard = head.address(Endpoints::DASHBOARD);
    format!("{}{path}", dashboard.strip_suffix("/status").unwrap_or(dashboard))
}

#[cfg(test)]
mod tests;
