//! Writes of decided changes to Kubernetes.

use std::fmt::Debug;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::response::reason::NOT_FOUND;
use kube::{Api, Client, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::controller::PassError;
use crate::decide::ledger::GateRemoval;
use crate::decide::nodes::NodeWrite;
use crate::decide::reservations::{PodDeletion, ReservationWrite};
use crate::decide::slot_pod::SlotPod;
use crate::decide::takeover::finalizer_removal;
use crate::keys;
use crate::types::{Machine, MachineNodePool, MachineNodePoolStatus, MachineStatus};

/// The largest number of concurrent requests to the API server.
const CONCURRENT: usize = 16;

#[derive(Clone)]
pub(crate) struct MachinesWriter {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl MachinesWriter {
    /// Writes the status of a Machine, unless the Machine was written since it was read.
    pub(crate) async fn write_status(
        &self,
        machine: &Machine,
        status: MachineStatus,
    ) -> Result<Machine, PassError> {
        let machines = Api::<Machine>::all(self.client.clone());
        let next = Machine { status: Some(status), ..machine.clone() };
        let written = machines.replace_status(&machine.name_any(), &PostParams::default(), &next).await;
        written.map_err(|error| if is_conflict(&error) { PassError::Stale } else { error.into() })
    }

    /// Writes the status of a pool, unless the pool was written since it was read.
    pub(crate) async fn write_pool_status(
        &self,
        pool: &MachineNodePool,
        status: MachineNodePoolStatus,
    ) -> Result<(), PassError> {
        let pools = Api::<MachineNodePool>::all(self.client.clone());
        let next = MachineNodePool { status: Some(status), ..pool.clone() };
        let written = pools.replace_status(&pool.name_any(), &PostParams::default(), &next).await;
        written.map(drop).map_err(|error| if is_conflict(&error) { PassError::Stale } else { error.into() })
    }

    pub(crate) async fn apply_pool(&self, pool: &MachineNodePool) -> kube::Result<()> {
        apply(&Api::all(self.client.clone()), &pool.name_any(), pool).await
    }

    /// Removes a pool of the published operator whose nodes are in another pool now.
    pub(crate) async fn remove_published(&self, pool: &MachineNodePool) -> kube::Result<()> {
        self.release_pool(pool).await?;
        let pools = Api::<MachineNodePool>::all(self.client.clone());
        delete(&pools, &pool.name_any(), &pool.uid().unwrap_or_default(), None).await
    }

    /// Removes the finalizer of the published operator from a pool.
    pub(crate) async fn release_pool(&self, pool: &MachineNodePool) -> kube::Result<()> {
        let pools = Api::<MachineNodePool>::all(self.client.clone());
        let Some(patch) = finalizer_removal(pool) else { return Ok(()) };
        pools.patch(&pool.name_any(), &PatchParams::default(), &Patch::Json::<()>(patch)).await.map(drop)
    }

    /// Sets the finalizers of a pool, if nothing has changed it since it was read.
    pub(crate) async fn set_finalizers(
        &self,
        pool: &MachineNodePool,
        finalizers: Vec<String>,
    ) -> Result<(), PassError> {
        let pools = Api::<MachineNodePool>::all(self.client.clone());
        let version = pool.metadata.resource_version.clone();
        let patch = serde_json::json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
        let patched = pools.patch(&pool.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
        match patched {
            Err(error) if is_conflict(&error) => Err(PassError::Stale),
            Err(error) if !is_missing(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Reads a reservation or guest from the API server; `None` if it does not exist.
    pub(crate) async fn pod(&self, namespace: &str, name: &str) -> kube::Result<Option<SlotPod>> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace);
        match pods.get(name).await {
            Ok(pod) => Ok(SlotPod::read(&pod)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes gates, and returns the result of each removal.
    pub(crate) async fn remove_gates(
        &self,
        removals: Vec<GateRemoval>,
    ) -> Vec<(GateRemoval, kube::Result<()>)> {
        let remove = |removal: GateRemoval| async move {
            let pods = Api::<Pod>::namespaced(self.client.clone(), &removal.namespace);
            let patch = Patch::Json::<()>(removal.patch.clone());
            let patched = pods.patch(&removal.name, &PatchParams::default(), &patch).await;
            (removal, patched.map(drop))
        };
        stream::iter(removals.into_iter().map(remove)).buffered(CONCURRENT).collect().await
    }

    /// Executes the writes of a plan, and returns the messages of those that failed.
    pub(crate) async fn write_reservations(&self, writes: Vec<ReservationWrite>) -> Vec<String> {
        let write = |write: ReservationWrite| async move {
            self.write_reservation(&write).await.err().map(|error| message(&error))
        };
        stream::iter(writes.into_iter().map(write))
            .buffered(CONCURRENT)
            .filter_map(std::future::ready)
            .collect()
            .await
    }

    async fn write_reservation(&self, write: &ReservationWrite) -> kube::Result<()> {
        let sets = Api::<StatefulSet>::namespaced(self.client.clone(), &self.namespace);
        let services = Api::<Service>::namespaced(self.client.clone(), &self.namespace);
        match write {
            ReservationWrite::ApplySet(set) => apply(&sets, &set.name_any(), set).await,
            ReservationWrite::ApplyService(service) => apply(&services, &service.name_any(), service).await,
            ReservationWrite::DeleteSet { name, uid } => delete(&sets, name, uid, None).await,
            ReservationWrite::DeleteService { name, uid } => delete(&services, name, uid, None).await,
            ReservationWrite::DeletePod(PodDeletion { name, uid, forced }) => {
                let pods = Api::<Pod>::namespaced(self.client.clone(), &self.namespace);
                delete(&pods, name, uid, forced.then_some(0)).await
            }
        }
    }

    /// Writes to nodes, in order for each node, and returns the messages of failed writes.
    pub(crate) async fn write_nodes(&self, writes: Vec<NodeWrite>) -> Vec<String> {
        let mut by_node: Vec<(String, Vec<NodeWrite>)> = Vec::new();
        for write in writes {
            let node = write.node().to_owned();
            match by_node.iter_mut().find(|(name, _)| *name == node) {
                Some((_, writes)) => writes.push(write),
                None => by_node.push((node, vec![write])),
            }
        }
        let write = |(node, writes): (String, Vec<NodeWrite>)| async move {
            for write in writes {
                if let Err(error) = self.write_node(&node, write).await {
                    return Some(format!("node {node}: {}", message(&error)));
                }
            }
            None
        };
        let failed = stream::iter(by_node.into_iter().map(write)).buffered(CONCURRENT);
        failed.filter_map(std::future::ready).collect().await
    }

    async fn write_node(&self, node: &str, write: NodeWrite) -> kube::Result<()> {
        let nodes = Api::<Node>::all(self.client.clone());
        let written = match write {
            NodeWrite::Patch { patch, .. } => {
                nodes.patch(node, &PatchParams::default(), &Patch::Json::<()>(patch)).await
            }
            NodeWrite::Apply { configuration, .. } => {
                let forced = PatchParams::apply(keys::FIELD_MANAGER).force();
                nodes.patch(node, &forced, &Patch::Apply(configuration)).await
            }
        };
        written.map(drop)
    }
}

/// Applies an object with force, which overwrites changes by others of the applied fields.
pub(crate) async fn apply<K>(api: &Api<K>, name: &str, object: &K) -> kube::Result<()>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize,
{
    // The serialized types lack apiVersion and kind, which an apply needs.
    let mut object = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    let forced = PatchParams::apply(keys::FIELD_MANAGER).force();
    api.patch(name, &forced, &Patch::Apply(object)).await.map(drop)
}

/// Deletes the object with this UID. An object that is gone or was replaced under its name counts as deleted.
async fn delete<K>(api: &Api<K>, name: &str, uid: &str, grace: Option<u32>) -> kube::Result<()>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned,
{
    let parameters = DeleteParams {
        grace_period_seconds: grace,
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::background()
    };
    match api.delete(name, &parameters).await {
        Err(error) if !is_missing(&error) && !is_conflict(&error) => Err(error),
        _ => Ok(()),
    }
}

/// The message about a failed write.
pub(crate) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        error => error.to_string(),
    }
}

/// The message about a failure: its contexts, and once the message of Kubernetes.
pub(crate) fn failure(error: &anyhow::Error) -> String {
    let mut parts = Vec::new();
    for cause in error.chain() {
        if let Some(error) = cause.downcast_ref::<kube::Error>() {
            parts.push(message(error));
            break;
        }
        parts.push(cause.to_string());
    }
    parts.join(": ")
}

pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Returns true if the API server answered that the object does not exist. The 404 for a path that is not served, which
/// has no reason, says nothing about the object: custom resources may have it while their definition is set up.
pub(crate) fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && status.reason == NOT_FOUND)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn a_failure_has_the_message_of_kubernetes_once() {
        let status = Status::failure("secrets is forbidden", "Forbidden").with_code(403).boxed();
        let error = anyhow::Error::from(kube::Error::Api(status)).context("the Secret cannot be read");
        assert_eq!(failure(&error), "the Secret cannot be read: secrets is forbidden");
        assert_eq!(failure(&anyhow::anyhow!("two").context("one")), "one: two");
    }
}
