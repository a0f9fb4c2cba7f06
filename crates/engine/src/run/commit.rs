//! The commits of an action.

use muster_core::action::Action;
use muster_store::commands::Record;

use crate::run::{ActionRun, Stop};

impl ActionRun {
    /// A commit that carries everything that is pending: nodes, ended children, events, the cluster's object.
    pub(crate) fn pending(&mut self) -> Record {
        let mut record = Record::new(self.control.ticket(), self.now());
        self.subject.nodes.drain_into(&mut record);
        self.children.drain_into(&mut record);
        record.events = std::mem::take(&mut self.journal.events);
        record.object = self.journal.object.take();
        record.outputs = self.journal.take_outputs();
        record
    }

    /// Commits, and receives signals that were sent meanwhile.
    pub(crate) async fn record(&mut self, record: Record) -> Result<(), Stop> {
        if self.control.has_expired() {
            return Err(Stop::Fenced);
        }
        let before = self.control.signals_version();
        // Children that are inserted by this commit cannot have been cancelled before it.
        let all_new = record.children.len() == self.children.open.len();
        let signal = self.context.store.record(record).await?;
        self.control.set_deaths(0);
        self.control.take_signal(signal, before, all_new);
        Ok(())
    }

    /// Whether a commit would write something, apart from the cluster.
    pub(crate) fn has_pending_changes(&self) -> bool {
        self.subject.nodes.have_changed() || self.children.have_ended() || !self.journal.events.is_empty()
    }

    /// Writes what is pending, if there is anything.
    pub(crate) async fn flush(&mut self) -> Result<(), Stop> {
        if !self.has_pending_changes() {
            return Ok(());
        }
        let record = self.pending();
        self.record(record).await
    }

    /// The commit before a step: the action's data, and the intent if it has changed.
    pub(crate) async fn commit(&mut self, intent: bool) -> Result<(), Stop> {
        self.commit_with(Vec::new(), intent).await
    }

    /// The same, with the child actions that begin with that step.
    pub(crate) async fn commit_with(&mut self, children: Vec<Action>, intent: bool) -> Result<(), Stop> {
        let mut record = self.pending();
        record.children = children;
        record.applied = true;
        record.data = self.data.stored();
        record.cluster = self.subject.row(&self.action).filter(|_| intent);
        self.record(record).await
    }
}
