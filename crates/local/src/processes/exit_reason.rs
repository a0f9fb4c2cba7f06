//! Messages for nodes that ended, with the last lines of their log.

use std::io;

use muster_engine::ports::provider::ProviderError;

use super::on_disk;
use crate::shim::{NodeFolder, RunOutcome};

/// Number of log lines in a message.
const LAST_LINES: usize = 10;

/// Longest line in a message, in characters: some programs write very long lines.
const MAX_LINE_CHARS: usize = 300;

/// Returns the error of a start whose node ended.
pub(super) fn exit_error(folder: &NodeFolder, outcome: io::Result<RunOutcome>) -> ProviderError {
    match outcome {
        Ok(RunOutcome::Ended(end)) => {
            let message = with_log(folder, &format!("it {end}"));
            if is_port_in_use(&message) {
                ProviderError::permanent("PortInUse", message)
            } else {
                // The cause may be temporary; the engine limits the number of starts.
                ProviderError::node_exited(message)
            }
        }
        Ok(RunOutcome::Lost) => {
            ProviderError::transient("ShimLost", "its supervisor was killed during the start")
        }
        Ok(RunOutcome::Replaced) => ProviderError::transient("Replaced", "another start replaced it"),
        Err(error) => on_disk("how it ended cannot be read", &error),
    }
}

/// Returns true if a log contains the system's error for a port in use, as the logs of all frameworks do.
fn is_port_in_use(log: &str) -> bool {
    log.contains("ddress already in use") || log.contains("Errno 98")
}

fn last_lines(folder: &NodeFolder) -> String {
    let lines = folder.tail(LAST_LINES).unwrap_or_default();
    lines.iter().map(|line| shorten(line)).collect::<Vec<_>>().join("\n")
}

fn shorten(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Appends the last lines of the node's log to a message.
pub(super) fn with_log(folder: &NodeFolder, message: &str) -> String {
    let lines = last_lines(folder);
    if lines.is_empty() { message.to_owned() } else { format!("{message}; its last lines:\n{lines}") }
}

#[cfg(test)]
mod tests {
    use muster_core::ids::NodeId;

    use super::*;

    #[test]
    fn a_message_has_the_last_lines_of_the_log_shortened() {
        let parent = tempfile::tempdir().unwrap();
        let folder = NodeFolder::new(parent.path(), NodeId::from_uuid(uuid::Uuid::from_u128(7)));
        assert_eq!(with_log(&folder, "it ended"), "it ended");
        folder.create().unwrap();
        let lines: Vec<String> = (0..20).map(|number| format!("{number} {}", "é".repeat(10_000))).collect();
        std::fs::write(folder.log(), lines.join("\n")).unwrap();
        let message = with_log(&folder, "it ended");
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!((lines.len(), lines[0]), (11, "it ended; its last lines:"));
        assert!(lines[1].starts_with("10 é") && lines[10].starts_with("19 é"), "{lines:?}");
        assert!(
            lines[1..].iter().all(|line| line.chars().count() == MAX_LINE_CHARS + 1 && line.ends_with('…'))
        );
    }

    #[test]
    fn a_port_in_use_is_recognised_by_the_systems_error() {
        assert!(is_port_in_use("OSError: [Errno 98] Address already in use"));
        assert!(!is_port_in_use("it works"));
    }
}
