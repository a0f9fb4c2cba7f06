//! The end of the command of a job, from its pod or, without a pod, from its Job. Pure.

use k8s_openapi::api::core::v1::{ContainerStateTerminated, PodStatus};
use muster_core::job::{CommandEnd, signal_name};
use serde_json::Value;

use crate::containers;

/// The end of a command, and its description as a phrase, such as `exited with code 7`.
pub(super) type DescribedEnd = (CommandEnd, String);

/// A shell adds this to the number of the signal that ended a command.
const SIGNAL_BASE: i32 = 128;

/// The highest number of a signal that is not a real-time signal; a higher number is part of an exit status.
const LAST_SIGNAL: i32 = 31;

/// Exit statuses of shells for a command that does not exist, and for one that cannot be run.
const NOT_FOUND: i32 = 127;
const NOT_RUNNABLE: i32 = 126;

/// Returns true if a container ended because its program could not be started.
pub(super) fn is_unrunnable(ended: &ContainerStateTerminated) -> bool {
    matches!(ended.reason.as_deref(), Some("StartError" | "ContainerCannotRun"))
}

/// Returns the end of a command whose container has recorded it.
pub(super) fn container_end(ended: &ContainerStateTerminated, pod: Option<&PodStatus>) -> DescribedEnd {
    let reason = ended.reason.as_deref().unwrap_or_default();
    if is_unrunnable(ended) {
        let message = ended.message.as_deref().unwrap_or(reason).trim().to_owned();
        let is_missing = ["not found", "no such file"].iter().any(|words| message.contains(words));
        let code = if is_missing { NOT_FOUND } else { NOT_RUNNABLE };
        return (CommandEnd::NotStarted(code), format!("could not be started: {message}"));
    }
    let signal = ended.exit_code - SIGNAL_BASE;
    let (how, mut message) = if (1..=LAST_SIGNAL).contains(&signal) {
        let message = format!("was ended by signal {signal}{}", signal_name(signal));
        (CommandEnd::Signaled(signal), message)
    } else {
        (CommandEnd::Exited(ended.exit_code), format!("exited with code {}", ended.exit_code))
    };
    if reason == "OOMKilled" {
        message.push_str(" because its pod may use no more memory (OOMKilled)");
    } else if let Some(why) = pod.and_then(interruption).filter(|_| how != CommandEnd::Exited(0)) {
        message = format!("{message}: {why}");
    }
    (how, message)
}

/// Returns the reason why Kubernetes ended a pod, if it did: an eviction, a lost node, a pod with a higher priority.
fn interruption(status: &PodStatus) -> Option<String> {
    let disruption = || {
        let mut conditions = status.conditions.iter().flatten();
        conditions.find(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True")
    };
    containers::end_reason(status).or_else(|| disruption()?.message.clone())
}

/// Returns the end of a command whose pod is gone, or has failed, without a record of the exit status.
pub(super) fn unknown_end(has_started: bool, why: &str) -> DescribedEnd {
    let message = if has_started {
        format!("has ended with unknown exit status: {why}")
    } else {
        format!("was not started: {why}")
    };
    (CommandEnd::Unknown, message)
}

/// Returns the end that a Job without a pod has recorded; `None` while it has not ended.
pub(super) fn job_object_end(object: &Value, has_started: bool) -> Option<DescribedEnd> {
    let conditions = object["status"]["conditions"].as_array()?;
    let holds = |kind: &str| {
        conditions.iter().find(|condition| condition["type"] == kind && condition["status"] == "True")
    };
    if holds("Complete").is_some() {
        return Some((CommandEnd::Exited(0), "exited with code 0".to_owned()));
    }
    let failed = holds("Failed")?;
    let text = |key: &str| failed[key].as_str().unwrap_or_default();
    Some(unknown_end(has_started, &format!("its pod is gone: {}: {}", text("reason"), text("message"))))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::good(json!({"exitCode": 0, "reason": "Completed"}), CommandEnd::Exited(0), "exited with code 0")]
    #[case::bad(json!({"exitCode": 7, "reason": "Error"}), CommandEnd::Exited(7), "exited with code 7")]
    #[case::of_minus_one(json!({"exitCode": 255}), CommandEnd::Exited(255), "exited with code 255")]
    #[case::signal(json!({"exitCode": 143}), CommandEnd::Signaled(15), "was ended by signal 15 (SIGTERM)")]
    #[case::memory(
        json!({"exitCode": 137, "reason": "OOMKilled"}),
        CommandEnd::Signaled(9),
        "was ended by signal 9 (SIGKILL) because its pod may use no more memory (OOMKilled)",
    )]
    #[case::no_such_command(
        json!({"exitCode": 128, "reason": "StartError", "message": "exec: \"x\": executable file not found in $PATH"}),
        CommandEnd::NotStarted(127),
        "could not be started: exec: \"x\": executable file not found in $PATH",
    )]
    #[case::no_program(
        json!({"exitCode": 128, "reason": "StartError", "message": "exec format error"}),
        CommandEnd::NotStarted(126),
        "could not be started: exec format error",
    )]
    fn the_end_of_a_command_is_that_of_its_container(
        #[case] ended: Value,
        #[case] how: CommandEnd,
        #[case] message: &str,
    ) {
        let ended = serde_json::from_value(ended).expect("an end");
        assert_eq!(container_end(&ended, None), (how, message.to_owned()));
    }

    #[rstest]
    #[case::evicted(json!({"reason": "Evicted", "message": "no disk"}), "was ended by signal 15 (SIGTERM): Evicted: no disk")]
    #[case::drained(
        json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "message": "a drain"}]}),
        "was ended by signal 15 (SIGTERM): a drain",
    )]
    fn a_pod_that_kubernetes_ended_says_why(#[case] status: Value, #[case] message: &str) {
        let (ended, pod) = (json!({"exitCode": 143}), serde_json::from_value(status).expect("a status"));
        let ended = serde_json::from_value(ended).expect("an end");
        assert_eq!(container_end(&ended, Some(&pod)).1, message);
    }

    #[rstest]
    #[case::open(json!({"status": {"active": 1}}), None)]
    #[case::complete(
        json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}),
        Some((CommandEnd::Exited(0), "exited with code 0".to_owned())),
    )]
    #[case::failed(
        json!({"status": {"conditions": [{
            "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often",
        }]}}),
        Some((
            CommandEnd::Unknown,
            "has ended with unknown exit status: its pod is gone: BackoffLimitExceeded: too often".to_owned(),
        )),
    )]
    fn a_job_without_a_pod_says_how_it_ended(#[case] object: Value, #[case] expected: Option<DescribedEnd>) {
        assert_eq!(job_object_end(&object, true), expected);
    }
}
