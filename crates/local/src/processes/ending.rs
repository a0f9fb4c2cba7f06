//! How a node ended, in words that a person can act on.

use std::io;

use muster_engine::ports::provider::ProviderError;

use super::on_disk;
use crate::shim::{NodeFolder, Outcome};

/// Lines of a log that tell why a node ended.
const LAST_LINES: usize = 10;

/// How much of such a line is told, in characters: some programs write all they know into one.
const LONGEST_LINE: usize = 300;

/// What a node that ended says of its end.
pub(super) fn ended(folder: &NodeFolder, outcome: io::Result<Outcome>) -> ProviderError {
    match outcome {
        Ok(Outcome::Ended(end)) => {
            let message = with_log(folder, &format!("it {end}"));
            if is_port_in_use(&message) {
                ProviderError::permanent("PortInUse", message)
            } else {
                // It may have been killed, or have met what is gone by now: how often it is tried is not ours to say.
                ProviderError::node_exited(message)
            }
        }
        Ok(Outcome::Lost) => ProviderError::transient("ShimLost", "its shim was killed while it started"),
        Ok(Outcome::Replaced) => ProviderError::transient("Replaced", "it was started by somebody else"),
        Err(error) => on_disk("its end cannot be read", &error),
    }
}

/// What every framework's log says, in the words of the system, when its port is somebody else's.
fn is_port_in_use(log: &str) -> bool {
    log.contains("ddress already in use") || log.contains("Errno 98")
}

fn last_lines(folder: &NodeFolder) -> String {
    let lines = folder.tail(LAST_LINES).unwrap_or_default();
    lines.iter().map(|line| shortened(line)).collect::<Vec<_>>().join("\n")
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(LONGEST_LINE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// A sentence with the last lines of the node's log behind it.
pub(super) fn with_log(folder: &NodeFolder, sentence: &str) -> String {
    let lines = last_lines(folder);
    if lines.is_empty() { sentence.to_owned() } else { format!("{sentence}; its last lines:\n{lines}") }
}

#[cfg(test)]
mod tests {
    use muster_core::ids::NodeId;

    use super::*;

    #[test]
    fn the_last_words_of_a_node_are_told_and_not_all_of_them() {
        let parent = tempfile::tempdir().unwrap();
        let folder = NodeFolder::new(parent.path(), NodeId::from_uuid(uuid::Uuid::from_u128(7)));
        assert_eq!(with_log(&folder, "it ended"), "it ended");
        folder.make().unwrap();
        let lines: Vec<String> = (0..20).map(|number| format!("{number} {}", "é".repeat(10_000))).collect();
        std::fs::write(folder.log(), lines.join("\n")).unwrap();
        let told = with_log(&folder, "it ended");
        let told: Vec<&str> = told.lines().collect();
        assert_eq!((told.len(), told[0]), (11, "it ended; its last lines:"));
        assert!(told[1].starts_with("10 é") && told[10].starts_with("19 é"), "{told:?}");
        assert!(told[1..].iter().all(|line| line.chars().count() == LONGEST_LINE + 1 && line.ends_with('…')));
    }

    #[test]
    fn a_port_of_somebody_else_is_recognised_by_the_words_of_the_system() {
        assert!(is_port_in_use("OSError: [Errno 98] Address already in use"));
        assert!(!is_port_in_use("it works"));
    }
}
