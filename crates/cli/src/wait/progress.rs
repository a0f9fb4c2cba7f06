//! What is being waited for: one changing line on a terminal, a line a change in a pipe; on standard error.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::ProgressBar;
use muster_proto::v1alpha2::Cluster;

use crate::output::{harmless, say};

/// How often the spinner turns.
const TURN: Duration = Duration::from_millis(100);

pub(super) struct Progress {
    name: String,
    spinner: Option<ProgressBar>,
    queued: bool,
    seen: String,
    last: String,
}

impl Progress {
    pub(super) fn new(name: &str) -> Self {
        let spinner = std::io::stderr().is_terminal().then(|| {
            let spinner = ProgressBar::new_spinner().with_message(name.to_owned());
            spinner.enable_steady_tick(TURN);
            spinner
        });
        Self { name: name.to_owned(), spinner, queued: false, seen: String::new(), last: String::new() }
    }

    /// Whether the action waits for its turn.
    pub(super) fn queued(&mut self, queued: bool) {
        self.queued = queued;
        self.tell();
    }

    pub(super) fn show(&mut self, cluster: &Cluster, event: &str) {
        self.seen = seen(cluster, event);
        self.tell();
    }

    /// How things stood when last heard of.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    /// Leaves the terminal as it was.
    pub(super) fn end(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }

    fn tell(&mut self) {
        if self.seen.is_empty() {
            return;
        }
        // A new cluster has nothing to wait for: its action is only not taken yet.
        let waits = self.queued && !self.seen.starts_with("INIT");
        let turn = if waits { ", waiting for its turn" } else { "" };
        let line = format!("{}{turn}", self.seen);
        if line == self.last {
            return;
        }
        match &self.spinner {
            Some(spinner) => spinner.set_message(format!("{}: {line}", self.name)),
            None => say!("{}: {line}", self.name),
        }
        self.last = line;
    }

    /// Something that is not about the cluster.
    pub(super) fn note(&self, text: &str) {
        match &self.spinner {
            Some(spinner) => spinner.println(text),
            None => say!("{text}"),
        }
    }
}

fn seen(cluster: &Cluster, event: &str) -> String {
    let counts = crate::table::workers(cluster);
    // In a change the reason is still that of the change before, except in the first.
    let reason = match cluster.state.as_str() {
        "CREATING" | "WARNING" | "ERROR" | "CRITICAL" => cluster.status_reason.as_str(),
        _ => "",
    };
    let why = if event.is_empty() { reason } else { event };
    let why = harmless(why.lines().next().unwrap_or_default());
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{}, {counts} workers ready{why}", cluster.state)
}
