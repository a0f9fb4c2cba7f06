//! The handle of a test on the world.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use muster_core::ids::{ClusterId, NodeId};
use tempfile::TempDir;

use super::lines;
use super::program::program;
use super::server::{log_in, socket_in};
use super::wire::{Control, Entry, Outcome, Verb, WorldAnswer, WorldRequest};
use crate::Process;

/// A time limit that only a hang reaches.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running world, which is stopped, and its folder removed, when this value is dropped.
pub struct World {
    process: Process,
    folder: TempDir,
}

impl World {
    /// Starts a world. Call it from the test's own thread.
    pub async fn start() -> Self {
        let folder =
            tempfile::Builder::new().prefix("muster-world-").tempdir().expect("a folder can be made");
        let mut command = Command::new(program("world"));
        command.arg("--dir").arg(folder.path());
        let process = Process::spawn("world", &command);
        process.wait_for_line("the world is there", PATIENCE).await;
        Self { process, folder }
    }

    /// The path of the world's socket.
    pub fn socket(&self) -> PathBuf {
        socket_in(self.folder.path())
    }

    /// Injects a fault, or releases held calls.
    pub async fn control(&self, control: Control) {
        self.request(&WorldRequest::Control(control)).await;
    }

    /// The running nodes of a cluster, with their physical ids.
    pub async fn running(&self, cluster: ClusterId) -> HashMap<NodeId, String> {
        match self.request(&WorldRequest::Running(cluster)).await {
            WorldAnswer::Running(running) => running,
            other => panic!("the world was asked what runs and answered {other:?}"),
        }
    }

    /// All calls so far.
    pub fn log(&self) -> Vec<Entry> {
        let text = std::fs::read_to_string(log_in(self.folder.path())).expect("the world writes a log");
        // The last line may be incomplete.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).expect("a line of the log")).collect()
    }

    /// The number of calls of a verb with this outcome.
    pub fn count(&self, verb: Verb, outcome: Outcome) -> usize {
        self.log().iter().filter(|entry| entry.verb == verb && entry.outcome == outcome).count()
    }

    /// Waits until this many calls of a verb had this outcome.
    pub async fn until(&self, verb: Verb, outcome: Outcome, count: usize) {
        let what = format!("{count} times {verb:?} {outcome:?}");
        let matches = |entry: &&Entry| entry.verb == verb && entry.outcome == outcome;
        self.until_log(&what, |log| log.iter().filter(matches).count() >= count).await;
    }

    /// Waits until the log satisfies a condition, which is checked after each new entry.
    pub async fn until_log(&self, what: &str, is_met: impl Fn(&[Entry]) -> bool) {
        let waited = tokio::time::timeout(PATIENCE, async {
            loop {
                let log = self.log();
                if is_met(&log) {
                    return;
                }
                self.request(&WorldRequest::Longer(log.len())).await;
            }
        });
        assert!(waited.await.is_ok(), "waited for {what}; the world's log:\n{}", self.tail());
    }

    /// The last calls as text, for reports.
    pub fn tail(&self) -> String {
        let log = self.log();
        let last = &log[log.len().saturating_sub(40)..];
        last.iter().map(|entry| format!("  {}", line(entry))).collect::<Vec<_>>().join("\n")
    }

    async fn request(&self, request: &WorldRequest) -> WorldAnswer {
        let answer = lines::send_request(&self.socket(), request).await;
        answer.unwrap_or_else(|error| panic!("the world does not answer: {error}\n{}", self.process.tail()))
    }
}

fn line(entry: &Entry) -> String {
    let Entry { verb, cluster, name, fence, outcome, .. } = entry;
    let name = name.as_deref().unwrap_or("-");
    format!("{verb:?} {name} of {} under {}: {outcome:?}", cluster.short(), fence.0)
}
