//! Ray: a head node and worker nodes, each `ray start --block` with the processes below it.
//!
//! All of them listen on the loopback address only. By itself, Ray replaces that by an address that others can reach, and
//! that changes with the network of a laptop; nodes and clients are configured not to.

use std::collections::{BTreeMap, HashMap, HashSet};

use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use muster_core::quantity::Memory;
use muster_core::shape::Shape;
use muster_core::time::Timestamp;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::ask::{Ask, Unreadable, json as read};
use crate::contact::{Contact, Secret};
use crate::endpoints::Endpoints;
use crate::local::{
    Activity, Launch, Leaving, LiveWorker, LocalFramework, Package, Ports, Retirement, Seat, Signal, Stop,
    Tell, Whereabouts,
};

/// Ray.
pub(crate) struct Ray;

/// Where nodes are.
const HOST: &str = "127.0.0.1";

/// The port of the global control service, which nodes and programs on this machine connect to.
const GCS: &str = "gcs";

/// The port for programs that are no part of the cluster, and the purpose of its address.
const CLIENT: &str = "client";

/// The port of the dashboard, and of everything that is asked by HTTP.
const DASHBOARD: &str = "dashboard";

/// Nodes that live, the head too. Ray lists 100 unless it is told otherwise, the dead ones among them, and 10,000 at most.
const ALIVE: &str = "/api/v0/nodes?filter_keys=state&filter_predicates=%3D&filter_values=ALIVE&limit=10000";

/// An actor that has not ended; more than one need not be known.
const ACTORS: &str = "/api/v0/actors?filter_keys=state&filter_predicates=%21%3D&filter_values=DEAD&limit=1";

/// Tasks that run, and actors that live, busy or not: each occupies its node.
const OCCUPANTS: [&str; 2] = [
    "/api/v0/tasks?filter_keys=state&filter_predicates=%3D&filter_values=RUNNING&limit=10000",
    "/api/v0/actors?filter_keys=state&filter_predicates=%3D&filter_values=ALIVE&limit=10000",
];

/// What nodes and clients are told of the secret.
const AUTH_MODE: &str = "RAY_AUTH_MODE";
const AUTH_TOKEN: &str = "RAY_AUTH_TOKEN";
const TOKEN: &str = "token";

