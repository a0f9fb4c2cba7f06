//! Dask: a scheduler and its workers.

use std::collections::{BTreeMap, HashMap, HashSet};

use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use muster_core::shape::Shape;
use serde::Deserialize;

use crate::ask::{Ask, Unreadable, json as read};
use crate::contact::Contact;
use crate::endpoints::Endpoints;
use crate::local::{
    Activity, Launch, Leaving, LiveWorker, LocalFramework, Package, Ports, Retirement, Seat, Signal, Stop,
    Tell, Whereabouts,
};

/// Dask's distributed scheduler.
pub(crate) struct Dask;

/// Everything that the scheduler serves by default, and `scheduler.api`, by which workers are listed.
pub(crate) const ROUTES: &str = r#"["distributed.http.scheduler.prometheus","distributed.http.scheduler.info","distributed.http.scheduler.json","distributed.http.health","distributed.http.proxy","distributed.http.statics","distributed.http.scheduler.api"]"#;

/// The setting that says what the scheduler serves.
pub(crate) const ROUTES_VARIABLE: &str = "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES";

/// Where the scheduler tells its addresses.
const SCHEDULER_FILE: &str = "scheduler.json";

/// The port that clients and workers connect to.
const SCHEDULER: &str = "scheduler";

/// The port of the dashboard, and of everything that is asked by HTTP.
const DASHBOARD: &str = "dashboard";

/// Where scratch space goes: otherwise every process leaves a folder in the machine's temporary one.
const SCRATCH: &str = "DASK_TEMPORARY_DIRECTORY";

/// The states of tasks that a worker has yet to finish.
const PENDING: [&str; 5] = ["executing", "long-running", "ready", "constrained", "waiting"];

/// Drains workers.
const DRAIN: &str = concat!(include_str!("end_with_caller.py"), include_str!("dask/drain.py"));

/// Seconds after which a worker that finds no scheduler gives up.
const DEATH_TIMEOUT: &str = "60";

impl LocalFramework for Dask {
    fn framework(&self) -> Framework {
        Framework::Dask
    }

    fn package(&self) -> Package {
        Package { module: "distributed", pins: include_str!("../pins/dask.txt") }
    }

    fn workers_outlive_head(&self) -> bool {
        // The graph is lost with the scheduler, and a worker that loses its connection ends.
        false
    }

