//! The program `world`, which serves calls and logs them.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use muster_core::ids::ClusterId;
use parking_lot::Mutex;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{broadcast, watch};

use super::ending::Ending;
use super::lines;
use super::state::WorldState;
use super::wire::{Control, Entry, Outcome, Verb, WorldAnswer, WorldCall, WorldRequest};

/// The capacity of the change feed; a slower engine observes everything instead.
const BACKLOG: usize = 256;

/// Runs simulated nodes until standard input ends
#[derive(Debug, Parser)]
#[command(name = "world")]
pub struct Args {
    /// The folder for the socket and the log; it is removed at the end.
    #[arg(long)]
    dir: PathBuf,
}

/// The socket in the world's folder.
pub(super) fn socket_in(dir: &Path) -> PathBuf {
    dir.join("world.sock")
}

/// The log in the world's folder.
pub(super) fn log_in(dir: &Path) -> PathBuf {
    dir.join("calls.jsonl")
}

impl Args {
    /// Runs the world to its end.
    pub fn run(self) -> ExitCode {
        let Self { dir } = self;
        let ended = serve(&dir);
        // The owner of the folder may have removed it already.
        let _ = fs::remove_dir_all(&dir);
        match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("world: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

fn serve(dir: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let ending = Ending::listen()?;
        fs::create_dir_all(dir)?;
        let server = Arc::new(WorldServer {
            state: Mutex::default(),
            log: Mutex::new(File::create(log_in(dir))?),
            length: watch::Sender::new(0),
            releases: watch::Sender::new((0, false)),
            changes: broadcast::channel(BACKLOG).0,
        });
        let listener = lines::listen(&socket_in(dir))?;
        println!("the world is there");
        tokio::select! {
            () = ending.wait() => Ok(()),
            ended = accept(&server, listener) => ended,
        }
    })
}

async fn accept(server: &Arc<WorldServer>, listener: UnixListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        // A call continues after the death of its engine, as real calls in flight do.
        tokio::spawn(converse(Arc::clone(server), stream));
    }
}

async fn converse(server: Arc<WorldServer>, mut stream: UnixStream) -> io::Result<()> {
    match lines::request(&mut stream).await? {
        WorldRequest::Call(call) => {
            if let Some(answer) = server.call(call).await {
                lines::send(&mut stream, &answer).await?;
            }
        }
        WorldRequest::Observe(cluster, nodes) => {
            if server.gate(Entry::of_observation(cluster)).await {
                let answer = {
                    let mut state = server.state.lock();
                    state.belong(cluster, &nodes);
                    state.observe(&nodes)
                };
                lines::send(&mut stream, &answer).await?;
            }
        }
        WorldRequest::Changes => {
            let mut changes = server.changes.subscribe();
            while let Ok(cluster) = changes.recv().await {
                lines::send(&mut stream, &WorldAnswer::Changed(cluster)).await?;
            }
        }
        WorldRequest::Control(control) => {
            server.control(&control);
            lines::send(&mut stream, &WorldAnswer::Done(None)).await?;
        }
        WorldRequest::Running(cluster) => {
            let running = server.state.lock().running(cluster);
            lines::send(&mut stream, &WorldAnswer::Running(running)).await?;
        }
        WorldRequest::Longer(than) => {
            let mut length = server.length.subscribe();
            drop(length.wait_for(|length| *length > than).await);
            lines::send(&mut stream, &WorldAnswer::Done(None)).await?;
        }
    }
    Ok(())
}

struct WorldServer {
    state: Mutex<WorldState>,
    log: Mutex<File>,
    /// The number of lines in the log.
    length: watch::Sender<usize>,
    /// The number of releases, and true if the last one dropped the held calls.
    releases: watch::Sender<(u64, bool)>,
    changes: broadcast::Sender<ClusterId>,
}

impl WorldServer {
    fn log(&self, entry: &Entry) {
        let mut log = self.log.lock();
        let line = serde_json::to_string(entry).unwrap_or_default();
        if let Err(error) = writeln!(log, "{line}") {
            eprintln!("world: cannot write the log: {error}");
        }
        self.length.send_modify(|length| *length += 1);
    }

    /// Waits while the verb is held; false if the call was dropped.
    async fn gate(&self, entry: Entry) -> bool {
        let mut releases = self.releases.subscribe();
        let before = releases.borrow_and_update().0;
        let (holds, pace) = {
            let mut state = self.state.lock();
            (state.holds(entry.verb), state.pace(entry.verb))
        };
        if pace > 0 {
            tokio::time::sleep(Duration::from_millis(pace)).await;
        }
        if !holds {
            return true;
        }
        self.log(&Entry { outcome: Outcome::Held, ..entry.clone() });
        let lost = releases.wait_for(|(times, _)| *times > before).await.is_ok_and(|release| release.1);
        if lost {
            self.log(&Entry { outcome: Outcome::Dropped, ..entry });
        }
        !lost
    }

    async fn call(&self, call: WorldCall) -> Option<WorldAnswer> {
        // The fence is recorded on arrival, so that later calls with a lower one are refused even while this one waits.
        self.state.lock().overtaken_by(&call);
        let entry = Entry::of_call(&call);
        if !self.gate(entry.clone()).await {
            return None;
        }
        let (outcome, answer, died) = {
            let mut state = self.state.lock();
            let (outcome, answer) = state.execute(&call);
            (outcome, answer, state.has_died(&call))
        };
        self.log(&Entry { outcome, ..entry });
        if died {
            self.notify(call.cluster);
        }
        Some(answer)
    }

    fn control(&self, control: &Control) {
        let changed = self.state.lock().obey(control);
        if let Some(cluster) = changed {
            self.notify(cluster);
        }
        if matches!(control, Control::Release | Control::Drop) {
            let lost = matches!(control, Control::Drop);
            self.releases.send_modify(|(times, drops)| (*times, *drops) = (*times + 1, lost));
        }
    }

    fn notify(&self, cluster: ClusterId) {
        // There may be no subscriber; observers read the state.
        drop(self.changes.send(cluster));
    }
}

impl Entry {
    fn of_call(call: &WorldCall) -> Self {
        let (node, name) = call.node.clone().unzip();
        Self { verb: call.verb, cluster: call.cluster, node, name, fence: call.fence, outcome: Outcome::Held }
    }

    fn of_observation(cluster: ClusterId) -> Self {
        let fence = muster_core::action::Fence::default();
        Self { verb: Verb::Observe, cluster, node: None, name: None, fence, outcome: Outcome::Held }
    }
}
