//! Spark standalone: a master and its workers.

use std::collections::{BTreeMap, HashMap, HashSet};

use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use muster_core::shape::Shape;
use muster_core::time::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::ask::{Ask, Unreadable, json as read};
use crate::contact::Contact;
use crate::endpoints::Endpoints;
use crate::local::{
    Activity, Launch, Leaving, LiveWorker, LocalFramework, Names, Package, Ports, Retirement, Seat, Signal,
    Stop, Tell, Whereabouts,
};
use crate::requirement::{JAVA, Requirement};

/// Spark's own cluster manager.
pub(crate) struct Spark;

/// The port that drivers and workers connect to.
const MASTER: &str = "master";

/// The port of the master's pages, and of everything that it is asked by HTTP.
const DASHBOARD: &str = "dashboard";

/// Where the master is, and drivers.
const HEAD_HOST: &str = "127.0.0.1";

/// What a master or a worker needs itself, in MiB: what runs in a worker has its own.
pub(crate) const DAEMON_MEMORY: u64 = 256;

/// What a worker may give to executors if nobody says, in MiB: an executor of whoever says nothing either.
const WORKER_MEMORY: u64 = 1024;

/// A small heap and short work: the least that a Java machine can start with. A file for observers in the machine's
/// temporary folder would stay behind one that is killed.
pub(crate) const LIGHT: &str = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData";

/// A port that is taken is an error, and not a reason to take the next: nobody would find it there. Jobs are not taken
/// by HTTP, and workers are let go.
pub(crate) const MASTER_OPTIONS: &str = "-Dspark.port.maxRetries=0 -Dspark.master.rest.enabled=false \
                                         -Dspark.decommission.enabled=true";

/// Whom a master does not hear of within so many seconds after its restart is gone.
const RECOVERY: &str = "-Dspark.deploy.recoveryMode=FILESYSTEM -Dspark.deploy.recoveryTimeout=15";

/// A worker that is let go, and every executor on it, finishes what it does, hands its blocks to others, and looks
/// every second (and not every half minute) whether all are there. Executors believe what their driver says, so by
/// default nothing of this; unless their Java machine is told.
pub(crate) const DECOMMISSION: &str = "-Dspark.decommission.enabled=true -Dspark.storage.decommission.enabled=true \
                            -Dspark.storage.decommission.replicationReattemptInterval=1s -XX:-UsePerfData";

impl LocalFramework for Spark {
    fn framework(&self) -> Framework {
        Framework::Spark
    }

    fn package(&self) -> Package {
        Package { module: "pyspark", pins: include_str!("../pins/spark.txt") }
    }

    fn requirement(&self) -> Option<Requirement> {
        Some(JAVA)
    }

    fn workers_outlive_head(&self) -> bool {
        // What the master knew of them is kept, and its next start tells them, and drivers too.
        true
    }

    fn names(&self) -> Names {
        // Workers are let go by host.
        Names::Addresses
    }

    fn whereabouts(&self) -> Whereabouts {
        Whereabouts::Given { ports: &[MASTER, DASHBOARD], endpoints }
    }

    fn head(&self, seat: Seat<'_>, ports: &Ports) -> Launch {
        let port = |name: &str| ports.get(name).copied().unwrap_or(0).to_string();
        let recovery = quoted("-Dspark.deploy.recoveryDirectory=", &format!("{}/recovery", seat.kept));
        let options = format!("{LIGHT} {MASTER_OPTIONS} {RECOVERY} {recovery} {}", temporary(seat));
        let arguments = ["--host", HEAD_HOST, "--port", &port(MASTER), "--webui-port", &port(DASHBOARD)];
        let memory = mebibytes(seat.shape).unwrap_or(DAEMON_MEMORY);
        daemon(seat, "master.Master", &arguments, HEAD_HOST, memory, &options)
    }

