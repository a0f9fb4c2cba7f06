//! Readiness checks of components, which show that they work, not only that their processes run.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use http::Request;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt as _, wait};
use kube::{Api, Client, Config, ResourceExt as _};

/// The interval between checks of readiness.
const INTERVAL: Duration = Duration::from_millis(50);

/// A client for a component that serves without TLS.
pub(in crate::testbed) fn plain(port: u16) -> Result<Client> {
    Ok(Client::try_from(Config::new(format!("http://127.0.0.1:{port}").parse()?))?)
}

/// Waits until a component responds with success on this path.
pub(in crate::testbed) async fn answers(client: Client, path: &str) -> Result<()> {
    while client.request_text(Request::get(path).body(Vec::new())?).await.is_err() {
        tokio::time::sleep(INTERVAL).await;
    }
    Ok(())
}

/// Waits until the controller manager has created the first service account, which shows that its controllers run.
pub(super) async fn makes_service_accounts(client: Client) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
    wait::await_condition(accounts, "default", |seen: Option<&ServiceAccount>| seen.is_some()).await?;
    Ok(())
}

/// Waits until all nodes are Ready.
pub(super) async fn keeps_nodes_ready(client: Client, count: u16) -> Result<()> {
    let mut ready = BTreeSet::new();
    let mut changes = pin!(watcher(Api::<Node>::all(client), watcher::Config::default()).default_backoff());
    while ready.len() < usize::from(count) {
        match changes.next().await.context("the watch of the nodes ended")? {
            Ok(Event::Apply(node) | Event::InitApply(node)) if is_ready(&node) => {
                ready.insert(node.name_any())
            }
            Ok(Event::Apply(node) | Event::InitApply(node) | Event::Delete(node)) => {
                ready.remove(&node.name_any())
            }
            Ok(Event::Init | Event::InitDone) | Err(_) => continue,
        };
    }
    Ok(())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
