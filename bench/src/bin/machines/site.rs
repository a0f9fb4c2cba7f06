//! A Kubernetes with Machines, and a server over it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use muster_bench::bed::{Bed, CONNECTIONS, run_each};
use muster_bench::server::{self, Server};
use muster_machines::keys;
use muster_machines::types::{Machine, crds};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The interval between checks of a condition.
const LOOK: Duration = Duration::from_millis(20);

/// The longest time for a condition to become true.
const PATIENCE: Duration = Duration::from_mins(5);

pub(crate) struct MachinesSite {
    // Dropped before the Kubernetes that it uses.
    pub(crate) server: Server,
    pub(crate) bed: Bed,
    _folder: TempDir,
}

impl MachinesSite {
    pub(crate) async fn start(muster: &Path) -> Result<Self> {
        let bed = Bed::start_without_operator(true).await?;
        for definition in crds() {
            Api::all(bed.client()).create(&PostParams::default(), &definition).await?;
        }
        let folder = server::folder()?;
        let server = Server::start_with_machines(muster, folder.path(), bed.kubeconfig()).await?;
        Ok(Self { server, bed, _folder: folder })
    }

    /// Creates nodes with these labels, which kwok simulates, and returns their names.
    pub(crate) async fn add_nodes(&self, prefix: &str, count: u32, labels: &Value) -> Result<Vec<String>> {
        let nodes = Api::<Node>::all(self.bed.client());
        run_each(count, |number| {
            let nodes = nodes.clone();
            async move {
                let name = format!("{prefix}-{number}");
                let resources = json!({"cpu": "32", "memory": "256Gi", "pods": "110"});
                let node = json!({
                    "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
                    "status": {"capacity": resources, "allocatable": resources},
                });
                nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
                Ok(name)
            }
        })
        .await
    }

    /// Creates a Machine of this name and group.
    pub(crate) async fn create_machine(&self, name: &str, spec: &Value) -> Result<()> {
        let machine = json!({
            "apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "Machine",
            "metadata": {"name": name, "labels": {keys::MACHINE_GROUP: name}}, "spec": spec,
        });
        let machine: Machine = serde_json::from_value(machine)?;
        Api::all(self.bed.client()).create(&PostParams::default(), &machine).await?;
        Ok(())
    }

    /// The reserved and used slots of each type of a Machine.
    pub(crate) async fn slots(&self, machine: &str) -> Result<BTreeMap<String, (i32, i32)>> {
        let status = Api::<Machine>::all(self.bed.client()).get(machine).await?.status.unwrap_or_default();
        let counted = status.available_machines.into_iter();
        Ok(counted.map(|entry| (entry.name, (entry.usage.reserved, entry.usage.used))).collect())
    }
}

/// The labels of a guest of a type.
pub(crate) fn guest_labels(group: &str, machine_type: &str) -> Value {
    json!({keys::MACHINE_GROUP: group, keys::MACHINE_TYPE: machine_type, keys::POD_ROLE: keys::GUEST})
}

/// Deletes objects of these names without a grace period.
pub(crate) async fn delete<K>(objects: &Api<K>, names: &[String]) -> Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    let now = DeleteParams::default().grace_period(0);
    let deletions = stream::iter(names.iter().map(|name| objects.delete(name, &now)));
    Ok(deletions.buffer_unordered(CONNECTIONS).try_for_each(async |_| Ok(())).await?)
}

/// Waits until a condition is true.
pub(crate) async fn until(what: &str, is_met: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !is_met().await? {
        ensure!(started.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
