//! Status reasons of nodes, and messages that combine the reasons of many nodes.

use std::collections::HashSet;

use muster_core::event::Level;

use crate::events::reason;
use crate::run::ActionRun;

/// The status reason of a node that is removed; that may take long where the framework drains the node.
pub(crate) const BEING_REMOVED: &str = "being removed; running tasks may finish first";
/// The status reason of a node whose pod is deleted, by its operator or by another program.
pub(crate) const BEING_DELETED: &str = "its pod is being deleted";
/// The status reason of a node that is stopped to be recreated.
pub(crate) const BEING_REPLACED: &str = "being stopped, to be recreated";

/// Names the members that keep an older recipe until they are restarted; none if there are no such members.
fn keep_older_recipe(names: &[String]) -> Option<String> {
    let listed = names.join(", ");
    (!names.is_empty())
        .then(|| format!("these nodes keep an older recipe until they are restarted: {listed}"))
}

/// Names the members that need a restart, as a part of a status reason.
pub(crate) fn restart_needed(names: &[String]) -> Option<String> {
    keep_older_recipe(names).map(|what| format!("{}: {what}.", reason::RESTART_NEEDED))
}

/// Reports the members that keep an older recipe after the change of this action.
pub(crate) fn report_restart_needed(run: &mut ActionRun) {
    if let Some(message) = keep_older_recipe(&run.subject.nodes.outdated_names()) {
        let now = run.now();
        run.journal.report_cluster(&run.subject.cluster, Level::Warn, reason::RESTART_NEEDED, &message, now);
    }
}

/// Returns each reason once, with the name of the first node that has it: many nodes often have the same reason.
pub(crate) fn distinct<'a>(reasons: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut known: HashSet<&str> = HashSet::new();
    reasons
        .into_iter()
        .filter(|(_, reason)| !reason.is_empty() && known.insert(reason))
        .map(|(name, reason)| format!("{name}: {reason}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_several_nodes_have_is_named_once() {
        let reasons = [("a", "no image"), ("b", "no image"), ("c", ""), ("d", "no memory")];
        assert_eq!(distinct(reasons), ["a: no image", "d: no memory"]);
    }

    #[test]
    fn a_reason_that_ends_another_reason_is_named_too() {
        let reasons = [("a", "image x: not found"), ("b", "not found"), ("c", "a: not found")];
        assert_eq!(distinct(reasons), ["a: image x: not found", "b: not found", "c: a: not found"]);
    }
}
