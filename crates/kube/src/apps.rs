//! Apps on Kubernetes: Deployments with their replica sets, stateful sets, Jobs and Pods.
//!
//! Only apps with the label that names their cluster are watched. Everything else is read when it is needed, so that
//! neither memory nor requests grow with the workloads of a Kubernetes.

mod app_changes;
mod ephemeral_label;
mod observe;
mod resolve;

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use kube::Client;
use kube::api::{Patch, PatchParams};
use muster_core::app::{AppIdentity, AppKind, GivenApp};
use muster_engine::ports::provider::{
    AppChange, AppMarks, AppObservation, AppProvider, ProviderError, ResolvedApp,
};
use muster_frameworks::kubernetes::{DEPLOYMENT, POD, ResourceKind};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::cluster_identity::IdentityGate;
use crate::connect::KubernetesConnection;
use crate::errors;
use crate::installed_flavors::watch_scopes;
use crate::namespaces::Namespaces;
use crate::watches::{self, untyped_api};
use crate::writer::with_deadline;

use app_changes::AppChangeSink;
pub(crate) use ephemeral_label::{former_app, mark_of, release_patch, write_mark};

/// The label of an app with the name of the cluster that its drivers use; empty if it only uses clusters that it was
/// attached to. Apps with this label are watched.
const USES: &str = "uses-oshinko-cluster";

/// The annotation of an app with all clusters that it uses, and their ids.
const ALL_USES: &str = "muster.dev/uses-clusters";

/// The number of changes that may wait for a slow subscriber.
const CHANGES: usize = 1024;

pub(crate) const REPLICA_SET: ResourceKind =
    ResourceKind { group: "apps", version: "v1", kind: "ReplicaSet", plural: "replicasets" };
const STATEFUL_SET: ResourceKind =
    ResourceKind { group: "apps", version: "v1", kind: "StatefulSet", plural: "statefulsets" };
pub(crate) const JOB: ResourceKind =
    ResourceKind { group: "batch", version: "v1", kind: "Job", plural: "jobs" };

/// The kinds of objects that apps are.
const KINDS: [AppKind; 5] =
    [AppKind::Deployment, AppKind::ReplicaSet, AppKind::StatefulSet, AppKind::Job, AppKind::Pod];

/// Returns the kind of an app's object; `None` for a command of `muster run`, which has no object.
pub(crate) const fn object_kind(kind: AppKind) -> Option<&'static ResourceKind> {
    match kind {
        AppKind::Deployment => Some(&DEPLOYMENT),
        AppKind::ReplicaSet => Some(&REPLICA_SET),
        AppKind::StatefulSet => Some(&STATEFUL_SET),
        AppKind::Job => Some(&JOB),
        AppKind::Pod => Some(&POD),
        AppKind::Command | AppKind::Unknown(_) => None,
    }
}

/// Resolves, observes and labels the apps of a Kubernetes.
pub(crate) struct Apps {
    client: Client,
    identity_gate: IdentityGate,
    namespaces: Arc<Namespaces>,
    changes: broadcast::Sender<AppChange>,
}

impl Apps {
    /// Starts the watches of labelled apps, which end when `stop` is cancelled.
    pub(crate) fn start(
        connection: &KubernetesConnection,
        served: &[String],
        namespaces: Arc<Namespaces>,
        stop: &CancellationToken,
    ) -> Self {
        let KubernetesConnection { client, watch_client, identity_gate, .. } = connection;
        let changes = broadcast::channel(CHANGES).0;
        for kind in KINDS.into_iter().filter_map(object_kind) {
            for namespace in watch_scopes(served) {
                let api = untyped_api(watch_client.clone(), kind, namespace.as_deref());
                let sink = AppChangeSink::new(changes.clone());
                let watch = watches::run_watch(api, USES, sink, stop.clone());
                tokio::spawn(identity_gate.clone().run_once_confirmed(watch, stop.clone()));
            }
        }
        Self { client: client.clone(), identity_gate: identity_gate.clone(), namespaces, changes }
    }

    /// Reads the object of an app; none if it certainly does not exist.
    async fn read_object(
        &self,
        kind: AppKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ProviderError> {
        let Some(kind) = object_kind(kind) else { return Ok(None) };
        let what = format!("read {} '{namespace}/{name}'", kind.kind);
        let api = untyped_api(self.client.clone(), kind, Some(namespace));
        let found = errors::found(&what, with_deadline(&what, api.get(name)).await?)?;
        Ok(found.map(|object| object.body))
    }

    fn check(&self, namespace: &str) -> Result<(), ProviderError> {
        self.identity_gate.check()?;
        self.namespaces.check_served(namespace)
    }
}

#[async_trait]
impl AppProvider for Apps {
    async fn resolve(&self, namespace: &str, given: &GivenApp) -> Result<Vec<ResolvedApp>, ProviderError> {
        self.check(namespace)?;
        self.find_apps(namespace, given).await
    }

