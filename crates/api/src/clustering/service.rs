//! Build information, and the list of engines.

use serde_json::{Value, json};

use super::call::ClusteringCall;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::show::time;

pub(super) fn build_info(_: &ClusteringCall) -> Reply {
    Reply::of("build_info", json!({"api": {"revision": "1.0"}, "engine": {"revision": "1.0"}}))
}

/// Lists the engines, including those whose lease expired recently.
pub(super) async fn list(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let engines = call.service().engines().await?;
    let shown: Vec<Value> = engines
        .iter()
        .map(|engine| {
            json!({
                "id": engine.id.to_string(),
                "host": engine.host,
                "binary": "muster-engine",
                "topic": "muster-engine",
                "disabled_reason": null,
                "status": "enabled",
                "state": if engine.alive { "up" } else { "down" },
                "updated_at": time(engine.lease_until),
            })
        })
        .collect();
    Ok(Reply::of("services", shown))
}
