//! The progress line of a command that waits for a cluster.

use std::time::{Duration, Instant};

use muster_proto::v1alpha2::{Action, Cluster, Node};

use crate::output::{Spinner, harmless};

/// The state of the progress line; it is printed again when it changes.
pub(super) struct Progress {
    name: String,
    spinner: Spinner,
    kind: String,
    queued: bool,
    since: Instant,
    hint_is_due: bool,
    observed: String,
    last: String,
}

/// Time after which a line explains, once, how to stop waiting.
const HINT_AFTER: Duration = Duration::from_secs(20);

/// The end of the first line of a reason that is followed by lines of a log.
const LAST_LINES: &str = "; its last lines:";

/// Reasons that repeat the state.
const EMPTY_REASONS: [&str; 6] = [
    "Initializing",
    "Creation in progress",
    "Deletion in progress",
    "Update in progress",
    "Resize in progress",
    "Recovery in progress",
];

impl Progress {
    pub(super) fn new(name: &str) -> Self {
        let spinner = Spinner::new(name.to_owned());
        Self::with_spinner(name, spinner)
    }

    /// Creates progress that is not shown.
    pub(super) fn hidden(name: &str) -> Self {
        Self { hint_is_due: false, ..Self::with_spinner(name, Spinner::hidden()) }
    }

    fn with_spinner(name: &str, spinner: Spinner) -> Self {
        let (kind, observed, last) = (String::new(), String::new(), String::new());
        Self {
            name: name.to_owned(),
            spinner,
            kind,
            queued: false,
            since: Instant::now(),
            hint_is_due: true,
            observed,
            last,
        }
    }

    /// Records the action, which may still be queued.
    pub(super) fn set_action(&mut self, action: &Action) {
        self.kind.clone_from(&action.action);
        self.queued = matches!(action.status.as_str(), "INIT" | "WAITING" | "READY");
        self.print_change();
    }

    /// Returns the kind of the action; empty until it was read.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    pub(super) fn show(&mut self, cluster: &Cluster, nodes: &[Node], event: &str) {
        self.observed = describe(cluster, nodes, event);
        if self.hint_is_due && self.since.elapsed() > HINT_AFTER {
            self.hint_is_due = false;
            self.spinner
                .print_line(&format!("{}: still waiting; Ctrl-C stops waiting, not the action", self.name));
        }
        self.print_change();
    }

    /// Returns the last line that was shown.
    pub(super) fn last(&self) -> &str {
        &self.last
    }

    fn print_change(&mut self) {
        if self.observed.is_empty() {
            return;
        }
        // The action of a new cluster has no other action to wait for: it is just not claimed yet.
        let waits = self.queued && !self.observed.starts_with("INIT");
        let queued = if waits { ", queued" } else { "" };
        let observed = if waits { self.observed.trim_end_matches('.') } else { &self.observed };
        let line = format!("{observed}{queued}");
        if line == self.last {
            return;
        }
        self.spinner.show_at(format!("{}: {line}", self.name), self.since.elapsed());
        self.last = line;
    }

    /// Prints a line that stays above the progress line.
    pub(super) fn print_line(&self, text: &str) {
        self.spinner.print_line(text);
    }
}

fn describe(cluster: &Cluster, nodes: &[Node], event: &str) -> String {
    let step = step(cluster, nodes);
    // A working cluster needs no reason; during a check or operation the stored reason is an old one.
    let reason = match cluster.state.as_str() {
        "ACTIVE" | "CHECKING" | "OPERATING" => "",
        // The reason is older than the list of nodes.
        "CREATING" if all_work(cluster, nodes) => "",
        _ if EMPTY_REASONS.contains(&cluster.status_reason.as_str()) => "",
        _ => cluster.status_reason.as_str(),
    };
    let why = if event.is_empty() { reason } else { event };
    let why = harmless(why.lines().next().unwrap_or_default());
    // The lines themselves are printed with the failure.
    let why = why.strip_suffix(LAST_LINES).unwrap_or(&why);
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{}, {step}{why}", cluster.state)
}

