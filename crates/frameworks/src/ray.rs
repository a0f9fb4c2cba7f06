//! Ray as local processes: a head and workers, each `ray start --block` with its child processes.
//!
//! All of them listen on the loopback address only. By default, Ray replaces 127.0.0.1 by an address that other
//! machines can reach, and that changes with the network of a laptop; nodes and clients are configured not to do so.

use std::collections::{BTreeMap, HashMap, HashSet};

use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use muster_core::quantity::Memory;
use muster_core::shape::Shape;
use muster_core::time::Timestamp;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::endpoints::Endpoints;
use crate::head_access::{HeadAccess, Secret};
use crate::local::{
    Activity, AfterRetirement, EndpointDiscovery, GracefulShutdown, HeadCommand, HeadPorts, LaunchContext,
    LiveWorker, LocalFramework, OutputFolder, ProcessSpec, PythonPackage, ShutdownSignal, TaskOutput,
    WorkerRetirement,
};
use crate::request::{FrameworkRequest, UnreadableResponse, parse_json};

/// The framework Ray.
pub(crate) struct Ray;

/// The address of all nodes.
const HOST: &str = "127.0.0.1";

/// The port of the global control service, which nodes and programs on this machine connect to.
const GCS: &str = "gcs";

/// The port of Ray Client, for programs outside the cluster, and the purpose of its address.
const CLIENT: &str = "client";

/// The port of the dashboard and of all other HTTP requests.
const DASHBOARD: &str = "dashboard";

/// Lists live nodes with the head. Without a filter and limit, Ray lists 100 nodes, dead ones among them; 10,000 is its
/// maximum.
const ALIVE: &str = "/api/v0/nodes?filter_keys=state&filter_predicates=%3D&filter_values=ALIVE&limit=10000";

/// Lists one actor that is not dead: its existence is all that is used.
const ACTORS: &str = "/api/v0/actors?filter_keys=state&filter_predicates=%21%3D&filter_values=DEAD&limit=1";

/// Lists running tasks, and live actors: each occupies its node, even if an actor is idle.
const OCCUPANTS: [&str; 2] = [
    "/api/v0/tasks?filter_keys=state&filter_predicates=%3D&filter_values=RUNNING&limit=10000",
    "/api/v0/actors?filter_keys=state&filter_predicates=%3D&filter_values=ALIVE&limit=10000",
];

/// The variables with the secret of the cluster.
const AUTH_MODE: &str = "RAY_AUTH_MODE";
const AUTH_TOKEN: &str = "RAY_AUTH_TOKEN";
const TOKEN: &str = "token";