    fn worker(&self, seat: Seat<'_>, head: &Contact) -> Launch {
        let memory = format!("{}m", mebibytes(seat.shape).unwrap_or(WORKER_MEMORY));
        let cores = seat.shape.cpu.map_or(1, |cpu| cpu.millis().div_ceil(1000).max(1)).to_string();
        // What executors write is looked at when their worker has long gone.
        let applications = format!("{}/executors/{}", seat.kept, seat.name);
        let arguments = [
            head.of(Endpoints::ADDRESS),
            "--host",
            seat.name,
            "--cores",
            &cores,
            "--memory",
            &memory,
            "--webui-port",
            "0",
            "--work-dir",
            &applications,
        ];
        let mut launch = daemon(seat, "worker.Worker", &arguments, seat.name, DAEMON_MEMORY, LIGHT);
        let executors = format!("{DECOMMISSION} {}", temporary(seat));
        launch.environment.insert("JAVA_TOOL_OPTIONS".to_owned(), executors);
        launch.environment.insert("SPARK_LOCAL_DIRS".to_owned(), seat.folder.to_owned());
        launch
    }

    fn ports(&self, endpoints: &Endpoints) -> Ports {
        let known = [(MASTER, Endpoints::ADDRESS), (DASHBOARD, Endpoints::DASHBOARD)];
        let port = |(name, purpose): (&str, &str)| Some((name.to_owned(), endpoints.port(purpose)?));
        known.into_iter().filter_map(port).collect()
    }

    fn ask_workers(&self, head: &Contact) -> Ask {
        Ask::get(format!("{}json/", head.of(Endpoints::DASHBOARD)))
    }

