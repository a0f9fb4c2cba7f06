//! The report of a failed wait: the state that a person would check.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde::Serialize;

use super::{Kubernetes, Operator};
use crate::logs;

const LOGS: [&str; 4] = ["kube-controller-manager", "kube-scheduler", "kwok", "kube-apiserver"];
const LOG_LINES: usize = 20;

/// The object, its namespace's events and pods, and the ends of the components' logs.
pub(super) struct Diagnosis {
    object: String,
    events: Vec<String>,
    pods: Vec<String>,
    logs: Vec<(&'static str, String)>,
}

impl Diagnosis {
    pub(super) async fn collect<K: Serialize>(
        kubernetes: &Kubernetes,
        namespace: &str,
        object: Option<&K>,
    ) -> Self {
        let client = kubernetes.client();
        Self {
            object: object.map_or("it does not exist\n".to_owned(), yaml),
            events: events(Api::namespaced(client.clone(), namespace)).await,
            pods: pods(Api::namespaced(client, namespace)).await,
            logs: tails(kubernetes),
        }
    }

    pub(super) fn write_to(&self, report: &mut String) {
        let _ = writeln!(report, "--- the object, as last seen\n{}", self.object);
        for (title, lines) in [("events", &self.events), ("pods", &self.pods)] {
            let _ = writeln!(report, "--- {title} of the namespace");
            for line in lines {
                let _ = writeln!(report, "  {line}");
            }
        }
        for (name, tail) in &self.logs {
            let _ = writeln!(report, "--- the last lines of {name}\n{tail}");
        }
    }
}

/// The ends of the logs; those of operators only if they were started.
fn tails(kubernetes: &Kubernetes) -> Vec<(&'static str, String)> {
    let log = |name: &str| kubernetes.log_dir.join(format!("{name}.log"));
    let operators = Operator::ALL.map(Operator::component).into_iter().filter(|name| log(name).exists());
    operators.chain(LOGS).map(|name| (name, logs::tail(&log(name), LOG_LINES))).collect()
}

fn yaml<K: Serialize>(object: &K) -> String {
    serde_saphyr::to_string(object).unwrap_or_else(|error| format!("(not to be written as YAML: {error})\n"))
}

async fn events(api: Api<Event>) -> Vec<String> {
    let mut events = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(error) => return vec![format!("(cannot be listed: {error})")],
    };
    events.sort_by_key(time);
    events.iter().map(event_line).collect()
}

/// The last time of an event, in a text form whose order is that of the times.
fn time(event: &Event) -> String {
    let newest =
        event.last_timestamp.as_ref().or(event.first_timestamp.as_ref()).map(|time| time.0.to_string());
    newest
        .or_else(|| event.event_time.as_ref().map(|time| time.0.to_string()))
        .or_else(|| event.creation_timestamp().map(|time| time.0.to_string()))
        .unwrap_or_default()
}

fn event_line(event: &Event) -> String {
    let of = &event.involved_object;
    format!(
        "{} {} {} {}/{}: {}",
        time(event),
        event.type_.as_deref().unwrap_or("-"),
        event.reason.as_deref().unwrap_or("-"),
        of.kind.as_deref().unwrap_or("-"),
        of.name.as_deref().unwrap_or("-"),
        event.message.as_deref().unwrap_or_default(),
    )
}

async fn pods(api: Api<Pod>) -> Vec<String> {
    match api.list(&ListParams::default()).await {
        Ok(list) => list.iter().map(pod_line).collect(),
        Err(error) => vec![format!("(cannot be listed: {error})")],
    }
}

fn pod_line(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let mut line = format!("{} {}", pod.name_any(), status.phase.as_deref().unwrap_or("(no phase)"));
    if pod.metadata.deletion_timestamp.is_some() {
        line.push_str(" (being deleted)");
    }
    for condition in status.conditions.unwrap_or_default() {
        let _ = write!(line, " {}={}", condition.type_, condition.status);
        if let Some(reason) = condition.reason {
            let _ = write!(line, "({reason})");
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pods_line_has_its_phase_and_conditions() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web-0"},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
            ]},
        }))
        .unwrap();
        assert_eq!(pod_line(&pod), "web-0 Pending PodScheduled=False(Unschedulable)");
    }

    #[test]
    fn an_events_line_has_time_type_reason_object_and_message() {
        let event: Event = serde_json::from_value(json!({
            "metadata": {"name": "web-0.1"},
            "involvedObject": {"kind": "Pod", "name": "web-0"},
            "lastTimestamp": "2026-01-02T03:04:05Z",
            "type": "Warning", "reason": "FailedScheduling", "message": "0/3 nodes are available",
        }))
        .unwrap();
        let expected = "2026-01-02T03:04:05Z Warning FailedScheduling Pod/web-0: 0/3 nodes are available";
        assert_eq!(event_line(&event), expected);
    }
}
