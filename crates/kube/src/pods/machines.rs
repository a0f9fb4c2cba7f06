//! The conditions of the machines that pods run on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::{Api, Client};

use super::MAX_CONCURRENT_NODES;

/// Returns those of the named machines that are certainly not ready, with the reasons. Machines whose state is not read
/// before the deadline are unknown.
pub(super) async fn find_unready(
    client: &Client,
    names: BTreeSet<String>,
    deadline: Duration,
) -> BTreeMap<String, String> {
    let machines: Api<Node> = Api::all(client.clone());
    let reads = stream::iter(names).map(|name| {
        let machines = machines.clone();
        async move {
            let why = unready_machine(&machines, &name).await?;
            Some((name, why))
        }
    });
    let answers = reads.buffer_unordered(MAX_CONCURRENT_NODES).take_until(tokio::time::sleep(deadline));
    answers.filter_map(std::future::ready).collect().await
}

/// Returns the reason why a machine is certainly not ready.
async fn unready_machine(machines: &Api<Node>, name: &str) -> Option<String> {
    match machines.get(name).await {
        Ok(machine) => {
            let conditions = machine.status.and_then(|status| status.conditions).unwrap_or_default();
            let why = conditions.iter().find_map(unready_reason)?;
            Some(format!("its machine '{name}' {why}"))
        }
        Err(error) if crate::errors::is_not_found(&error) => Some(format!("its machine '{name}' is gone")),
        // Without an answer, or the right to read machines, the state is unknown.
        Err(error) => {
            tracing::debug!(%error, machine = name, "cannot read the conditions of a machine");
            None
        }
    }
}

/// Returns the reason why pods cannot run on a machine with this condition.
fn unready_reason(condition: &NodeCondition) -> Option<String> {
    let message = condition.message.clone().unwrap_or_default();
    let colon = if message.is_empty() { "" } else { ": " };
    match (condition.type_.as_str(), condition.status.as_str()) {
        ("Ready", "True") => None,
        ("Ready", _) => Some(format!("is not ready{colon}{message}")),
        ("NetworkUnavailable", "True") => Some(format!("has no network{colon}{message}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use muster_testkit::outside::{Outside, Reply};

    use super::*;

    fn names() -> BTreeSet<String> {
        ["one", "two"].map(str::to_owned).into()
    }

    #[tokio::test]
    async fn a_machine_is_read_while_the_answer_about_another_is_awaited() {
        let silent = |_: &_| Reply::Late(Duration::from_hours(1), 200, String::new());
        let mut api_server = Outside::answering(silent).await;
        let client = crate::sample::client(&api_server);
        let read = tokio::spawn(async move { find_unready(&client, names(), Duration::MAX).await });
        let mut asked = [api_server.call().await.line, api_server.call().await.line];
        read.abort();
        asked.sort();
        assert_eq!(asked, ["GET /api/v1/nodes/one", "GET /api/v1/nodes/two"]);
    }

    #[tokio::test]
    async fn a_machine_without_an_answer_before_the_deadline_is_unknown() {
        let silent = |_: &_| Reply::Late(Duration::from_hours(1), 200, String::new());
        let api_server = Outside::answering(silent).await;
        let client = crate::sample::client(&api_server);
        let read =
            tokio::time::timeout(Duration::from_secs(30), find_unready(&client, names(), Duration::ZERO));
        assert_eq!(read.await.expect("it ends at the deadline"), BTreeMap::new());
    }

    #[tokio::test]
    async fn a_machine_that_is_gone_or_not_ready_has_a_reason() {
        let api_server = Outside::answering(|call| {
            let condition = serde_json::json!({"type": "Ready", "status": "False", "message": "no kubelet"});
            let machine = serde_json::json!({"metadata": {}, "status": {"conditions": [condition]}});
            if call.line.contains("one") {
                Reply::Now(200, machine.to_string())
            } else {
                Reply::Now(404, serde_json::json!({"code": 404, "reason": "NotFound"}).to_string())
            }
        })
        .await;
        let unready =
            find_unready(&crate::sample::client(&api_server), names(), Duration::from_mins(1)).await;
        let reasons: Vec<&str> = unready.values().map(String::as_str).collect();
        assert_eq!(reasons, ["its machine 'one' is not ready: no kubelet", "its machine 'two' is gone"]);
    }
}
