//! What is being waited for, and how it stands.

use muster_proto::v1alpha2::{Action, Cluster};

use crate::output::{Spinner, harmless};

pub(super) struct Progress {
    name: String,
    spinner: Spinner,
    kind: String,
    queued: bool,
    seen: String,
    last: String,
}

impl Progress {
    pub(super) fn new(name: &str) -> Self {
        let spinner = Spinner::new(name.to_owned());
        let (kind, seen, last) = (String::new(), String::new(), String::new());
        Self { name: name.to_owned(), spinner, kind, queued: false, seen, last }
    }

    /// One that is not shown.
    pub(super) fn hidden(name: &str) -> Self {
        let (kind, seen, last) = (String::new(), String::new(), String::new());
        Self { name: name.to_owned(), spinner: Spinner::hidden(), kind, queued: false, seen, last }
    }

    /// The action that is waited for, which may wait for its turn.
    pub(super) fn of(&mut self, action: &Action) {
        self.kind.clone_from(&action.action);
        self.queued = matches!(action.status.as_str(), "INIT" | "WAITING" | "READY");
        self.tell();
    }

    /// What kind of action it is, once it was seen.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    pub(super) fn show(&mut self, cluster: &Cluster, event: &str) {
        self.seen = seen(cluster, event);
        self.tell();
    }

    /// How things stood when last heard of.
    pub(super) fn last(&self) -> &str {
        &self.last
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
        self.spinner.show(format!("{}: {line}", self.name));
        self.last = line;
    }

    /// Something that is not about the cluster.
    pub(super) fn note(&self, text: &str) {
        self.spinner.note(text);
    }
}

fn seen(cluster: &Cluster, event: &str) -> String {
    let counts = crate::table::workers(cluster);
    // Of what works there is nothing to be said, and while it is looked at the reason is still that of before.
    let reason = match cluster.state.as_str() {
        "ACTIVE" | "CHECKING" | "OPERATING" => "",
        _ => cluster.status_reason.as_str(),
    };
    let why = if event.is_empty() { reason } else { event };
    let why = harmless(why.lines().next().unwrap_or_default());
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{}, {counts} workers ready{why}", cluster.state)
}
