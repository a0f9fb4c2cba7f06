//! A framework as plain processes of one machine.

use std::collections::{BTreeMap, HashMap, HashSet};

use muster_core::capacity::Capacity;
use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use muster_core::shape::Shape;

pub use muster_core::limits::Activity;

use crate::endpoints::Endpoints;
use crate::head_access::{HeadAccess, Secret};
use crate::request::{FrameworkRequest, UnreadableResponse};
use crate::requirement::Requirement;

/// The Python package of a framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PythonPackage {
    /// The module whose import proves that the package is installed.
    pub module: &'static str,
    /// The pinned requirements of an installation: `NAME==VERSION`, one per line.
    pub pins: &'static str,
}

/// Ports of a head by name; those that are not known are left out.
pub type HeadPorts = BTreeMap<String, u16>;

/// The way in which the endpoints of a new head become known.
#[derive(Debug, Clone, Copy)]
pub enum EndpointDiscovery {
    /// The head picks free ports itself, and writes its addresses into a file.
    File {
        /// The name of the file in the head's folder.
        file: &'static str,
        /// Parses that file.
        read: fn(&[u8]) -> Result<Endpoints, UnreadableResponse>,
    },
    /// The provider picks free ports for the head.
    AssignedPorts {
        /// The names of the ports.
        ports: &'static [&'static str],
        /// The endpoints of a head with these ports.
        endpoints: fn(&HeadPorts) -> Endpoints,
    },
}

/// The names that a framework accepts for its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerNaming {
    /// Any name.
    Free,
    /// Only the worker's address, so that each worker needs its own address on the loopback interface.
    LoopbackAddresses,
}

/// The parameters of the process of one node.
#[derive(Debug, Clone, Copy)]
pub struct LaunchContext<'a> {
    /// The name of the node within the framework.
    pub name: &'a str,
    /// The interpreter of the environment in which the framework is installed.
    pub python: &'a str,
    /// The folder of the framework's package in that environment.
    pub package: &'a str,
    /// The node's own folder, empty when the node starts.
    pub node_folder: &'a str,
    /// A folder of the cluster that survives restarts of its nodes.
    pub cluster_folder: &'a str,
    /// A folder of the cluster whose path is short enough for sockets; empty when the head starts.
    pub socket_folder: &'a str,
    /// The resources of the node.
    pub shape: &'a Shape,
    /// The resources of the machine, which all of its nodes share.
    pub machine: &'a Capacity,
    /// The secret of the cluster.
    pub secret: &'a Secret,
}

/// A process to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables that are added to the environment.
    pub environment: BTreeMap<String, String>,
    /// Files that must exist before the start: paths in the node's own folder, with their contents.
    pub files: BTreeMap<String, String>,
}

impl ProcessSpec {
    pub(crate) fn new(command: &[&str], environment: &[(&str, &str)]) -> Self {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        Self {
            command: command.iter().map(|&word| word.to_owned()).collect(),
            environment: environment.iter().map(owned).collect(),
            files: BTreeMap::new(),
        }
    }
}

/// The signal that makes a process shut down in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownSignal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// The orderly shutdown of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GracefulShutdown {
    /// The signal that begins the shutdown.
    pub signal: ShutdownSignal,
    /// Seconds after which the process is killed.
    pub grace_seconds: u32,
}

/// A worker that its head counts as alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveWorker {
    /// The name within the framework, which is that of its [`LaunchContext`].
    pub name: String,
    /// The address or id by which the head identifies the worker.
    pub address: String,
}

/// A command for a head, by its way of delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadCommand {
    /// An HTTP request; its response is the answer.
    Request(FrameworkRequest),
    /// A program that ends by itself; its standard output is the answer.
    Program(ProcessSpec),
}

/// The remaining step for a worker that its head has retired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterRetirement {
    /// The worker exits by itself within this many seconds.
    ExitsWithin(u32),
    /// The worker never exits; stop it once its response to this request says that it is idle.
    StopOnceIdle(FrameworkRequest),
    /// The worker is idle and holds no data: its processes can be killed.
    KillNow,
}

/// A request to retire workers: to drain them, and to remove them from their cluster.
#[derive(Debug, Clone, Copy)]
pub struct WorkerRetirement<'a> {
    /// The head of the cluster.
    pub head: &'a HeadAccess,
    /// The workers to retire.
    pub workers: &'a [LiveWorker],
    /// The interpreter of an environment in which the framework is installed.
    pub python: &'a str,
    /// Seconds that running tasks have to finish.
    pub within: u32,
}

/// The folder of a cluster in which its tasks write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFolder {
    /// [`LaunchContext::cluster_folder`].
    Cluster,
    /// [`LaunchContext::socket_folder`].
    Sockets,
}

