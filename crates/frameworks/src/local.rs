//! How a framework runs as plain processes on one machine.

use std::collections::{BTreeMap, HashMap, HashSet};

use muster_core::capacity::Capacity;
use muster_core::cluster::Framework;
use muster_core::node::NodeRole;
use muster_core::shape::Shape;

pub use muster_core::limits::Activity;

use crate::ask::{Ask, Unreadable};
use crate::contact::{Contact, Secret};
use crate::endpoints::Endpoints;
use crate::requirement::Requirement;

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

/// How it becomes known where a head answers.
#[derive(Debug, Clone, Copy)]
pub enum Whereabouts {
    /// It takes free ports itself, and tells of them in a file.
    Told {
        /// The file in its folder.
        file: &'static str,
        /// Reads that file.
        read: fn(&[u8]) -> Result<Endpoints, Unreadable>,
    },
    /// Free ports are chosen for it.
    Given {
        /// What they are called.
        ports: &'static [&'static str],
        /// Where a head with these ports answers.
        endpoints: fn(&Ports) -> Endpoints,
    },
}

/// What a framework can call its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Whatever they are told to be called.
    Free,
    /// Their address, so that each needs one of its own on the loopback interface.
    Addresses,
}

/// Where one node of a cluster runs.
#[derive(Debug, Clone, Copy)]
pub struct Seat<'a> {
    /// What the framework calls the node.
    pub name: &'a str,
    /// The interpreter of the environment that has the framework.
    pub python: &'a str,
    /// The folder of the framework's package in that environment.
    pub package: &'a str,
    /// A folder of the node's own, empty at its start.
    pub folder: &'a str,
    /// A folder of the cluster that stays when its nodes are started anew.
    pub kept: &'a str,
    /// A folder of the cluster whose path is short enough for sockets, empty at the start of its head.
    pub short: &'a str,
    /// What it is given.
    pub shape: &'a Shape,
    /// What there is for all nodes of the machine.
    pub machine: &'a Capacity,
    /// What nodes and clients of the cluster know, and nobody else.
    pub secret: &'a Secret,
}

/// A process to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What is added to the environment.
    pub environment: BTreeMap<String, String>,
}

impl Launch {
    pub(crate) fn of(command: &[&str], environment: &[(&str, &str)]) -> Self {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        Self {
            command: command.iter().map(|&word| word.to_owned()).collect(),
            environment: environment.iter().map(owned).collect(),
        }
    }
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

/// How a framework is told something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tell {
    /// By a request.
    Ask(Ask),
    /// By a program that ends, and whose output is the answer.
    Run(Launch),
}

/// What becomes of a worker that its head has let go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leaving {
    /// It ends by itself, within so many seconds.
    Ends(u32),
    /// It is to be stopped as soon as its answer to this says that nothing runs there.
    Until(Ask),
    /// It has left: nothing runs there, nothing is kept there, and what remains of it may be killed.
    Left,
}

/// Workers that are to be let go.
#[derive(Debug, Clone, Copy)]
pub struct Retirement<'a> {
    /// How their head is reached.
    pub head: &'a Contact,
    /// Those workers.
    pub workers: &'a [LiveWorker],
    /// The interpreter of an environment that has the framework.
    pub python: &'a str,
    /// How many seconds what they do may take to its end.
    pub within: u32,
}

/// One framework, as plain processes. Nobody who uses this knows which.
pub trait LocalFramework: Send + Sync {
    /// Which one it is.
    fn framework(&self) -> Framework;

    /// What it is installed from.
    fn package(&self) -> Package;

    /// What it needs on the machine beside that.
    fn requirement(&self) -> Option<Requirement> {
        None
    }

    /// Whether workers find a new head by themselves.
    fn workers_outlive_head(&self) -> bool;

    /// Whether workers may be of several groups.
    fn several_groups(&self) -> bool {
        false
    }

    /// Whether nodes of a cluster on one machine have to be started one after the other.
    fn starts_alone(&self) -> bool {
        false
    }

    /// What it can call its workers.
    fn names(&self) -> Names {
        Names::Free
    }

    /// How it becomes known where a head answers.
    fn whereabouts(&self) -> Whereabouts;

    /// The head. Ports that it had before, and those that were chosen for it, are used.
    fn head(&self, seat: Seat<'_>, ports: &Ports) -> Launch;

    /// A worker of a head.
    fn worker(&self, seat: Seat<'_>, head: &Contact) -> Launch;

    /// The ports behind a head's endpoints, to be used again.
    fn ports(&self, endpoints: &Endpoints) -> Ports;

    /// Asks the head which workers it counts as alive. A head that answers is up.
    fn ask_workers(&self, head: &Contact) -> Ask;

    /// Reads its answer.
    fn workers(&self, answer: &[u8]) -> Result<Vec<LiveWorker>, Unreadable>;

    /// Asks the head how much each of its workers has to do; the answers are added up.
    fn ask_load(&self, head: &Contact) -> Vec<Ask>;

    /// Reads one of its answers: the load of workers that are not idle, by their addresses.
    fn load(&self, answer: &[u8]) -> Result<HashMap<String, u64>, Unreadable>;

    /// Has the head let workers go, with what they hold moved to others first.
    fn retire(&self, retirement: Retirement<'_>) -> Tell;

    /// Reads the answer: the addresses of those that were let go. Others hold what could not be moved.
    fn retired(&self, workers: &[LiveWorker], answer: &[u8]) -> Result<HashSet<String>, Unreadable>;

    /// What becomes of a worker that was let go.
    fn leaving(&self, worker: &LiveWorker, within: u32) -> Leaving;

    /// Reads the answer of a worker that is to be stopped once nothing runs there: whether that is so.
    fn has_left(&self, _answer: &[u8]) -> Result<bool, Unreadable> {
        Ok(true)
    }

    /// Asks since when nothing runs.
    fn ask_activity(&self, head: &Contact) -> Ask;

    /// Reads its answer.
    fn activity(&self, answer: &[u8]) -> Activity;

    /// Asks what runs though nobody is connected, where the answer to the other question does not tell.
    fn ask_unattended(&self, _: &Contact) -> Option<Ask> {
        None
    }

    /// Reads its answer: whether anything does.
    fn unattended(&self, _answer: &[u8]) -> Result<bool, Unreadable> {
        Ok(false)
    }

    /// What programs that use the cluster need in their environment, secrets too; its nodes run in that interpreter.
    fn client_environment(&self, head: &Contact, python: &str) -> BTreeMap<String, String>;

    /// How a node is stopped in order.
    fn stop(&self, role: NodeRole) -> Stop;
}