/// Returns true if the cluster has all its nodes, and all of them work.
fn all_work(cluster: &Cluster, nodes: &[Node]) -> bool {
    let workers = nodes.iter().filter(|node| node.role != HEAD).count();
    let wanted = usize::try_from(cluster.desired_workers).unwrap_or_default();
    !nodes.is_empty() && workers == wanted && nodes.iter().all(|node| node.state == "ACTIVE")
}

/// Names the current step: the head first, then the workers.
fn step(cluster: &Cluster, nodes: &[Node]) -> String {
    let head = nodes.iter().find(|node| node.role == HEAD);
    match (cluster.state.as_str(), head.map(|head| head.state.as_str())) {
        ("DELETING", _) => {
            return match nodes.len() {
                0 => "no nodes left".to_owned(),
                1 => "1 node stopping".to_owned(),
                count => format!("{count} nodes stopping"),
            };
        }
        (_, Some("INIT" | "CREATING")) => return "head starting".to_owned(),
        (_, Some("RECOVERING")) => return "head restarting".to_owned(),
        _ => {}
    }
    // The nodes of a working cluster may have changed since its row was read.
    if nodes.is_empty() || cluster.state == "ACTIVE" {
        return format!("{} workers ready", crate::table::workers(cluster));
    }
    let ready = nodes.iter().filter(|node| node.role != HEAD && node.state == "ACTIVE").count();
    format!("{ready}/{} workers ready", cluster.desired_workers)
}

/// The role of the head.
const HEAD: &str = "head";

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn node(role: &str, state: &str) -> Node {
        Node { role: role.to_owned(), state: state.to_owned(), ..Node::default() }
    }

    #[rstest]
    #[case::not_known("CREATING", &[], "CREATING, ?/2 workers ready")]
    #[case::head("CREATING", &[("head", "CREATING"), ("worker", "INIT")], "CREATING, head starting")]
    #[case::workers("CREATING", &[("head", "ACTIVE"), ("worker", "ACTIVE"), ("worker", "CREATING")], "CREATING, 1/2 workers ready")]
    #[case::new_head("RECOVERING", &[("head", "RECOVERING"), ("worker", "ACTIVE")], "RECOVERING, head restarting")]
    #[case::end("DELETING", &[("head", "DELETING"), ("worker", "DELETING")], "DELETING, 2 nodes stopping")]
    fn progress_names_the_current_step(
        #[case] state: &str,
        #[case] nodes: &[(&str, &str)],
        #[case] expected: &str,
    ) {
        let nodes: Vec<Node> = nodes.iter().map(|(role, state)| node(role, state)).collect();
        let reason = "Initializing".to_owned();
        let cluster = Cluster {
            state: state.to_owned(),
            status_reason: reason,
            desired_workers: 2,
            ..Cluster::default()
        };
        assert_eq!(describe(&cluster, &nodes, ""), expected);
        let waiting = "fred-worker-2: draining: waiting for 1 task (4 min left)";
        let cluster = Cluster { status_reason: waiting.to_owned(), ..cluster };
        assert_eq!(describe(&cluster, &nodes, ""), format!("{expected}: {waiting}"));
    }

    #[test]
    fn a_working_cluster_has_the_counts_of_its_row() {
        let state = "ACTIVE".to_owned();
        let cluster = Cluster { state, desired_workers: 2, ready_workers: Some(2), ..Cluster::default() };
        let nodes = [node("head", "DELETING"), node("worker", "DELETING")];
        assert_eq!(describe(&cluster, &nodes, ""), "ACTIVE, 2/2 workers ready");
    }

    #[test]
    fn a_reason_that_is_older_than_the_nodes_is_left_out() {
        let reason = "group 'default': 0 of 1 workers work".to_owned();
        let state = "CREATING".to_owned();
        let cluster = Cluster { state, status_reason: reason, desired_workers: 1, ..Cluster::default() };
        let nodes = [node("head", "ACTIVE"), node("worker", "ACTIVE")];
        assert_eq!(describe(&cluster, &nodes, ""), "CREATING, 1/1 workers ready");
        let nodes = [node("head", "ACTIVE"), node("worker", "CREATING")];
        assert!(
            describe(&cluster, &nodes, "")
                .ends_with("0/1 workers ready: group 'default': 0 of 1 workers work")
        );
    }
}
