//! The namespace of one test, and waits for its objects.

use std::fmt::{Debug, Write as _};
use std::path::Path;
use std::pin::pin;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace as NamespaceObject, Pod};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use uuid::Uuid;

use super::diagnosis::Diagnosis;
use super::{Kubernetes, connect, custom};

/// The label of pods that kwok ignores, because a test simulates their kubelet.
const DRIVER_PODS: &str = "muster.test/driver=true";

/// The longest time for the deletion of a namespace to be accepted.
const DELETION: Duration = Duration::from_secs(40);

/// The longest time for operators to release their custom resources.
const CUSTOM: Duration = Duration::from_secs(20);

/// A namespace of one test, which is deleted when this value is dropped, also by a panic.
pub struct Namespace {
    kubernetes: Kubernetes,
    name: String,
}

impl Namespace {
    pub(super) async fn create(kubernetes: Kubernetes) -> Self {
        let id = Uuid::new_v4().simple().to_string();
        let name = format!("test-{}", &id[..8]);
        let object = NamespaceObject {
            metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
            ..NamespaceObject::default()
        };
        let namespaces: Api<NamespaceObject> = Api::all(kubernetes.client());
        namespaces
            .create(&PostParams::default(), &object)
            .await
            .expect("the testbed's Kubernetes makes a namespace");
        Self { kubernetes, name }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The objects of a kind in this namespace, with the admin's permissions.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.kubernetes.client(), &self.name)
    }

    /// Watches an object until it exists and satisfies a condition, and returns it.
    ///
    /// After the time limit it panics with a report of the state; `what` describes the condition.
    pub async fn wait<K>(
        &self,
        what: &str,
        api: &Api<K>,
        name: &str,
        deadline: Duration,
        wanted: impl Fn(&K) -> bool,
    ) -> K
    where
        K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
    {
        let reached = self.watch(what, api, name, deadline, |seen| seen.is_some_and(&wanted)).await;
        reached.expect("an absent object is never the wanted one")
    }

    /// Watches an object until it is deleted; panics like [`Namespace::wait`] after the time limit.
    pub async fn wait_gone<K>(&self, what: &str, api: &Api<K>, name: &str, deadline: Duration)
    where
        K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
    {
        self.watch(what, api, name, deadline, |seen| seen.is_none()).await;
    }

    async fn watch<K>(
        &self,
        what: &str,
        api: &Api<K>,
        name: &str,
        deadline: Duration,
        wanted: impl Fn(Option<&K>) -> bool,
    ) -> Option<K>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
    {
        let mut last_seen = None;
        let mut last_error = None;
        let reached = timeout(deadline, async {
            // With back-off, the watch survives an API server that some tests stop for a while.
            let mut states = pin!(watch_object(api.clone(), name).default_backoff());
            while let Some(state) = states.next().await {
                match state {
                    Ok(state) if wanted(state.as_ref()) => return state,
                    Ok(state) => last_seen = state,
                    Err(error) => last_error = Some(error),
                }
            }
            unreachable!("a watch has no end");
        })
        .await;
        if let Ok(object) = reached {
            return object;
        }
        let mut report = format!("waited {deadline:?} in vain for {name} in {}: {what}\n", self.name);
        if let Some(error) = last_error {
            let _ = writeln!(report, "the last error of the watch: {error}");
        }
        Diagnosis::collect(&self.kubernetes, &self.name, last_seen.as_ref()).await.write_to(&mut report);
        panic!("{report}");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let (kubeconfig, name) = (self.kubernetes.kubeconfig.clone(), self.name.clone());
        // On a separate runtime: that of the test may be shutting down, or be blocked by this drop.
        let deletion = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                timeout(DELETION, delete(&kubeconfig, &name)).await.context("it took too long")?
            })
        });
        match deletion.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("the namespace {} is left behind: {error:#}", self.name),
            Err(_) => eprintln!("the namespace {} is left behind: its deletion panicked", self.name),
        }
    }
}

async fn delete(kubeconfig: &Path, name: &str) -> Result<()> {
    let client = connect(kubeconfig, None).await?;
    let namespaces: Api<NamespaceObject> = Api::all(client.clone());
    // Before the namespace is deleted, because operators may have to create objects for it.
    let custom = timeout(CUSTOM, custom::delete(&client, name)).await;
    namespaces.delete(name, &DeleteParams::background()).await?;
    custom.context("its custom resources are not gone in time: does their operator run?")??;
    // Only this deletion ends a driver's pod, which would hold the namespace; a terminating namespace accepts no new
    // pods.
    let pods: Api<Pod> = Api::namespaced(client, name);
    for pod in pods.list(&ListParams::default().labels(DRIVER_PODS)).await? {
        match pods.delete(&pod.name_any(), &DeleteParams::background().grace_period(0)).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            other => drop(other?),
        }
    }
    Ok(())
}
