//! The status of a pod: its observation, and the reason why it is not ready yet.

use muster_core::node::Observation;
use serde::Deserialize;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    phase: String,
    reason: String,
    message: String,
    conditions: Vec<PodCondition>,
    init_container_statuses: Vec<ContainerStatus>,
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodCondition {
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
    state: ContainerState,
    last_state: ContainerState,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<ContainerWaiting>,
    terminated: Option<ContainerTerminated>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ContainerWaiting {
    reason: String,
    message: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerTerminated {
    exit_code: i32,
    reason: String,
    message: String,
}

/// A container in a crash loop: the kubelet restarts it with growing delays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CrashLoop {
    pub(crate) container: String,
    pub(crate) restarts: u32,
}

impl PodStatus {
    /// Returns the container that is in a crash loop, if any.
    pub(super) fn crash_loop(&self) -> Option<CrashLoop> {
        let mut containers = self.init_container_statuses.iter().chain(&self.container_statuses);
        let container = containers.find(|status| {
            status.state.waiting.as_ref().is_some_and(|waiting| waiting.reason == "CrashLoopBackOff")
        })?;
        Some(CrashLoop { container: container.name.clone(), restarts: container.restart_count })
    }

    /// Returns the observation of a pod with this physical id, and the reason why it is not ready yet.
    pub(super) fn observe(&self, identity: &str) -> (Observation, String) {
        let physical_id = identity.to_owned();
        match self.phase.as_str() {
            "Succeeded" | "Failed" => (Observation::Exited { reason: self.end_reason() }, String::new()),
            "Unknown" => (
                Observation::Unknown { reason: self.describe("its machine does not respond") },
                String::new(),
            ),
            _ if self.has_condition("Ready") => (Observation::Running { physical_id }, String::new()),
            _ => (Observation::Starting { physical_id: Some(physical_id) }, self.obstacle()),
        }
    }

    fn has_condition(&self, condition: &str) -> bool {
        self.conditions.iter().any(|each| each.r#type == condition && each.status == "True")
    }

    fn describe(&self, otherwise: &str) -> String {
        match (self.reason.as_str(), self.message.as_str()) {
            ("", "") => otherwise.to_owned(),
            ("", text) | (text, "") => text.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }

    /// Returns the reason why the pod ended.
    fn end_reason(&self) -> String {
        let containers = || self.container_statuses.iter().chain(&self.init_container_statuses);
        let ended =
            |status: &ContainerStatus| status.state.terminated.clone().map(|end| (end, status.name.clone()));
        // A container that failed explains the end of the pod; the others were stopped because of that failure.
        let mut ends: Vec<_> = containers().filter_map(ended).collect();
        ends.sort_by_key(|(end, _)| end.exit_code == 0);
        match ends.first() {
            Some((end, container)) if self.reason.is_empty() => {
                format!("container '{container}' {}", end.describe())
            }
            _ => self.describe("it ended"),
        }
    }

    /// Returns the reason why the pod is not ready yet; empty if it is just starting.
    fn obstacle(&self) -> String {
        let unschedulable = |each: &&PodCondition| {
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
            return (end.exit_code != 0).then(|| format!("container '{name}' {}", end.describe()));
        }
        let ContainerWaiting { reason, message } = self.state.waiting.as_ref()?;
        let colon = if message.is_empty() { "" } else { ": " };
        match reason.as_str() {
            "" | "ContainerCreating" | "PodInitializing" => None,
            "CrashLoopBackOff" => {
                let last =
                    self.last_state.terminated.as_ref().map(|end| format!(", and last {}", end.describe()));
                let last = last.unwrap_or_default();
                Some(format!(
                    "CrashLoopBackOff: container '{name}' was started {} times{last}",
                    restart_count + 1
                ))
            }
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
                Some(format!("{reason}: cannot pull image '{image}'{colon}{message}"))
            }
            reason => Some(format!("{reason}{colon}{message}")),
        }
    }
}

impl ContainerTerminated {
    fn describe(&self) -> String {
        let Self { exit_code, reason, message } = self;
        let why = match reason.as_str() {
            "" | "Error" | "Completed" => String::new(),
            reason => format!(" ({reason})"),
        };
        let message = message.trim_end();
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        format!("ended with exit code {exit_code}{why}{message}")
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn observe(status: &Value) -> (Observation, String) {
        serde_json::from_value::<PodStatus>(status.clone()).expect("a status").observe("demo/p")
    }

    #[test]
    fn a_pod_runs_when_it_is_ready() {
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(observe(&ready).0, Observation::Running { physical_id: "demo/p".into() });
        let unready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]});
        assert_eq!(observe(&unready).0, Observation::Starting { physical_id: Some("demo/p".into()) });
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
        "ImagePullBackOff: cannot pull image 'none:1': not found"
    )]
    #[case::crash_loop(
        json!({"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "out of memory\n"}}}]}),
        "CrashLoopBackOff: container 'c' was started 5 times, and last ended with exit code 137 (OOMKilled): out of memory"
    )]
    #[case::between_two_starts(
        json!({"phase": "Running", "containerStatuses": [{"name": "c",
            "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
        "container 'c' ended with exit code 1"
    )]
    fn a_pod_that_is_not_ready_has_a_reason(#[case] status: Value, #[case] reason: &str) {
        assert_eq!(observe(&status).1, reason);
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
    fn a_pod_that_ended_has_a_reason(#[case] status: Value, #[case] reason: &str) {
        assert_eq!(observe(&status).0, Observation::Exited { reason: reason.to_owned() });
    }

    #[test]
    fn a_pod_whose_machine_is_lost_is_unknown() {
        assert!(matches!(
            observe(&json!({"phase": "Unknown", "reason": "NodeLost"})).0,
            Observation::Unknown { .. }
        ));
    }
}