/// The seconds for which a terminated node drains itself: 0, because nodes are drained before they are terminated.
const DRAIN_AT_END: (&str, &str) = ("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "0");

/// Keeps clients from replacing the loopback address. `node.py` does the same for nodes.
const LOOPBACK: (&str, &str) = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0");

/// The Python program that starts a node.
const NODE: &str = include_str!("ray/node.py");

/// Variables of a head.
const HEAD: [(&str, &str); 4] = [
    // The default ports of metrics are the same for all clusters of a machine.
    ("AUTOSCALER_METRIC_PORT", "0"),
    ("DASHBOARD_METRIC_PORT", "0"),
    // The seconds that a client's process has to start; the default of 30 is too short on a busy machine.
    ("RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S", "120"),
    // The fork handlers of gRPC 1.85 crash the process that is forked for the first client.
    ("GRPC_ENABLE_FORK_SUPPORT", "0"),
];

/// The object store of a node without a memory setting; memory is used only as objects are stored. Ray's own default is
/// a third of the machine for every node.
const OBJECTS: Memory = Memory::from_bytes(512 << 20);

/// The smallest object store that Ray accepts.
const OBJECTS_AT_LEAST: u64 = 80 << 20;

/// The Python program that drains workers.
const DRAIN: &str = concat!(include_str!("end_with_caller.py"), include_str!("ray/drain.py"));

impl LocalFramework for Ray {
    fn framework(&self) -> Framework {
        Framework::Ray
    }

    fn package(&self) -> PythonPackage {
        PythonPackage { module: "ray", pins: include_str!("../pins/ray.txt") }
    }

    fn workers_outlive_head(&self) -> bool {
        // The head loses its state, and workers that a head does not know exit.
        false
    }

    fn several_groups(&self) -> bool {
        true
    }

    fn starts_one_by_one(&self) -> bool {
        // Two nodes of a session that start at the same time use the same sockets, and one of them fails later.
        true
    }

    fn endpoint_discovery(&self) -> EndpointDiscovery {
        EndpointDiscovery::AssignedPorts { ports: &[GCS, CLIENT, DASHBOARD], endpoints }
    }

    fn head_process(&self, context: LaunchContext<'_>, ports: &HeadPorts) -> ProcessSpec {
        let port = |name: &str| ports.get(name).copied().unwrap_or(0).to_string();
        let own = [
            "--head",
            "--port",
            &port(GCS),
            "--ray-client-server-port",
            &port(CLIENT),
            // All requests go to the dashboard. The flag is explicit, so that a start without its packages fails at
            // once.
            "--include-dashboard",
            "true",
            "--dashboard-host",
            HOST,
            "--dashboard-port",
            &port(DASHBOARD),
            "--temp-dir",
            context.socket_folder,
            "--disable-usage-stats",
        ];
        // Tasks on the head would endanger the whole cluster, so that it has no cpus unless its shape has some.
        let mut launch = node_process(context, &own, cpus(context.shape).unwrap_or(0));
        launch.environment.extend(HEAD.map(|(name, value)| (name.to_owned(), value.to_owned())));
        launch
    }

    fn worker_process(&self, context: LaunchContext<'_>, head: &HeadAccess) -> ProcessSpec {
        node_process(
            context,
            &[
                "--address",
                head.address(Endpoints::ADDRESS),
                // The nodes of a machine share a folder of logs: with a monitor for each, a driver prints each line of its
                // tasks once per node. Ray has this flag since 2.40.
                "--include-log-monitor",
                "false",
            ],
            cpus(context.shape).unwrap_or(1),
        )
    }

    fn task_output(&self, role: &NodeRole, _: &str) -> Option<TaskOutput> {
        // All nodes of a machine share a session, and the names of files do not contain the node.
        (*role == NodeRole::Head).then(|| TaskOutput {
            folder: OutputFolder::Sockets,
            names: ["session_*", "logs", "worker-*"].map(str::to_owned).to_vec(),
            label: |names| names.last().cloned().unwrap_or_default(),
            hidden: &[":job_id:", ":task_name:", ":actor_name:"],
        })
    }

    fn reusable_ports(&self, endpoints: &Endpoints) -> HeadPorts {
        let known = [(GCS, Endpoints::ADDRESS), (CLIENT, CLIENT), (DASHBOARD, Endpoints::DASHBOARD)];
        let port = |(name, purpose): (&str, &str)| Some((name.to_owned(), endpoints.port(purpose)?));
        known.into_iter().filter_map(port).collect()
    }

    fn workers_request(&self, head: &HeadAccess) -> FrameworkRequest {
        dashboard_request(head, ALIVE)
    }

    fn read_workers(&self, response: &[u8]) -> Result<Vec<LiveWorker>, UnreadableResponse> {
        const WHAT: &str = "the head's list of nodes";
        #[derive(Deserialize)]
        struct Listed {
            node_id: String,
            node_name: String,
            is_head_node: bool,
            state: String,
        }
        let alive = read_list::<Listed>(WHAT, response)?.into_iter().filter(|node| node.state == "ALIVE");
        let (heads, workers): (Vec<Listed>, Vec<Listed>) = alive.partition(|node| node.is_head_node);
        if heads.is_empty() {
            // The dashboard responds before clients can connect.
            return Err(UnreadableResponse {
                what: WHAT,
                why: "the head itself has not registered yet".to_owned(),
            });
        }
        let live = |node: Listed| LiveWorker { name: node.node_name, address: node.node_id };
        Ok(workers.into_iter().map(live).collect())
    }

    fn load_requests(&self, head: &HeadAccess) -> Vec<FrameworkRequest> {
        OCCUPANTS.iter().map(|path| dashboard_request(head, path)).collect()
    }

    fn read_load(&self, response: &[u8]) -> Result<HashMap<String, u64>, UnreadableResponse> {
        #[derive(Deserialize)]
        struct Occupant {
            node_id: Option<String>,
        }
        let mut loads = HashMap::new();
        for node in read_list::<Occupant>("the head's list of tasks or actors", response)?
            .into_iter()
            .filter_map(|occupant| occupant.node_id)
        {
            *loads.entry(node).or_default() += 1;
        }
        Ok(loads)
    }

    fn retire_workers(
        &self,
        WorkerRetirement { head, workers, python, within }: WorkerRetirement<'_>,
    ) -> HeadCommand {
        let within = within.to_string();
        // Isolated mode, because a folder `ray` in the working directory would shadow Ray's package.
        let mut command = vec![python, "-I", "-c", DRAIN, head.address(Endpoints::ADDRESS), &within];
        command.extend(workers.iter().map(|worker| worker.address.as_str()));
        HeadCommand::Program(ProcessSpec::new(&command, &authentication(&head.secret)))
    }

    fn read_retired(&self, _: &[LiveWorker], response: &[u8]) -> Result<HashSet<String>, UnreadableResponse> {
        parse_json("the list of nodes that were drained", response)
    }

    fn after_retirement(&self, _: &LiveWorker, _: u32) -> AfterRetirement {
        // Nothing runs on a drained worker, but its processes do not exit by themselves, and ignore SIGTERM while they
        // wait for the start of their node.
        AfterRetirement::KillNow
    }

    fn activity_request(&self, head: &HeadAccess) -> FrameworkRequest {
        dashboard_request(head, "/api/component_activities")
    }

    fn read_activity(&self, response: &[u8]) -> Activity {
        #[derive(Deserialize)]
        struct Component {
            is_active: String,
            last_activity_at: Option<f64>,
        }
        // The components are the connected programs, and hooks that users have registered with Ray.
        let Ok(components) = parse_json::<BTreeMap<String, Component>>("the head's activity", response)
        else {
            return Activity::Unknown;
        };
        let mut last = Activity::IdleSince(Timestamp::default());
        for component in components.values() {
            match (component.is_active.as_str(), component.last_activity_at) {
                ("ACTIVE", _) => return Activity::Busy,
                // No program has ever connected.
                ("INACTIVE", None) => {}
                ("INACTIVE", Some(at)) => last = later(last, Activity::idle_since_seconds(at)),
                _ => last = Activity::Unknown,
            }
        }
        if components.is_empty() { Activity::Unknown } else { last }
    }

    fn unattended_request(&self, head: &HeadAccess) -> Option<FrameworkRequest> {
        Some(dashboard_request(head, ACTORS))
    }

    fn read_unattended(&self, response: &[u8]) -> Result<bool, UnreadableResponse> {
        // Without a connected program only detached actors are left, such as those that serve a model.
        read_list::<IgnoredAny>("the head's list of actors", response).map(|actors| !actors.is_empty())
    }

    fn client_environment(&self, head: &HeadAccess, _: &str) -> BTreeMap<String, String> {
        let mut known = vec![
            ("RAY_ADDRESS", head.address(Endpoints::ADDRESS)),
            // The address for job submissions.
            ("RAY_API_SERVER_ADDRESS", head.address(Endpoints::DASHBOARD)),
            LOOPBACK,
        ];
        known.extend(authentication(&head.secret));
        known.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn graceful_shutdown(&self, _: NodeRole) -> GracefulShutdown {
        GracefulShutdown { signal: ShutdownSignal::Terminate, grace_seconds: 10 }
    }
}

/// Returns the process of a head or worker with these arguments of its own.
fn node_process(context: LaunchContext<'_>, own: &[&str], cpus: u64) -> ProcessSpec {
    let (objects, memory) = (object_store(context.shape).to_string(), memory(context, cpus).to_string());
    let (cpus, gpus) = (cpus.to_string(), context.shape.gpu.unwrap_or(0).to_string());
    let mut command = vec![context.python, "-c", NODE, "start", "--block"];
    command.extend(own);
    command.extend(["--node-ip-address", HOST, "--node-name", context.name]);
    command.extend(["--num-cpus", &cpus, "--num-gpus", &gpus]);
    command.extend(["--memory", &memory, "--object-store-memory", &objects]);
    // 0 selects free ports, where no client needs to know them: Ray's defaults are the same for all clusters of a
    // machine.
    command.extend([
        "--min-worker-port",
        "0",
        "--max-worker-port",
        "0",
        "--dashboard-agent-listen-port",
        "0",
    ]);
    // The folder for sockets is often in memory, and objects are spilled to free memory.
    command.extend(["--object-spilling-directory", context.node_folder, "--log-color", "false"]);
    let mut environment = vec![DRAIN_AT_END];
    environment.extend(authentication(context.secret));
    ProcessSpec::new(&command, &environment)
}

/// Parses a list of the head's state API.
fn read_list<T: DeserializeOwned>(what: &'static str, response: &[u8]) -> Result<Vec<T>, UnreadableResponse> {
    #[derive(Deserialize)]
    struct Response<T> {
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
    let Response { data } = parse_json(what, response)?;
    Ok(data.result.result)
}

/// Returns the variables with the secret, for nodes and clients.
fn authentication(secret: &Secret) -> [(&str, &str); 2] {
    [(AUTH_MODE, TOKEN), (AUTH_TOKEN, secret.reveal())]
}

/// Returns the endpoints of a head with these ports.
fn endpoints(ports: &HeadPorts) -> Endpoints {
    let port = |name: &str| ports.get(name).copied().unwrap_or(0);
    Endpoints::default()
        .with(Endpoints::ADDRESS, format!("{HOST}:{}", port(GCS)))
        .with(CLIENT, format!("ray://{HOST}:{}", port(CLIENT)))
        .with(Endpoints::DASHBOARD, format!("http://{HOST}:{}", port(DASHBOARD)))
}

/// Returns the cpus of a shape, rounded up because Ray counts whole ones.
fn cpus(shape: &Shape) -> Option<u64> {
    shape.cpu.map(|cpu| cpu.millis().div_ceil(1000))
}

/// Returns the memory of a node. The default is the machine's memory in proportion to the node's cpus, so that all
/// nodes together do not announce more than there is; Ray's own default is the whole memory for every node.
fn memory(LaunchContext { shape, machine, .. }: LaunchContext<'_>, cpus: u64) -> u64 {
    let share = || {
        let (cores, whole) = (machine.cpu.millis().max(1), machine.memory.bytes());
        let share = u128::from(whole) * u128::from(cpus * 1000) / u128::from(cores);
        u64::try_from(share).map_or(whole, |share| share.min(whole))
    };
    shape.memory.map_or_else(share, Memory::bytes)
}

/// Returns the size of a node's object store: three tenths of its memory, as Ray divides that of a machine.
fn object_store(shape: &Shape) -> u64 {
    let memory = shape.memory.map_or(OBJECTS.bytes(), |memory| memory.bytes() / 10 * 3);
    memory.max(OBJECTS_AT_LEAST)
}

/// Returns a request to the dashboard.
fn dashboard_request(head: &HeadAccess, path: &str) -> FrameworkRequest {
    FrameworkRequest::get(format!("{}{path}", head.address(Endpoints::DASHBOARD))).with_bearer(&head.secret)
}

/// Returns the later of two times since which nothing runs; unknown if one of them is.
fn later(one: Activity, other: Activity) -> Activity {
    match (one, other) {
        (Activity::IdleSince(one), Activity::IdleSince(other)) => Activity::IdleSince(one.max(other)),
        (Activity::IdleSince(_), other) => other,
        (one, _) => one,
    }
}

#[cfg(test)]
mod tests;
