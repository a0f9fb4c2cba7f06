//! How a framework runs as plain processes on one machine.

use std::collections::{BTreeMap, HashSet};

use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use muster_core::shape::Shape;
use muster_core::time::Timestamp;

use crate::ask::{Ask, Unreadable};
use crate::endpoints::Endpoints;

/// The Python package that a framework comes as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    /// What is imported to see whether it is there.
    pub module: &'static str,
    /// What an installation is made of, every package with its version, one a line.
    pub pins: &'static str,
}

/// Ports of a head by name, as far as they are known.
pub type Ports = BTreeMap<String, u16>;

/// Where one node of a cluster runs.
#[derive(Debug, Clone, Copy)]
pub struct Seat<'a> {
    /// What the framework calls the node; another one for every start.
    pub name: &'a str,
    /// The interpreter of the environment that has the framework.
    pub python: &'a str,
    /// A folder of the node's own.
    pub folder: &'a str,
    /// What it is given.
    pub shape: &'a Shape,
}

/// A process to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What is added to the environment.
    pub environment: BTreeMap<String, String>,
}

/// What a process is told when it should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// How a node is stopped in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    /// What it is told.
    pub signal: Signal,
    /// How many seconds it may take before it is killed.
    pub grace: u32,
}

/// A worker that the framework counts as alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveWorker {
    /// What the framework calls it: the name of its seat.
    pub name: String,
    /// Where it is.
    pub address: String,
}

/// Whether anybody uses a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Something runs.
    Busy,
    /// Nothing has run since then.
    IdleSince(Timestamp),
    /// It does not say; counts as busy.
    Unknown,
}

/// One framework, as plain processes. Nobody who uses this knows which.
pub trait LocalFramework: Send + Sync {
    /// Which one it is.
    fn framework(&self) -> Framework;

    /// What it is installed from.
    fn package(&self) -> Package;

    /// Whether workers find a new head by themselves.
    fn workers_outlive_head(&self) -> bool;

    /// The head. Ports that it had before are used again, so that clients find it.
    fn head(&self, seat: Seat<'_>, ports: &Ports) -> Launch;

    /// A worker of the head that answers there.
    fn worker(&self, seat: Seat<'_>, head: &Endpoints) -> Launch;

    /// The file in its folder in which a head tells where it answers.
    fn head_file(&self) -> &'static str;

    /// Reads that file.
    fn endpoints(&self, file: &[u8]) -> Result<Endpoints, Unreadable>;

    /// The ports behind a head's endpoints, to be used again.
    fn ports(&self, endpoints: &Endpoints) -> Ports;

    /// Asks the head which workers it counts as alive. A head that answers is up.
    fn ask_workers(&self, head: &Endpoints) -> Ask;

    /// Reads its answer.
    fn workers(&self, answer: &[u8]) -> Result<Vec<LiveWorker>, Unreadable>;

    /// Tells the head to let workers go, with what they hold moved to others first.
    fn retire(&self, head: &Endpoints, workers: &[LiveWorker]) -> Ask;

    /// Reads its answer: the addresses of those that it let go. Others hold what could not be moved.
    fn retired(&self, answer: &[u8]) -> Result<HashSet<String>, Unreadable>;

    /// Asks since when nothing runs.
    fn ask_activity(&self, head: &Endpoints) -> Ask;

    /// Reads its answer.
    fn activity(&self, answer: &[u8]) -> Activity;

    /// What programs that use the cluster need in their environment.
    fn client_environment(&self, head: &Endpoints) -> BTreeMap<String, String>;

    /// How a node is stopped in order.
    fn stop(&self, role: NodeRole) -> Stop;
}
