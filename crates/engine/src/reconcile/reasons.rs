//! Reasons of nodes, and those of many nodes as one message.

use muster_core::event::Level;

use crate::events::reason;
use crate::run::ActionRun;

/// Of a node that leaves, which takes its time where a framework drains it.
pub(crate) const BEING_REMOVED: &str = "it is being removed; what runs on it may end first";
/// Of a node that is stopped to be started again.
pub(crate) const BEING_REPLACED: &str = "it is being stopped, to be started again";

/// Which members stay as they were made before a change, if that leaves some.
fn made_from_older_recipe(names: &[String]) -> Option<String> {
    let listed = names.join(", ");
    (!names.is_empty()).then(|| format!("made from an older recipe until they are restarted: {listed}"))
}

/// The same as a part of a status reason.
pub(crate) fn restart_needed(names: &[String]) -> Option<String> {
    made_from_older_recipe(names).map(|what| format!("{}: {what}.", reason::RESTART_NEEDED))
}

/// Reports which members stay as they were made before the change of this action.
pub(crate) fn report_restart_needed(run: &mut ActionRun) {
    if let Some(message) = made_from_older_recipe(&run.subject.nodes.outdated_names()) {
        let now = run.now();
        run.journal.report_cluster(&run.subject.cluster, Level::Warn, reason::RESTART_NEEDED, &message, now);
    }
}

/// Each reason once, with the name of the first node that has it: many nodes often wait for the same.
pub(crate) fn distinct<'a>(reasons: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for (name, reason) in reasons {
        if !reason.is_empty() && distinct.iter().all(|known| !known.ends_with(reason)) {
            distinct.push(format!("{name}: {reason}"));
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_several_nodes_have_is_named_once() {
        let reasons = [("a", "no image"), ("b", "no image"), ("c", ""), ("d", "no memory")];
        assert_eq!(distinct(reasons), ["a: no image", "d: no memory"]);
    }
}
