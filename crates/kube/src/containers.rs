//! The progress of a program that runs once, from the container of its pod. Pure.

use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStateWaiting, Pod, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use muster_core::time::Timestamp;

/// Reasons of containers that are about to start. They are no obstacles.
const STARTING_REASONS: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The progress of a container that runs once.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ContainerProgress {
    /// The container has not started, for this reason; empty if nothing prevents its start.
    Waiting(String),
    /// The container runs, since this time if that is known.
    Running(Option<Timestamp>),
    /// The container has ended.
    Ended(Box<ContainerStateTerminated>),
    /// The pod failed, for this reason, and has no record of the container's end.
    PodFailed(String),
}

/// Reads the progress of this container of a pod.
pub(crate) fn container_progress(pod: &Pod, container: &str) -> ContainerProgress {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_ref());
    let container = containers.into_iter().flatten().find(|each| each.name == container);
    let state = container.and_then(|container| container.state.as_ref());
    if let Some(ContainerState { terminated: Some(ended), .. }) = state {
        return ContainerProgress::Ended(Box::new(ended.clone()));
    }
    if let Some(ContainerState { running: Some(running), .. }) = state {
        return ContainerProgress::Running(running.started_at.as_ref().map(timestamp));
    }
    let waiting = state.and_then(|state| state.waiting.as_ref());
    match status.and_then(|status| status.phase.as_deref()) {
        Some("Failed") => ContainerProgress::PodFailed(
            status.and_then(end_reason).unwrap_or_else(|| "its pod failed".to_owned()),
        ),
        Some("Succeeded") => ContainerProgress::Ended(Box::default()),
        Some("Running") if waiting.is_none() => ContainerProgress::Running(None),
        _ => ContainerProgress::Waiting(
            waiting.and_then(waiting_reason).or_else(|| unscheduled_reason(status?)).unwrap_or_default(),
        ),
    }
}

/// Returns the time in a field of an object.
pub(crate) fn timestamp(at: &Time) -> Timestamp {
    Timestamp::from_micros(at.0.as_microsecond())
}

/// Returns the reason and message of the end of a pod, such as its eviction.
pub(crate) fn end_reason(status: &PodStatus) -> Option<String> {
    join_reason(status.reason.as_deref(), status.message.as_deref())
}

fn waiting_reason(waiting: &ContainerStateWaiting) -> Option<String> {
    let reason = waiting.reason.as_deref().filter(|reason| !STARTING_REASONS.contains(reason));
    join_reason(reason, waiting.message.as_deref())
}

fn unscheduled_reason(status: &PodStatus) -> Option<String> {
    let mut unmet = status.conditions.iter().flatten().filter(|condition| condition.status == "False");
    unmet
        .find(|condition| condition.type_ == "PodScheduled")
        .and_then(|condition| join_reason(condition.reason.as_deref(), condition.message.as_deref()))
}

fn join_reason(reason: Option<&str>, message: Option<&str>) -> Option<String> {
    let given = |text: Option<&str>| text.map(str::to_owned).filter(|text| !text.is_empty());
    match (given(reason), given(message)) {
        (Some(reason), Some(message)) => Some(format!("{reason}: {message}")),
        (reason, message) => reason.or(message),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn waiting(text: &str) -> ContainerProgress {
        ContainerProgress::Waiting(text.to_owned())
    }

    fn with_state(state: &Value) -> Value {
        let container = json!({
            "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        });
        json!({"phase": "Pending", "containerStatuses": [container]})
    }

    #[rstest]
    #[case::new(json!({}), waiting(""))]
    #[case::unscheduled(
        json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no gpu"},
        ]}),
        waiting("Unschedulable: no gpu"),
    )]
    #[case::begins(with_state(&json!({"waiting": {"reason": "ContainerCreating"}})), waiting(""))]
    #[case::no_image(
        with_state(&json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}})),
        waiting("ImagePullBackOff: not found"),
    )]
    #[case::runs(
        with_state(&json!({"running": {"startedAt": "1970-01-01T00:00:07Z"}})),
        ContainerProgress::Running(Some(Timestamp::from_micros(7_000_000))),
    )]
    #[case::pod_runs(json!({"phase": "Running"}), ContainerProgress::Running(None))]
    #[case::succeeded(json!({"phase": "Succeeded"}), ContainerProgress::Ended(Box::default()))]
    #[case::evicted(
        json!({"phase": "Failed", "reason": "Evicted", "message": "no disk"}),
        ContainerProgress::PodFailed("Evicted: no disk".to_owned()),
    )]
    fn a_container_is_as_its_pod_reports(#[case] status: Value, #[case] expected: ContainerProgress) {
        let pod = serde_json::from_value(json!({"metadata": {}, "status": status})).expect("a pod");
        assert_eq!(container_progress(&pod, "c"), expected);
    }
}
