//! Reasons of nodes, and those of many nodes as one message.

/// Of a node that leaves, which takes its time where a framework drains it.
pub(crate) const BEING_REMOVED: &str = "it is being removed; what runs on it may end first";
/// Of a node that is stopped to be started again.
pub(crate) const BEING_REPLACED: &str = "it is being stopped, to be started again";

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