    fn workers(&self, answer: &[u8]) -> Result<Vec<LiveWorker>, Unreadable> {
        #[derive(Deserialize)]
        struct Answer {
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
        let Answer { status, workers } = read(what, answer)?;
        if status != "ALIVE" {
            // It has not heard yet of all that it knew before its restart.
            return Err(Unreadable { what, why: format!("the master is {status}") });
        }
        let alive = workers.into_iter().filter(|worker| worker.state == "ALIVE");
        Ok(alive.map(|worker| LiveWorker { name: worker.host, address: worker.webuiaddress }).collect())
    }

    fn ask_load(&self, head: &Contact) -> Vec<Ask> {
        vec![self.ask_workers(head)]
    }

    fn load(&self, answer: &[u8]) -> Result<HashMap<String, u64>, Unreadable> {
        #[derive(Deserialize)]
        struct Answer {
            workers: Vec<Worker>,
        }
        #[derive(Deserialize)]
        struct Worker {
            webuiaddress: String,
            coresused: u64,
        }
        let Answer { workers } = read("the master's list of workers", answer)?;
        let busy = workers.into_iter().filter(|worker| worker.coresused > 0);
        Ok(busy.map(|worker| (worker.webuiaddress, worker.coresused)).collect())
    }

    fn retire(&self, Retirement { head, workers, .. }: Retirement<'_>) -> Tell {
        let hosts: Vec<String> = workers.iter().map(|worker| format!("host={}", worker.name)).collect();
        let url = format!("{}workers/kill/?{}", head.of(Endpoints::DASHBOARD), hosts.join("&"));
        Tell::Ask(Ask::post(url))
    }

    fn retired(&self, workers: &[LiveWorker], _: &[u8]) -> Result<HashSet<String>, Unreadable> {
        // It says no more than that there was one of them at least.
        Ok(workers.iter().map(|worker| worker.address.clone()).collect())
    }

    fn leaving(&self, worker: &LiveWorker, _: u32) -> Leaving {
        // It stays for ever, and only itself knows when its last executor has gone.
        Leaving::Until(Ask::get(format!("{}/json/", worker.address)))
    }

    fn has_left(&self, answer: &[u8]) -> Result<bool, Unreadable> {
        #[derive(Deserialize)]
        struct Answer {
            executors: Vec<IgnoredAny>,
        }
        let Answer { executors } = read("the worker's list of executors", answer)?;
        Ok(executors.is_empty())
    }

    fn ask_activity(&self, head: &Contact) -> Ask {
        self.ask_workers(head)
    }

    fn activity(&self, answer: &[u8]) -> Activity {
        #[derive(Deserialize)]
        struct Answer {
            status: String,
            activeapps: Vec<IgnoredAny>,
            activedrivers: Vec<IgnoredAny>,
            completedapps: Vec<Application>,
        }
        #[derive(Deserialize)]
        struct Application {
            /// In milliseconds, both.
            starttime: i64,
            duration: i64,
        }
        let Ok(answer) = read::<Answer>("the master's list of applications", answer) else {
            return Activity::Unknown;
        };
        if answer.status != "ALIVE" {
            return Activity::Unknown;
        }
        if !answer.activeapps.is_empty() || !answer.activedrivers.is_empty() {
            return Activity::Busy;
        }
        let end = |app: &Application| app.starttime.saturating_add(app.duration).saturating_mul(1000);
        // Of one that nobody has used since its start: since ever. It does not say when that was.
        let last = answer.completedapps.iter().map(end).max().unwrap_or_default();
        Activity::IdleSince(Timestamp::from_micros(last))
    }

    fn client_environment(&self, head: &Contact, python: &str) -> BTreeMap<String, String> {
        let mut variables = environment(&head.endpoints);
        if variables.is_empty() {
            return variables;
        }
        let here = [
            // Executors are told to come to the driver where they can.
            ("SPARK_LOCAL_IP", HEAD_HOST),
            // A driver asks for its own Python by name, and executors would take the first that is called so.
            ("PYSPARK_PYTHON", python),
        ];
        variables.extend(here.map(|(name, value)| (name.to_owned(), value.to_owned())));
        variables
    }

    fn stop(&self, role: NodeRole) -> Stop {
        match role {
            NodeRole::Head => Stop { signal: Signal::Terminate, grace: 5 },
            // It gives its executors ten seconds.
            NodeRole::Worker | NodeRole::Unknown(_) => Stop { signal: Signal::Terminate, grace: 15 },
        }
    }
}

/// What programs need in their environment to find a master.
pub(crate) fn environment(endpoints: &Endpoints) -> BTreeMap<String, String> {
    let Some(address) = endpoints.get(Endpoints::ADDRESS) else { return BTreeMap::new() };
    // The second is what Spark itself reads, so that a session needs no word of where.
    ["SPARK_MASTER", "MASTER"].map(|name| (name.to_owned(), address.to_owned())).into()
}

/// Where a master with these ports answers.
fn endpoints(ports: &Ports) -> Endpoints {
    let at = |name: &str| format!("{HEAD_HOST}:{}", ports.get(name).copied().unwrap_or(0));
    Endpoints::default()
        .with(Endpoints::ADDRESS, format!("spark://{}", at(MASTER)))
        .with(Endpoints::DASHBOARD, format!("http://{}/", at(DASHBOARD)))
}

/// A master or a worker: the program becomes the Java machine.
fn daemon(seat: Seat<'_>, class: &str, arguments: &[&str], host: &str, memory: u64, options: &str) -> Launch {
    let (program, class) =
        (format!("{}/bin/spark-class", seat.package), format!("org.apache.spark.deploy.{class}"));
    let command: Vec<&str> =
        [program.as_str(), &class].into_iter().chain(arguments.iter().copied()).collect();
    let memory = format!("{memory}m");
    let environment = [
        ("SPARK_HOME", seat.package),
        ("SPARK_NO_DAEMONIZE", "1"),
        ("SPARK_DAEMON_MEMORY", &memory),
        ("SPARK_DAEMON_JAVA_OPTS", options),
        ("SPARK_LOCAL_IP", host),
        ("SPARK_PUBLIC_DNS", host),
    ];
    Launch::of(&command, &environment)
}

/// Where Java puts what it needs for a while: otherwise it stays in the machine's folder behind one that is killed.
fn temporary(seat: Seat<'_>) -> String {
    quoted("-Djava.io.tmpdir=", seat.folder)
}

/// An option whose value is a path, which may have spaces.
fn quoted(option: &str, path: &str) -> String {
    format!("\"{option}{path}\"")
}

/// The memory of a shape in MiB, in which Spark counts.
fn mebibytes(shape: &Shape) -> Option<u64> {
    shape.memory.map(|memory| (memory.bytes() >> 20).max(1))
}

#[cfg(test)]
mod tests;
