//! Logs that cannot be read by a command that follows them.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure::Failure;

/// The failures of the logs whose last reading failed, by the id of the node. A log is read again each second, so its
/// attempts are not counted.
#[derive(Debug, Default)]
pub(super) struct FailedLogs(BTreeMap<String, Failure>);

impl FailedLogs {
    pub(super) fn record(&mut self, node: String, failure: Failure) {
        self.0.insert(node, failure);
    }

    /// Forgets the failure of a node whose log can be read now.
    pub(super) fn forget(&mut self, node: &str) {
        self.0.remove(node);
    }

    /// Returns a failure if no log of these nodes can be read.
    pub(super) fn of_all(&self, nodes: &BTreeSet<String>) -> Option<&Failure> {
        let failures = nodes.iter().map(|node| self.0.get(node));
        failures.collect::<Option<Vec<_>>>()?.into_iter().next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn logs_are_followed_as_long_as_one_of_them_can_be_read() {
        let nodes: BTreeSet<String> = ["silent", "failing"].map(str::to_owned).into();
        let unreadable = || Failure::new(Exit::Failed, "the log cannot be read");
        let mut failed = FailedLogs::default();
        for _ in 0..3 {
            failed.record("failing".to_owned(), unreadable());
            assert_eq!(failed.of_all(&nodes), None, "another node may just be silent");
        }
        failed.record("silent".to_owned(), unreadable());
        assert_eq!(failed.of_all(&nodes), Some(&unreadable()));
        failed.forget("silent");
        assert_eq!(failed.of_all(&nodes), None);
    }
}
