//! The commits of an action.

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_store::commands::Record;

use crate::run::{ActionRun, Stop};

impl ActionRun {
    /// A commit that carries the journal: nodes, children, events.
    pub(crate) fn pending(&mut self) -> Record {
        let mut record = Record::new(self.ticket(), self.now());
        self.journal.drain_into(&mut record, &self.subject.nodes);
        record
    }

    /// Commits, and receives signals that were sent meanwhile.
    pub(crate) async fn record(&mut self, record: Record) -> Result<(), Stop> {
        if self.has_expired() {
            return Err(Stop::Fenced);
        }
        let before = self.control.signals.version();
        // Children that are inserted by this commit cannot have been cancelled before it.
        let all_new = record.children.len() == self.children.open.len();
        let signal = self.context.store.record(record).await?;
        self.control.take_signal(signal, before, all_new);
        Ok(())
    }

    /// Writes the journal, if there is anything in it.
    pub(crate) async fn flush(&mut self) -> Result<(), Stop> {
        if self.journal.is_empty() {
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
        record.cluster = self.row().filter(|_| intent);
        self.record(record).await
    }

    /// The cluster as it is written, if it is a row that may change: history does not.
    pub(crate) fn row(&self) -> Option<Cluster> {
        let changes = self.subject.stored && !self.action.collects_garbage();
        changes.then(|| self.subject.cluster.clone())
    }
}
