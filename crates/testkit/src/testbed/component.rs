//! One child process, and the orders that control it.

use std::convert::Infallible;
use std::fs::OpenOptions;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::program::Program;
use crate::wire::Order;

/// The grace period of a component before it is killed; its data is not needed.
const GRACE: Duration = Duration::from_secs(3);
/// The capacity of the queue of orders, which are executed one at a time while their senders wait.
const ORDERS: usize = 1;

/// Sends orders to a component, which is stopped when the last clone of this value is dropped.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    to: mpsc::Sender<GivenOrder>,
}

#[derive(Debug)]
struct GivenOrder {
    order: Order,
    done: oneshot::Sender<Result<Option<u32>>>,
}

impl Orders {
    /// Executes an order, and returns the pid if the process still runs.
    pub(super) async fn give(&self, order: Order) -> Result<Option<u32>> {
        let (done, outcome) = oneshot::channel();
        let gone = || anyhow!("it has ended by itself");
        self.to.send(GivenOrder { order, done }).await.map_err(|_| gone())?;
        outcome.await.map_err(|_| gone())?
    }
}

/// A child with its program, so that it can be started again.
#[derive(Debug)]
pub(super) struct RunningComponent {
    program: Program,
    logs: PathBuf,
    /// `None` while the component is killed by an order.
    child: Option<Child>,
}

impl RunningComponent {
    /// Starts a program whose output goes to a new log in that folder.
    pub(super) fn start(program: &Program, logs: &Path) -> Result<Self> {
        let mut component = Self { program: program.clone(), logs: logs.to_owned(), child: None };
        component.spawn(OpenOptions::new().write(true).create(true).truncate(true))?;
        Ok(component)
    }

    fn spawn(&mut self, log: &OpenOptions) -> Result<()> {
        let path = self.program.log(&self.logs);
        let output = log.open(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let child = tokio::process::Command::from(self.program.command())
            .current_dir(&self.logs)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // The terminal's Ctrl-C is for the testbed, which then stops its children in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let name = self.program.name;
        self.child = Some(
            child.with_context(|| format!("cannot run `setpriv` (of util-linux), which starts {name}"))?,
        );
        Ok(())
    }

    /// Supervises the process until it ends by itself, or until all senders of orders are dropped, which stops it. The
    /// status is sent to `exit`, and `alive` is dropped when no process is left.
    pub(super) fn supervise(
        mut self,
        exit: watch::Sender<Option<ExitStatus>>,
        alive: mpsc::Sender<Infallible>,
    ) -> Orders {
        let (to, mut orders) = mpsc::channel(ORDERS);
        tokio::spawn(async move {
            let status = self.run(&mut orders).await;
            exit.send_replace(status);
            drop(alive);
        });
        Orders { to }
    }

    async fn run(&mut self, orders: &mut mpsc::Receiver<GivenOrder>) -> Option<ExitStatus> {
        loop {
            let ended = async {
                match &mut self.child {
                    Some(child) => child.wait().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                status = ended => return status.ok(),
                given = orders.recv() => match given {
                    Some(GivenOrder { order, done }) => {
                        // The sender may have disconnected; the order is executed anyway.
                        let _ = done.send(self.obey(order).await);
                    }
                    None => return self.end().await.ok().flatten(),
                }
            }
        }
    }

    async fn obey(&mut self, order: Order) -> Result<Option<u32>> {
        let name = self.program.name;
        match (order, &mut self.child) {
            (Order::Freeze, Some(child)) => signal(child, Signal::STOP)?,
            (Order::Thaw, Some(child)) => signal(child, Signal::CONT)?,
            (Order::Kill, Some(child)) => {
                child.kill().await?;
                self.child = None;
            }
            (Order::Identify, _) => {}
            (Order::Start, None) => self.spawn(OpenOptions::new().append(true))?,
            (Order::Start, Some(_)) => bail!("{name} runs already"),
            (Order::Freeze | Order::Thaw | Order::Kill, None) => {
                bail!("{name} was killed and not started again")
            }
        }
        Ok(self.child.as_ref().and_then(Child::id))
    }

    async fn end(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        signal(child, self.program.stop)?;
        // A frozen process receives the signal only when it continues.
        signal(child, Signal::CONT)?;
        if let Ok(status) = timeout(GRACE, child.wait()).await {
            return status.map(Some);
        }
        child.start_kill()?;
        child.wait().await.map(Some)
    }
}

fn signal(child: &Child, signal: Signal) -> io::Result<()> {
    match child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        Some(pid) => Ok(kill_process(pid, signal)?),
        None => Ok(()),
    }
}
