//! Child processes that are started, supervised and stopped together.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::component::{Orders, RunningComponent};
use super::output::say;
use super::ports;
use super::program::Program;
use crate::logs;

/// The longest time for a component to become ready: it takes seconds, but longer on a machine that compiles.
pub(super) const PATIENCE: Duration = Duration::from_mins(2);
/// The number of lines of a component's log that are shown when it fails.
const TAIL: usize = 20;

/// Creates groups, and tracks when all their children are gone.
#[derive(Debug, Clone)]
pub(super) struct Nursery {
    logs: PathBuf,
    alive: mpsc::Sender<Infallible>,
}

impl Nursery {
    /// A nursery with logs in this folder, and a receiver that is closed when the last child is gone.
    pub(super) fn new(logs: PathBuf) -> (Self, mpsc::Receiver<Infallible>) {
        let (alive, all_gone) = mpsc::channel(1);
        (Self { logs, alive }, all_gone)
    }

    pub(super) fn group(&self) -> ComponentGroup {
        ComponentGroup { nursery: self.clone(), children: Vec::new() }
    }
}

/// The children in the order of their start. Dropping the group stops them, too, without waiting for their ends.
#[derive(Debug)]
pub(super) struct ComponentGroup {
    nursery: Nursery,
    children: Vec<RunningChild>,
}

#[derive(Debug)]
struct RunningChild {
    vitals: Vitals,
    orders: Orders,
}

/// The receiver that reports the end of a child.
#[derive(Debug, Clone)]
pub(super) struct Vitals {
    name: &'static str,
    log: PathBuf,
    exited: watch::Receiver<Option<ExitStatus>>,
}

impl ComponentGroup {
    /// Starts a program without waiting for it.
    pub(super) fn start(&mut self, program: &Program) -> Result<()> {
        let name = program.name;
        let log = program.log(&self.nursery.logs);
        let (exit, exited) = watch::channel(None);
        let component = RunningComponent::start(program, &self.nursery.logs)?;
        let orders = component.supervise(exit, self.nursery.alive.clone());
        self.children.push(RunningChild { vitals: Vitals { name, log, exited }, orders });
        Ok(())
    }

    /// Runs a program to its end; an error if it fails.
    pub(super) async fn run(&self, program: &Program) -> Result<()> {
        let mut alone = self.nursery.group();
        alone.start(program)?;
        let end = first_death(alone.vitals()).await;
        if end.status.is_some_and(|status| status.success()) { Ok(()) } else { Err(end.into()) }
    }

    /// Waits until a component is ready; an error if it or another component of the group dies, or after [`PATIENCE`].
    pub(super) async fn until(&self, name: &str, ready: impl Future<Output = Result<()>>) -> Result<()> {
        let began = Instant::now();
        say!("waiting for {name}");
        let in_time = tokio::select! {
            death = first_death(self.vitals()) => return Err(death.into()),
            in_time = timeout(PATIENCE, ready) => in_time,
        };
        let outcome = in_time.unwrap_or_else(|_| Err(anyhow!("it is not ready after {PATIENCE:?}")));
        if let Err(error) = outcome {
            let tail = logs::tail(&self.nursery.logs.join(format!("{name}.log")), TAIL);
            return Err(anyhow!("{name} did not start: {error:#}; its last lines:\n{tail}"));
        }
        say!("{name} is ready after {:.1} s", began.elapsed().as_secs_f64());
        Ok(())
    }

    /// The sender of orders to the child of this name.
    pub(super) fn orders(&self, name: &str) -> Option<Orders> {
        self.children.iter().find(|child| child.vitals.name == name).map(|child| child.orders.clone())
    }

    pub(super) fn vitals(&self) -> Vec<Vitals> {
        self.children.iter().map(|child| child.vitals.clone()).collect()
    }

    /// Stops the children, the last one first, and waits for their ends.
    pub(super) async fn stop(self) {
        for RunningChild { vitals, orders } in self.children.into_iter().rev() {
            drop(orders);
            vitals.exit().await;
        }
    }
}

impl Vitals {
    async fn exit(mut self) -> Death {
        let status = self.exited.wait_for(Option::is_some).await.ok().and_then(|status| *status);
        Death { name: self.name, status, tail: logs::tail(&self.log, TAIL) }
    }
}

/// The first of these children to end.
pub(super) async fn first_death(children: Vec<Vitals>) -> Death {
    let mut ends: FuturesUnordered<_> = children.into_iter().map(Vitals::exit).collect();
    match ends.next().await {
        Some(death) => death,
        None => std::future::pending().await,
    }
}

/// The end of a child.
#[derive(Debug)]
pub(super) struct Death {
    name: &'static str,
    status: Option<ExitStatus>,
    tail: String,
}

impl Death {
    /// Returns true if the child died because another process had taken its port.
    pub(super) fn port_was_taken(&self) -> bool {
        ports::was_taken(&self.tail)
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.status.map_or("an unknown status".to_owned(), |status| status.to_string());
        write!(f, "{} ended with {status}; its last lines:\n{}", self.name, self.tail)
    }
}

impl Error for Death {}
