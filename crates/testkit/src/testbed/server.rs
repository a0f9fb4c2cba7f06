//! The main loop of the testbed: starts the parts, serves requests, and stops.

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use super::bed::{TestKubernetesOptions, TestbedParts};
use super::folder::TestbedFolder;
use super::inventory::TestbedInventory;
use super::output::{print, say};
use crate::Operator;
use crate::stdin::end_of_stdin;
use crate::wire::{TestbedAnswer, TestbedRequest};

/// The longest request; only a foreign client would send more.
const LONGEST_REQUEST: u64 = 4096;

/// The parameters of a testbed.
#[derive(Debug)]
pub(super) struct TestbedPlan {
    pub(super) dir: Option<PathBuf>,
    pub(super) inventory: TestbedInventory,
    pub(super) nodes: u16,
    pub(super) operators: Vec<Operator>,
    pub(super) fsync: bool,
    pub(super) lazy: bool,
    pub(super) until_eof: bool,
}

/// Runs a testbed until it is stopped or something in it dies.
pub(super) async fn run(plan: TestbedPlan) -> Result<()> {
    let TestbedPlan { dir, inventory, nodes, operators, fsync, lazy, until_eof } = plan;
    // Before anything is created: from here on every end except a kill cleans up.
    let mut stop = StopSignals::listen(until_eof)?;
    let folder = TestbedFolder::make(dir.as_deref())?;
    folder.write_inventory(&inventory.text).context("cannot write the inventory")?;
    let socket = folder.socket();
    let listener = UnixListener::bind(&socket).with_context(|| {
        format!("cannot listen on {} (a socket's path has at most 107 bytes)", socket.display())
    })?;
    // The capacity is one, because the testbed stops at the first death.
    let (report, mut deaths) = mpsc::channel(1);
    let bed = TestbedParts::new(folder, inventory, TestKubernetesOptions { nodes, operators, fsync }, report);
    let outcome = tokio::select! {
        why = stop.wait() => {
            // The process that closed the input needs no message.
            if !until_eof {
                say!("{why}: stopping");
            }
            Ok(())
        }
        Some(death) = deaths.recv() => Err(death.into()),
        outcome = async { tokio::try_join!(serve(&bed, listener), begin(&bed, lazy, until_eof)) } => outcome.map(|_| ()),
    };
    bed.stop().await;
    outcome
}

/// Starts Kubernetes, unless it is started by its first request, and prints how to use the testbed.
async fn begin(bed: &TestbedParts, lazy: bool, until_eof: bool) -> Result<()> {
    if !lazy {
        match bed.answer("kubernetes").await {
            TestbedAnswer::Have(_) => {
                print(&format!("export KUBECONFIG={}", quoted(&bed.folder.kubeconfig())));
            }
            TestbedAnswer::Missing(why) | TestbedAnswer::Failed(why) => bail!(why),
        }
    }
    print(&format!("export MUSTER_TESTBED={}", quoted(bed.folder.path())));
    if !until_eof {
        say!("the testbed is ready; Ctrl-C stops it");
    }
    Ok(())
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// Serves requests, all on this thread, with a task for each connection.
async fn serve(bed: &TestbedParts, listener: UnixListener) -> Result<()> {
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _) = accepted.context("cannot accept connections")?;
                connections.push(converse(bed, stream));
            }
            // A client may have disconnected early.
            Some(_) = connections.next() => {}
        }
    }
}

async fn converse(bed: &TestbedParts, mut stream: UnixStream) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new((&mut stream).take(LONGEST_REQUEST)).read_line(&mut line).await?;
    let answer = match serde_json::from_str(&line) {
        Ok(TestbedRequest::Want(want)) => bed.answer(&want).await,
        Ok(TestbedRequest::Do(order, component)) => bed.order(component, order).await,
        Err(error) => {
            TestbedAnswer::Failed(format!("a request is a line like {{\"want\":\"kubernetes\"}}: {error}"))
        }
    };
    let mut line = serde_json::to_string(&answer)?;
    line.push('\n');
    stream.write_all(line.as_bytes()).await
}

/// The signals and events that end the testbed.
struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    eof: Option<oneshot::Receiver<()>>,
}

impl StopSignals {
    fn listen(until_eof: bool) -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            eof: until_eof.then(end_of_stdin).transpose()?,
        })
    }

    async fn wait(&mut self) -> &'static str {
        let eof = async {
            match &mut self.eof {
                Some(eof) => drop(eof.await),
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => "interrupted",
            _ = self.terminate.recv() => "asked to end",
            _ = self.hangup.recv() => "the terminal is gone",
            () = eof => "standard input has ended",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        assert_eq!(quoted(Path::new("/tmp/muster-testbed-a1")), "/tmp/muster-testbed-a1");
        assert_eq!(quoted(Path::new("/home/o'neil/my bed")), r"'/home/o'\''neil/my bed'");
    }
}
