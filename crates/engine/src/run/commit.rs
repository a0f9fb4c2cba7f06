//! What an action writes.

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_store::commands::Record;

use crate::run::{ActionRun, Stop};

impl ActionRun {
    /// A commit that carries what is behind: nodes, children, events.
    pub(crate) fn pending(&mut self) -> Record {
        let mut record = Record::new(self.ticket(), self.now());
        let (dirty, unborn) = (std::mem::take(&mut self.dirty), std::mem::take(&mut self.unborn));
        let dirty = self.nodes.iter().filter(|node| dirty.contains(&node.id)).cloned();
        (record.new_nodes, record.nodes) = dirty.partition(|node| unborn.contains(&node.id));
        let relocated = std::mem::take(&mut self.relocated);
        record.moved_nodes = std::mem::take(&mut self.moved);
        record.moved_nodes.extend(record.nodes.extract_if(.., |node| relocated.contains(&node.id)));
        record.gone_nodes = std::mem::take(&mut self.gone);
        record.ended_children = std::mem::take(&mut self.ended);
        record.events = std::mem::take(&mut self.events);
        record
    }

    /// Commits, and takes note of what the action was told meanwhile.
    pub(crate) async fn record(&mut self, record: Record) -> Result<(), Stop> {
        if self.lease.has_expired(self.now()) {
            return Err(Stop::Fenced);
        }
        let before = self.follow.version();
        // Parts that come with this commit were told nothing before it.
        let up_to_date = self.told.lock().version == before || record.children.len() == self.children.len();
        let control = self.context.store.record(record).await?;
        let mut told = self.told.lock();
        told.control = control;
        if up_to_date {
            told.version = before;
        }
        Ok(())
    }

    /// Writes what is behind, if anything is.
    pub(crate) async fn flush(&mut self) -> Result<(), Stop> {
        let nodes = self.dirty.is_empty() && self.moved.is_empty() && self.gone.is_empty();
        if nodes && self.ended.is_empty() && self.events.is_empty() {
            return Ok(());
        }
        let record = self.pending();
        self.record(record).await
    }

    /// The commit before a step that is no change of nodes: what was decided, and the intent if it has changed.
    pub(crate) async fn commit(&mut self, intent: bool) -> Result<(), Stop> {
        self.commit_with(Vec::new(), intent).await
    }

    /// The same, with the parts that begin with that step.
    pub(crate) async fn commit_with(&mut self, children: Vec<Action>, intent: bool) -> Result<(), Stop> {
        let mut record = self.pending();
        record.children = children;
        record.applied = true;
        record.data = self.data.stored();
        record.cluster = self.row().filter(|_| intent);
        self.record(record).await
    }

    /// The cluster as it is written, if it is.
    pub(crate) fn row(&self) -> Option<Cluster> {
        self.stored.then(|| self.cluster.clone())
    }
}