/// Files that tasks and executors write, apart from the log of a node.
#[derive(Debug, Clone)]
pub struct TaskOutput {
    /// The folder that contains the files.
    pub folder: OutputFolder,
    /// A name for each level below that folder; `*` at the end of a name matches any characters.
    pub names: Vec<String>,
    /// Makes the label of a file from the names of its levels.
    pub label: fn(&[String]) -> String,
    /// Lines with these prefixes are the framework's own, and hidden from users.
    pub hidden: &'static [&'static str],
}

/// A framework as processes of one machine. Callers of this trait do not know which framework they use.
///
/// Requests and responses come in pairs: `…_request` renders a request, and `read_…` parses the response to it.
pub trait LocalFramework: Send + Sync {
    /// Returns the framework that this type implements.
    fn framework(&self) -> Framework;

    /// Returns the Python package to install.
    fn package(&self) -> PythonPackage;

    /// Returns a program that must be installed beside the package.
    fn requirement(&self) -> Option<Requirement> {
        None
    }

    /// Returns true if workers rejoin a new head by themselves.
    fn workers_outlive_head(&self) -> bool;

    /// Returns true if a cluster can have more than one group of workers.
    fn several_groups(&self) -> bool {
        false
    }

    /// Returns true if nodes of one cluster on one machine must start one after the other.
    fn starts_one_by_one(&self) -> bool {
        false
    }

    /// Returns the names that the framework accepts for its workers.
    fn worker_naming(&self) -> WorkerNaming {
        WorkerNaming::Free
    }

    /// Returns the way in which the endpoints of a new head become known.
    fn endpoint_discovery(&self) -> EndpointDiscovery;

    /// Returns the process of a head, which listens on these ports: assigned ones, or those of the head before it.
    fn head_process(&self, context: LaunchContext<'_>, ports: &HeadPorts) -> ProcessSpec;

    /// Returns the process of a worker.
    fn worker_process(&self, context: LaunchContext<'_>, head: &HeadAccess) -> ProcessSpec;

    /// Returns the ports of a head's endpoints, for the next head: clients then need no new address.
    fn reusable_ports(&self, endpoints: &Endpoints) -> HeadPorts;

    /// Requests the workers that the head counts as alive. A head that responds to this request is ready.
    fn workers_request(&self, head: &HeadAccess) -> FrameworkRequest;

    /// Parses the response to [`Self::workers_request`].
    fn read_workers(&self, response: &[u8]) -> Result<Vec<LiveWorker>, UnreadableResponse>;

    /// Requests the load of all workers, which is the sum of the responses.
    fn load_requests(&self, head: &HeadAccess) -> Vec<FrameworkRequest>;

    /// Parses one response to [`Self::load_requests`]: the load by address, without idle workers.
    fn read_load(&self, response: &[u8]) -> Result<HashMap<String, u64>, UnreadableResponse>;

    /// Makes the head drain and remove workers, after their data was moved to others.
    fn retire_workers(&self, retirement: WorkerRetirement<'_>) -> HeadCommand;

    /// Parses the answer to [`Self::retire_workers`]: the addresses of the retired workers. The others hold data that
    /// could not be moved.
    fn read_retired(
        &self,
        workers: &[LiveWorker],
        response: &[u8],
    ) -> Result<HashSet<String>, UnreadableResponse>;

    /// Returns the remaining step for a retired worker.
    fn after_retirement(&self, worker: &LiveWorker, within: u32) -> AfterRetirement;

    /// Parses the response to the request of [`AfterRetirement::StopOnceIdle`].
    fn read_is_idle(&self, _response: &[u8]) -> Result<bool, UnreadableResponse> {
        Ok(true)
    }

    /// Requests the time since which nothing runs in the cluster.
    fn activity_request(&self, head: &HeadAccess) -> FrameworkRequest;

    /// Parses the response to [`Self::activity_request`].
    fn read_activity(&self, response: &[u8]) -> Activity;

    /// Requests work that runs while no client is connected, where [`Self::activity_request`] does not include it.
    fn unattended_request(&self, _: &HeadAccess) -> Option<FrameworkRequest> {
        None
    }

    /// Parses the response to [`Self::unattended_request`]. Returns true if such work runs.
    fn read_unattended(&self, _response: &[u8]) -> Result<bool, UnreadableResponse> {
        Ok(false)
    }

    /// Returns the environment of programs that use the cluster, with its secrets; `python` is the interpreter of its
    /// nodes.
    fn client_environment(&self, head: &HeadAccess, python: &str) -> BTreeMap<String, String>;

    /// Returns the files that tasks on a node write, by the role and name of the node.
    fn task_output(&self, _: &NodeRole, _name: &str) -> Option<TaskOutput> {
        None
    }

    /// Returns the orderly shutdown of a node.
    fn graceful_shutdown(&self, role: NodeRole) -> GracefulShutdown;
}