    async fn observe(&self, app: &AppIdentity) -> Result<AppObservation, ProviderError> {
        self.check(&app.namespace)?;
        self.observe_app(app).await
    }

    async fn running_pods(&self, app: &AppIdentity) -> Result<u32, ProviderError> {
        self.check(&app.namespace)?;
        self.count_pods(app, None).await
    }

    async fn mark(&self, app: &AppIdentity, marks: &AppMarks) -> Result<bool, ProviderError> {
        self.check(&app.namespace)?;
        let AppIdentity { namespace, name, uid, .. } = app;
        let Some(kind) = object_kind(app.kind) else { return Ok(false) };
        let present = self.read_object(app.kind, namespace, name).await?;
        if present.is_none_or(|object| object["metadata"]["uid"] != **uid) {
            return Ok(false);
        }
        let patch = usage_patch(uid, marks);
        let what = format!("label {} '{namespace}/{name}'", kind.kind);
        let api = untyped_api(self.client.clone(), kind, Some(namespace));
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        match with_deadline(&what, api.patch_metadata(name, &parameters, &patch)).await? {
            Ok(_) => Ok(true),
            Err(error) if errors::is_not_found(&error) => Ok(false),
            Err(error) => Err(errors::request_error(&what, error)),
        }
    }

    fn changes(&self) -> BoxStream<'static, AppChange> {
        app_changes::stream(self.changes.subscribe())
    }
}

/// Returns the merge patch that writes which clusters an app uses.
fn usage_patch(uid: &str, marks: &AppMarks) -> Value {
    let uses: Vec<Value> = marks.uses.iter().map(|(name, id)| json!({"name": name, "id": id})).collect();
    // Apps are watched by this label, so an app that only uses clusters of others has it with an empty value.
    let label = marks.cluster_name.as_deref().or((!uses.is_empty()).then_some(""));
    let all = (!uses.is_empty()).then(|| Value::from(uses).to_string());
    json!({"metadata": {"uid": uid, "labels": {USES: label}, "annotations": {ALL_USES: all}}})
}

/// Returns the controller of an object: its kind, name and UID.
fn controller(object: &Value) -> Option<(AppKind, String, String)> {
    let references = object["metadata"]["ownerReferences"].as_array()?;
    let reference = references.iter().find(|reference| reference["controller"] == true)?;
    // Other groups have kinds with the same names.
    let group = reference["apiVersion"]
        .as_str()
        .map(|version| version.split_once('/').map_or("", |(group, _)| group));
    let is_of_group = |kind: AppKind| {
        group.is_none_or(|group| object_kind(kind).is_some_and(|object| object.group == group))
    };
    let kind = KINDS.into_iter().find(|kind| reference["kind"] == kind.as_str() && is_of_group(*kind))?;
    Some((kind, text(&reference["name"]), text(&reference["uid"])))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_leaving(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

#[cfg(test)]
mod tests {
    use muster_core::ids::ClusterId;

    use super::*;

    #[test]
    fn a_controller_is_one_of_kubernetes_own_kinds() {
        let object = |version: &str| {
            let owner =
                json!({"controller": true, "apiVersion": version, "kind": "Job", "name": "j", "uid": "u"});
            json!({"metadata": {"ownerReferences": [owner]}})
        };
        assert_eq!(controller(&object("batch/v1")).map(|(kind, _, _)| kind), Some(AppKind::Job));
        assert_eq!(controller(&object("batch.volcano.sh/v1alpha1")), None);
    }

    #[test]
    fn the_label_names_the_cluster_of_the_drivers_and_none_that_an_app_was_attached_to() {
        let id = ClusterId::from_uuid(uuid::Uuid::from_u128(7));
        let uses = vec![("shared".to_owned(), id)];
        let written = |cluster_name: Option<&str>, uses: &[(String, ClusterId)]| {
            let marks = AppMarks { cluster_name: cluster_name.map(str::to_owned), uses: uses.to_vec() };
            let mut object = usage_patch("u", &marks);
            let recorded = resolve::recorded_cluster(&object);
            (object["metadata"]["labels"][USES].take(), recorded.map(|(name, _)| name))
        };
        assert_eq!(written(Some("own"), &uses), (json!("own"), Some("own".to_owned())));
        assert_eq!(written(None, &uses), (json!(""), None), "it is watched, and its drivers have no cluster");
        assert_eq!(written(None, &[]), (Value::Null, None), "it is not watched");
    }
}