/// How long a node that is told to end drains itself: those that should have drained have, before they are told.
const DRAIN_AT_END: (&str, &str) = ("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "0");

/// Has clients take a loopback address for what it is. For nodes, their program sets this.
const LOOPBACK: (&str, &str) = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0");

/// Starts a node.
const NODE: &str = include_str!("ray/node.py");

/// What a head is told beside.
const HEAD: [(&str, &str); 4] = [
    // Ports of metrics that would be the same for all clusters of a machine.
    ("AUTOSCALER_METRIC_PORT", "0"),
    ("DASHBOARD_METRIC_PORT", "0"),
    // Seconds within which a process for a client has to start; 30 are too few on a machine that is busy.
    ("RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S", "120"),
    // What gRPC 1.85 does in a fork crashes the process that is made for the first client.
    ("GRPC_ENABLE_FORK_SUPPORT", "0"),
];

/// Memory for objects of a node whose memory is not said; it is taken as objects come. Ray's own default is a third of
/// the machine, for every node.
const OBJECTS: Memory = Memory::from_bytes(512 << 20);

/// The least that Ray takes.
const OBJECTS_AT_LEAST: u64 = 80 << 20;

/// Lets workers go.
const DRAIN: &str = concat!(include_str!("end_with_caller.py"), include_str!("ray/drain.py"));

impl LocalFramework for Ray {
    fn framework(&self) -> Framework {
        Framework::Ray
    }

    fn package(&self) -> Package {
        Package { module: "ray", pins: include_str!("../pins/ray.txt") }
    }

    fn workers_outlive_head(&self) -> bool {
        // What the head knows is lost with it, and workers that are unknown to a head end.
        false
    }

    fn several_groups(&self) -> bool {
        true
    }

    fn starts_alone(&self) -> bool {
        // Two of a session that start at once take the same sockets, and one of them fails after a while.
        true
    }

    fn whereabouts(&self) -> Whereabouts {
        Whereabouts::Given { ports: &[GCS, CLIENT, DASHBOARD], endpoints }
    }

    fn head(&self, seat: Seat<'_>, ports: &Ports) -> Launch {
        let port = |name: &str| ports.get(name).copied().unwrap_or(0).to_string();
        let own = [
            "--head",
            "--port",
            &port(GCS),
            "--ray-client-server-port",
            &port(CLIENT),
            // Without it there is nobody to ask; said, so that packages which it needs are missed at once.
            "--include-dashboard",
            "true",
            "--dashboard-host",
            HOST,
            "--dashboard-port",
            &port(DASHBOARD),
            "--temp-dir",
            seat.short,
            "--disable-usage-stats",
        ];
        // Nothing runs beside what a cluster depends on, unless it is made for that.
        let mut launch = start(seat, &own, cpus(seat.shape).unwrap_or(0));
        launch.environment.extend(HEAD.map(|(name, value)| (name.to_owned(), value.to_owned())));
        launch
    }

    fn worker(&self, seat: Seat<'_>, head: &Contact) -> Launch {
        start(seat, &["--address", head.of(Endpoints::ADDRESS)], cpus(seat.shape).unwrap_or(1))
    }

    fn ports(&self, endpoints: &Endpoints) -> Ports {
        let known = [(GCS, Endpoints::ADDRESS), (CLIENT, CLIENT), (DASHBOARD, Endpoints::DASHBOARD)];
        let port = |(name, purpose): (&str, &str)| Some((name.to_owned(), endpoints.port(purpose)?));
        known.into_iter().filter_map(port).collect()
    }

    fn ask_workers(&self, head: &Contact) -> Ask {
        http(head, ALIVE)
    }

    fn workers(&self, answer: &[u8]) -> Result<Vec<LiveWorker>, Unreadable> {
        const WHAT: &str = "the head's list of nodes";
        #[derive(Deserialize)]
        struct Listed {
            node_id: String,
            node_name: String,
            is_head_node: bool,
            state: String,
        }
        let alive = listed::<Listed>(WHAT, answer)?.into_iter().filter(|node| node.state == "ALIVE");
        let (heads, workers): (Vec<Listed>, Vec<Listed>) = alive.partition(|node| node.is_head_node);
        if heads.is_empty() {
            // Its dashboard answers before there is anything to connect to.
            return Err(Unreadable { what: WHAT, why: "the head itself is not there yet".to_owned() });
        }
        let live = |node: Listed| LiveWorker { name: node.node_name, address: node.node_id };
        Ok(workers.into_iter().map(live).collect())
    }

    fn ask_load(&self, head: &Contact) -> Vec<Ask> {
        OCCUPANTS.iter().map(|path| http(head, path)).collect()
    }

    fn load(&self, answer: &[u8]) -> Result<HashMap<String, u64>, Unreadable> {
        #[derive(Deserialize)]
        struct Occupant {
            node_id: Option<String>,
        }
        let mut loads = HashMap::new();
        for node in listed::<Occupant>("the head's list of tasks or actors", answer)?
            .into_iter()
            .filter_map(|occupant| occupant.node_id)
        {
            *loads.entry(node).or_default() += 1;
        }
        Ok(loads)
    }

    fn retire(&self, Retirement { head, workers, python, within }: Retirement<'_>) -> Tell {
        let within = within.to_string();
        // Isolated, so that no folder called ray is taken for Ray.
        let mut command = vec![python, "-I", "-c", DRAIN, head.of(Endpoints::ADDRESS), &within];
        command.extend(workers.iter().map(|worker| worker.address.as_str()));
        Tell::Run(Launch::of(&command, &authentication(&head.secret)))
    }

    fn retired(&self, _: &[LiveWorker], answer: &[u8]) -> Result<HashSet<String>, Unreadable> {
        read("the list of nodes that were drained", answer)
    }

    fn leaving(&self, _: &LiveWorker, _: u32) -> Leaving {
        // By the time of the answer nothing runs there. What remains does not end by itself, and for as long as it waits
        // for the start of its node it does not hear that it should.
        Leaving::Left
    }

    fn ask_activity(&self, head: &Contact) -> Ask {
        http(head, "/api/component_activities")
    }

    fn activity(&self, answer: &[u8]) -> Activity {
        #[derive(Deserialize)]
        struct Component {
            is_active: String,
            last_activity_at: Option<f64>,
        }
        // Programs that are connected, and whatever else was told to Ray to count.
        let Ok(components) = read::<BTreeMap<String, Component>>("the head's activity", answer) else {
            return Activity::Unknown;
        };
        let mut last = Activity::IdleSince(Timestamp::default());
        for component in components.values() {
            match (component.is_active.as_str(), component.last_activity_at) {
                ("ACTIVE", _) => return Activity::Busy,
                // Nobody ever was.
                ("INACTIVE", None) => {}
                ("INACTIVE", Some(at)) => last = later(last, Activity::idle_since_seconds(at)),
                _ => last = Activity::Unknown,
            }
        }
        if components.is_empty() { Activity::Unknown } else { last }
    }

    fn ask_unattended(&self, head: &Contact) -> Option<Ask> {
        Some(http(head, ACTORS))
    }

    fn unattended(&self, answer: &[u8]) -> Result<bool, Unreadable> {
        // Those that are left are detached from the program that made them, such as what serves a model.
        listed::<IgnoredAny>("the head's list of actors", answer).map(|actors| !actors.is_empty())
    }

    fn client_environment(&self, head: &Contact, _: &str) -> BTreeMap<String, String> {
        let mut known = vec![
            ("RAY_ADDRESS", head.of(Endpoints::ADDRESS)),
            // Where jobs are submitted to.
            ("RAY_API_SERVER_ADDRESS", head.of(Endpoints::DASHBOARD)),
            LOOPBACK,
        ];
        known.extend(authentication(&head.secret));
        known.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn stop(&self, _: NodeRole) -> Stop {
        Stop { signal: Signal::Terminate, grace: 10 }
    }
}

fn start(seat: Seat<'_>, own: &[&str], cpus: u64) -> Launch {
    let (objects, memory) = (objects(seat.shape).to_string(), memory(seat, cpus).to_string());
    let (cpus, gpus) = (cpus.to_string(), seat.shape.gpu.unwrap_or(0).to_string());
    let mut command = vec![seat.python, "-c", NODE, "start", "--block"];
    command.extend(own);
    command.extend(["--node-ip-address", HOST, "--node-name", seat.name]);
    command.extend(["--num-cpus", &cpus, "--num-gpus", &gpus]);
    command.extend(["--memory", &memory, "--object-store-memory", &objects]);
    // Any port that is free, where nobody needs to know it: Ray would take the same for all clusters.
    command.extend([
        "--min-worker-port",
        "0",
        "--max-worker-port",
        "0",
        "--dashboard-agent-listen-port",
        "0",
    ]);
    // Folders for sockets are often in memory.
    command.extend(["--object-spilling-directory", seat.folder, "--log-color", "false"]);
    let mut environment = vec![DRAIN_AT_END];
    environment.extend(authentication(seat.secret));
    Launch::of(&command, &environment)
}

/// What a list of the head's has.
fn listed<T: DeserializeOwned>(what: &'static str, answer: &[u8]) -> Result<Vec<T>, Unreadable> {
    #[derive(Deserialize)]
    struct Answer<T> {
        data: Data<T>,
    }
    #[derive(Deserialize)]
    struct Data<T> {
        result: List<T>,
    }
    #[derive(Deserialize)]
    struct List<T> {
        result: Vec<T>,
    }
    let Answer { data } = read(what, answer)?;
    Ok(data.result.result)
}

/// What whoever talks to a cluster has to know.
fn authentication(secret: &Secret) -> [(&str, &str); 2] {
    [(AUTH_MODE, TOKEN), (AUTH_TOKEN, secret.reveal())]
}

/// Where a head with these ports answers.
fn endpoints(ports: &Ports) -> Endpoints {
    let port = |name: &str| ports.get(name).copied().unwrap_or(0);
    Endpoints::default()
        .with(Endpoints::ADDRESS, format!("{HOST}:{}", port(GCS)))
        .with(CLIENT, format!("ray://{HOST}:{}", port(CLIENT)))
        .with(Endpoints::DASHBOARD, format!("http://{HOST}:{}", port(DASHBOARD)))
}

/// Whole ones, as Ray counts them.
fn cpus(shape: &Shape) -> Option<u64> {
    shape.cpu.map(|cpu| cpu.millis().div_ceil(1000))
}

/// The memory of a node; where none is said, as much of the machine's as it has of the machine's cores, so that all nodes
/// together do not tell Ray of more than there is. By itself, Ray would give all of it to each of them.
fn memory(Seat { shape, machine, .. }: Seat<'_>, cpus: u64) -> u64 {
    let share = || {
        let (cores, whole) = (machine.cpu.millis().max(1), machine.memory.bytes());
        let share = u128::from(whole) * u128::from(cpus * 1000) / u128::from(cores);
        u64::try_from(share).map_or(whole, |share| share.min(whole))
    };
    shape.memory.map_or_else(share, Memory::bytes)
}

/// Three tenths of a node's memory, as Ray divides that of a machine.
fn objects(shape: &Shape) -> u64 {
    let memory = shape.memory.map_or(OBJECTS.bytes(), |memory| memory.bytes() / 10 * 3);
    memory.max(OBJECTS_AT_LEAST)
}

/// A path of the dashboard.
fn http(head: &Contact, path: &str) -> Ask {
    Ask::get(format!("{}{path}", head.of(Endpoints::DASHBOARD))).knowing(&head.secret)
}

/// The later of two times since when nothing has run; unknown if one is.
fn later(one: Activity, other: Activity) -> Activity {
    match (one, other) {
        (Activity::IdleSince(one), Activity::IdleSince(other)) => Activity::IdleSince(one.max(other)),
        (Activity::IdleSince(_), other) => other,
        (one, _) => one,
    }
}

#[cfg(test)]
mod tests;