    fn head(&self, seat: Seat<'_>, ports: &Ports) -> Launch {
        let port = |name: &str| ports.get(name).copied().unwrap_or(0);
        let (scheduler, dashboard) = (port(SCHEDULER).to_string(), format!("127.0.0.1:{}", port(DASHBOARD)));
        let file = format!("{}/{SCHEDULER_FILE}", seat.folder);
        let command = [
            seat.python,
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
        Launch::of(&command, &[routes, (SCRATCH, seat.folder)])
    }

    fn worker(&self, seat: Seat<'_>, head: &Contact) -> Launch {
        let threads = threads(seat.shape).to_string();
        let memory = seat.shape.memory.map_or_else(|| "auto".to_owned(), |memory| memory.bytes().to_string());
        let command = [
            seat.python,
            "-m",
            "dask",
            "worker",
            head.of(Endpoints::ADDRESS),
            "--host",
            "127.0.0.1",
            "--name",
            seat.name,
            "--nworkers",
            "1",
            "--nthreads",
            &threads,
            "--memory-limit",
            &memory,
            "--no-nanny",
            "--no-dashboard",
            // It listens all the same, and on every address if it is not told where.
            "--dashboard-address",
            "127.0.0.1:0",
            "--death-timeout",
            DEATH_TIMEOUT,
            "--local-directory",
            seat.folder,
        ];
        let mut launch = Launch::of(&command, &[(SCRATCH, seat.folder)]);
        if let Some(gpus) = seat.shape.gpu.filter(|gpus| *gpus > 0) {
            launch.command.extend(["--resources".to_owned(), format!("GPU={gpus}")]);
        }
        launch
    }

    fn whereabouts(&self) -> Whereabouts {
        Whereabouts::Told { file: SCHEDULER_FILE, read: endpoints }
    }

    fn ports(&self, endpoints: &Endpoints) -> Ports {
        let known = [(SCHEDULER, Endpoints::ADDRESS), (DASHBOARD, Endpoints::DASHBOARD)];
        let port = |(name, purpose): (&str, &str)| Some((name.to_owned(), endpoints.port(purpose)?));
        known.into_iter().filter_map(port).collect()
    }

    fn ask_workers(&self, head: &Contact) -> Ask {
        Ask::get(http(head, "/api/v1/get_workers"))
    }

    fn workers(&self, answer: &[u8]) -> Result<Vec<LiveWorker>, Unreadable> {
        #[derive(Deserialize)]
        struct Answer {
            workers: Vec<Worker>,
        }
        #[derive(Deserialize)]
        struct Worker {
            /// A text if we named it; a worker that somebody added by hand may have a number.
            name: serde_json::Value,
            address: String,
        }
        let Answer { workers } = read("the scheduler's list of workers", answer)?;
        let alive = |Worker { name, address }| LiveWorker {
            name: name.as_str().map_or_else(|| name.to_string(), str::to_owned),
            address,
        };
        Ok(workers.into_iter().map(alive).collect())
    }

    fn ask_load(&self, head: &Contact) -> Vec<Ask> {
        vec![Ask::get(http(head, "/json/identity.json"))]
    }

    fn load(&self, answer: &[u8]) -> Result<HashMap<String, u64>, Unreadable> {
        #[derive(Deserialize)]
        struct Answer {
            workers: HashMap<String, Worker>,
        }
        #[derive(Deserialize)]
        struct Worker {
            #[serde(default)]
            metrics: Metrics,
        }
        /// What a worker said last, half a second ago at most where there are few.
        #[derive(Deserialize, Default)]
        struct Metrics {
            #[serde(default)]
            task_counts: HashMap<String, u64>,
        }
        let Answer { workers } = read("the scheduler's account of its workers", answer)?;
        let tasks = |Worker { metrics }: Worker| -> u64 {
            let pending = metrics.task_counts.iter().filter(|(state, _)| PENDING.contains(&state.as_str()));
            pending.map(|(_, count)| count).sum()
        };
        let loads = workers.into_iter().map(|(address, worker)| (address, tasks(worker)));
        Ok(loads.filter(|(_, load)| *load > 0).collect())
    }

    fn retire(&self, Retirement { head, workers, python, within }: Retirement<'_>) -> Tell {
        let within = within.to_string();
        // Isolated, so that no folder called distributed is taken for Dask's.
        let mut command = vec![python, "-I", "-c", DRAIN, head.of(Endpoints::ADDRESS), &within];
        command.extend(workers.iter().map(|worker| worker.address.as_str()));
        Tell::Run(Launch::of(&command, &[]))
    }

    fn retired(&self, _: &[LiveWorker], answer: &[u8]) -> Result<HashSet<String>, Unreadable> {
        read("the list of workers that were drained", answer)
    }

    fn leaving(&self, _: &LiveWorker, _: u32) -> Leaving {
        // What it held is elsewhere by the time of the answer, and the scheduler has closed it.
        Leaving::Ends(5)
    }

    fn ask_activity(&self, head: &Contact) -> Ask {
        Ask::get(http(head, "/api/v1/check_idle"))
    }

    fn activity(&self, answer: &[u8]) -> Activity {
        #[derive(Deserialize)]
        struct Answer {
            idle_since: Option<f64>,
        }
        match read("the scheduler's idleness", answer) {
            Ok(Answer { idle_since: None }) => Activity::Busy,
            Ok(Answer { idle_since: Some(seconds) }) => Activity::idle_since_seconds(seconds),
            Err(_) => Activity::Unknown,
        }
    }

    fn client_environment(&self, head: &Contact, _: &str) -> BTreeMap<String, String> {
        environment(&head.endpoints)
    }

    fn stop(&self, role: NodeRole) -> Stop {
        match role {
            // An interrupted scheduler closes in order; a terminated worker says good-bye to it.
            NodeRole::Head => Stop { signal: Signal::Interrupt, grace: 5 },
            NodeRole::Worker | NodeRole::Unknown(_) => Stop { signal: Signal::Terminate, grace: 10 },
        }
    }
}

/// What clients of a scheduler need in their environment.
pub(crate) fn environment(endpoints: &Endpoints) -> BTreeMap<String, String> {
    let address = endpoints.get(Endpoints::ADDRESS);
    address.map(|address| ("DASK_SCHEDULER_ADDRESS".to_owned(), address.to_owned())).into_iter().collect()
}

/// Reads what a scheduler tells of itself.
fn endpoints(file: &[u8]) -> Result<Endpoints, Unreadable> {
    #[derive(Deserialize)]
    struct File {
        address: String,
        services: Services,
    }
    #[derive(Deserialize)]
    struct Services {
        dashboard: u16,
    }
    let File { address, services } = read(SCHEDULER_FILE, file)?;
    let dashboard = format!("http://127.0.0.1:{}/status", services.dashboard);
    Ok(Endpoints::default().with(Endpoints::ADDRESS, address).with(Endpoints::DASHBOARD, dashboard))
}

/// A thread for every core or part of one.
fn threads(shape: &Shape) -> u64 {
    shape.cpu.map_or(1, |cpu| cpu.millis().div_ceil(1000).max(1))
}

/// A path of the scheduler's HTTP server, of which the dashboard is a page.
fn http(head: &Contact, path: &str) -> String {
    let dashboard = head.of(Endpoints::DASHBOARD);
    format!("{}{path}", dashboard.strip_suffix("/status").unwrap_or(dashboard))
}

#[cfg(test)]
mod tests;
