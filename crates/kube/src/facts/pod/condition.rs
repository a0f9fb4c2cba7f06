//! How a pod is, and why it does not work yet.

use muster_core::node::Observation;
use serde::Deserialize;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    phase: String,
    reason: String,
    message: String,
    conditions: Vec<Condition>,
    init_container_statuses: Vec<ContainerStatus>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    image: String,
    restart_count: u32,
    state: State,
    last_state: State,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<Waiting>,
    terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    reason: String,
    message: String,
}

/// A container that keeps dying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Crashed {
    /// Its name.
    pub(crate) container: String,
    /// How often it was started anew.
    pub(crate) restarts: u32,
}

impl Status {
    /// The container that keeps dying, if one does.
    pub(super) fn crashed(&self) -> Option<Crashed> {
        let mut containers = self.init_container_statuses.iter().chain(&self.container_statuses);
        let crashed = containers.find(|status| {
            status.state.waiting.as_ref().is_some_and(|waiting| waiting.reason == "CrashLoopBackOff")
        })?;
        Some(Crashed { container: crashed.name.clone(), restarts: crashed.restart_count })
    }

    /// How the pod that is called so is, and why it does not work yet.
    pub(super) fn seen(&self, identity: &str) -> (Observation, String) {
        let physical_id = identity.to_owned();
        match self.phase.as_str() {
            "Succeeded" | "Failed" => (Observation::Exited { reason: self.end() }, String::new()),
            "Unknown" => {
                (Observation::Unknown { reason: self.words("its machine does not answer") }, String::new())
            }
            _ if self.is("Ready") => (Observation::Running { physical_id }, String::new()),
            _ => (Observation::Starting { physical_id: Some(physical_id) }, self.obstacle()),
        }
    }

    fn is(&self, condition: &str) -> bool {
        self.conditions.iter().any(|each| each.r#type == condition && each.status == "True")
    }

    fn words(&self, otherwise: &str) -> String {
        match (self.reason.as_str(), self.message.as_str()) {
            ("", "") => otherwise.to_owned(),
            ("", words) | (words, "") => words.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }

    /// How it ended.
    fn end(&self) -> String {
        let containers = || self.container_statuses.iter().chain(&self.init_container_statuses);
        let ended =
            |status: &ContainerStatus| status.state.terminated.clone().map(|end| (end, status.name.clone()));
        // The one that failed says more than those that were stopped because of it.
        let mut ends: Vec<_> = containers().filter_map(ended).collect();
        ends.sort_by_key(|(end, _)| end.exit_code == 0);
        match ends.first() {
            Some((end, container)) if self.reason.is_empty() => {
                format!("container '{container}' {}", end.words())
            }
            _ => self.words("it ended"),
        }
    }

    /// Why it does not work yet; empty if there is nothing to say but that it starts.
    fn obstacle(&self) -> String {
        let unschedulable = |each: &&Condition| {
            each.r#type == "PodScheduled" && each.status == "False" && each.reason == "Unschedulable"
        };
        if let Some(condition) = self.conditions.iter().find(unschedulable) {
            return format!("Unschedulable: {}", condition.message);
        }
        let mut containers = self.init_container_statuses.iter().chain(&self.container_statuses);
        containers.find_map(ContainerStatus::obstacle).unwrap_or_default()
    }
}

impl ContainerStatus {
    fn obstacle(&self) -> Option<String> {
        let Self { name, image, restart_count, .. } = self;
        if let Some(end) = &self.state.terminated {
            return (end.exit_code != 0).then(|| format!("container '{name}' {}", end.words()));
        }
        let Waiting { reason, message } = self.state.waiting.as_ref()?;
        let colon = if message.is_empty() { "" } else { ": " };
        match reason.as_str() {
            "" | "ContainerCreating" | "PodInitializing" => None,
            "CrashLoopBackOff" => {
                let last =
                    self.last_state.terminated.as_ref().map(|end| format!(", and last {}", end.words()));
                let last = last.unwrap_or_default();
                Some(format!(
                    "CrashLoopBackOff: container '{name}' was started {} times{last}",
                    restart_count + 1
                ))
            }
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
                Some(format!("{reason}: image '{image}' cannot be had{colon}{message}"))
            }
            reason => Some(format!("{reason}{colon}{message}")),
        }
    }
}

impl Terminated {
    fn words(&self) -> String {
        let Self { exit_code, reason, message } = self;
        let why = match reason.as_str() {
            "" | "Error" | "Completed" => String::new(),
            reason => format!(" ({reason})"),
        };
        let said = message.trim_end();
        let said = if said.is_empty() { String::new() } else { format!(": {said}") };
        format!("ended with exit code {exit_code}{why}{said}")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn seen(status: &Value) -> (Observation, String) {
        serde_json::from_value::<Status>(status.clone()).expect("a status").seen("demo/p")
    }

    #[test]
    fn a_pod_works_when_it_is_ready() {
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(seen(&ready).0, Observation::Running { physical_id: "demo/p".into() });
        let unready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
        assert_eq!(seen(&unready).0, Observation::Starting { physical_id: Some("demo/p".into()) });
    }

    #[rstest]
    #[case::fresh(json!({"phase": "Pending"}), "")]
    #[case::being_made(
        json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}),
        ""
    )]
    #[case::unschedulable(
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu."}]}),
        "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."
    )]
    #[case::image(
        json!({"phase": "Pending", "containerStatuses": [{"name": "c", "image": "none:1",
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]}),
        "ImagePullBackOff: image 'none:1' cannot be had: not found"
    )]
    #[case::crash_loop(
        json!({"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "last words\n"}}}]}),
        "CrashLoopBackOff: container 'c' was started 5 times, and last ended with exit code 137 (OOMKilled): last words"
    )]
    #[case::between_two_starts(
        json!({"phase": "Running", "containerStatuses": [{"name": "c",
            "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
        "container 'c' ended with exit code 1"
    )]
    fn why_it_does_not_work_yet_is_told(#[case] status: Value, #[case] words: &str) {
        assert_eq!(seen(&status).1, words);
    }

    #[rstest]
    #[case(json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}), "Evicted: low on memory")]
    #[case(
        json!({"phase": "Failed", "containerStatuses": [
            {"name": "side", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            {"name": "main", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}]}),
        "container 'main' ended with exit code 3"
    )]
    #[case(json!({"phase": "Succeeded"}), "it ended")]
    fn how_it_ended_is_told(#[case] status: Value, #[case] words: &str) {
        assert_eq!(seen(&status).0, Observation::Exited { reason: words.to_owned() });
    }

    #[test]
    fn a_pod_whose_machine_is_lost_is_unknown() {
        assert!(matches!(
            seen(&json!({"phase": "Unknown", "reason": "NodeLost"})).0,
            Observation::Unknown { .. }
        ));
    }
}
