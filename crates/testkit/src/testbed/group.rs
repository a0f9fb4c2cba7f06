//! Children that are started, watched and stopped together.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::output::say;
use super::ports;
use super::program::Program;
use crate::logs;

/// How long a component may take to become ready: they need seconds, but not on a machine that compiles meanwhile.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a component may take to end before it is killed; nothing it could still save is wanted.
const GRACE: Duration = Duration::from_secs(3);
/// How many lines of a component's log are shown when it fails.
const TAIL: usize = 20;

/// Makes groups, and knows when all their children are gone.
#[derive(Debug, Clone)]
pub(super) struct Nursery {
    logs: PathBuf,
    alive: mpsc::Sender<Infallible>,
}

impl Nursery {
    /// A nursery that logs into this folder, and a receiver that closes with its last child.
    pub(super) fn new(logs: PathBuf) -> (Self, mpsc::Receiver<Infallible>) {
        let (alive, all_gone) = mpsc::channel(1);
        (Self { logs, alive }, all_gone)
    }

    pub(super) fn group(&self) -> Group {
        Group { nursery: self.clone(), children: Vec::new() }
    }
}

/// Children in the order of their start. Dropping the group ends them too, but nobody waits for that.
#[derive(Debug)]
pub(super) struct Group {
    nursery: Nursery,
    children: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    vitals: Vitals,
    stop: oneshot::Sender<Infallible>,
}

/// Where to see whether a child still lives.
#[derive(Debug, Clone)]
pub(super) struct Vitals {
    name: &'static str,
    log: PathBuf,
    exited: watch::Receiver<Option<ExitStatus>>,
}

impl Group {
    /// Starts a program and goes on.
    pub(super) fn start(&mut self, program: &Program) -> Result<()> {
        let name = program.name;
        let log = program.log(&self.nursery.logs);
        let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = tokio::process::Command::from(program.command())
            .current_dir(&self.nursery.logs)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // The terminal's Ctrl-C is for the testbed, which then stops its children in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run `setpriv` (of util-linux), which starts {name}"))?;
        let (stop, stopped) = oneshot::channel();
        let (exit, exited) = watch::channel(None);
        tokio::spawn(supervise(child, program.stop, stopped, exit, self.nursery.alive.clone()));
        self.children.push(Running { vitals: Vitals { name, log, exited }, stop });
        Ok(())
    }

    /// Runs a program to its end, which must be a success.
    pub(super) async fn run(&self, program: &Program) -> Result<()> {
        let mut alone = self.nursery.group();
        alone.start(program)?;
        let end = first_death(alone.vitals()).await;
        if end.status.is_some_and(|status| status.success()) { Ok(()) } else { Err(end.into()) }
    }

    /// Waits until a component is ready, unless it or another of the group dies, or it takes too long.
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

    pub(super) fn vitals(&self) -> Vec<Vitals> {
        self.children.iter().map(|child| child.vitals.clone()).collect()
    }

    /// Stops the children, the last one first, and waits for their ends.
    pub(super) async fn stop(self) {
        for Running { vitals, stop } in self.children.into_iter().rev() {
            drop(stop);
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

/// How a child ended.
#[derive(Debug)]
pub(super) struct Death {
    name: &'static str,
    status: Option<ExitStatus>,
    tail: String,
}

impl Death {
    /// Whether it died because somebody else had taken its port.
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

/// Sees one child to its end; dropping the other side of `stopped` ends it.
async fn supervise(
    mut child: Child,
    signal: Signal,
    stopped: oneshot::Receiver<Infallible>,
    exit: watch::Sender<Option<ExitStatus>>,
    alive: mpsc::Sender<Infallible>,
) {
    let status = tokio::select! {
        status = child.wait() => status,
        _ = stopped => end(&mut child, signal).await,
    };
    exit.send_replace(status.ok());
    drop(alive);
}

async fn end(child: &mut Child, signal: Signal) -> io::Result<ExitStatus> {
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        kill_process(pid, signal)?;
    }
    if let Ok(status) = timeout(GRACE, child.wait()).await {
        return status;
    }
    child.start_kill()?;
    child.wait().await
}
