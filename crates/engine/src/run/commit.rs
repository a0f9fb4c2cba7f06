//! The commits of an action.

use muster_core::action::Action;
use muster_store::commands::Record;

use crate::run::{ActionRun, Stop};

impl ActionRun {
    /// Creates a commit of everything that is pending: nodes, ended children, events, outputs, the cluster's object.
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
        let writes_intent = record.cluster.is_some();
        // Children that are inserted by this commit cannot have been cancelled before it.
        let all_new = record.children.len() == self.children.open.len();
        let signal = self.context.store.record(record).await?;
        if writes_intent {
            self.subject.uncommitted = None;
        }
        self.control.set_deaths(0);
        self.control.take_signal(signal, before, all_new);
        Ok(())
    }

    /// Returns true if changes of nodes, ends of children or events are pending.
    pub(crate) fn has_pending_changes(&self) -> bool {
        self.subject.nodes.have_changed() || self.children.have_ended() || !self.journal.events.is_empty()
    }

    /// Commits pending changes, if there are any.
    pub(crate) async fn flush(&mut self) -> Result<(), Stop> {
        if !self.has_pending_changes() {
            return Ok(());
        }
        let record = self.pending();
        self.record(record).await
    }

    /// Commits the action's data before a step, and with `intent` the cluster.
    pub(crate) async fn commit(&mut self, intent: bool) -> Result<(), Stop> {
        self.commit_with(Vec::new(), intent).await
    }

    /// Commits like [`Self::commit`], with the child actions that begin with the step.
    pub(crate) async fn commit_with(&mut self, children: Vec<Action>, intent: bool) -> Result<(), Stop> {
        let mut record = self.pending();
        record.children = children;
        record.applied = true;
        record.data = self.data.stored();
        record.cluster = self.subject.row(&self.action).filter(|_| intent);
        self.record(record).await
    }
}
