//! Apps on Kubernetes: Deployments with their replica sets, stateful sets, Jobs and Pods.
//!
//! Only apps with the label that names their cluster are watched; everything else is read when it is needed, so that
//! neither memory nor requests grow with the workloads of a Kubernetes.

mod label;
mod observe;
mod resolve;
mod watch;

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use kube::Client;
use kube::api::{Patch, PatchParams};
use muster_core::app::{AppIdentity, AppKind, GivenApp};
use muster_engine::ports::provider::{
    AppChange, AppMarks, AppObservation, AppProvider, ProviderError, ResolvedApp,
};
use muster_frameworks::kubernetes::{DEPLOYMENT, Kind, POD};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::connect::Connection;
use crate::follow::{self, api_of};
use crate::installed::places;
use crate::namespaces::Namespaces;
use crate::refusal;
use crate::which::Certain;
use crate::write::within;

pub(crate) use label::{mark_of, write_mark};

/// The label of an app with the name of the cluster that its drivers use.
const USES: &str = "uses-oshinko-cluster";

/// The annotation of an app with all clusters that it uses, and their ids.
const ALL_USES: &str = "muster.dev/uses-clusters";

/// Changes that may wait to be read.
const CHANGES: usize = 1024;

const REPLICA_SET: Kind = Kind { group: "apps", version: "v1", kind: "ReplicaSet", plural: "replicasets" };
const STATEFUL_SET: Kind = Kind { group: "apps", version: "v1", kind: "StatefulSet", plural: "statefulsets" };
const JOB: Kind = Kind { group: "batch", version: "v1", kind: "Job", plural: "jobs" };

/// The kinds of objects that apps are.
const KINDS: [AppKind; 5] =
    [AppKind::Deployment, AppKind::ReplicaSet, AppKind::StatefulSet, AppKind::Job, AppKind::Pod];

/// The kind of an app's object.
pub(crate) const fn object_kind(kind: AppKind) -> Option<&'static Kind> {
    match kind {
        AppKind::Deployment => Some(&DEPLOYMENT),
        AppKind::ReplicaSet => Some(&REPLICA_SET),
        AppKind::StatefulSet => Some(&STATEFUL_SET),
        AppKind::Job => Some(&JOB),
        AppKind::Pod => Some(&POD),
        AppKind::Command | AppKind::Unknown(_) => None,
    }
}

/// The apps of a Kubernetes.
pub(crate) struct Apps {
    client: Client,
    certain: Certain,
    namespaces: Arc<Namespaces>,
    changes: broadcast::Sender<AppChange>,
}

impl Apps {
    /// Follows marked apps of the served namespaces until it is stopped.
    pub(crate) fn follow(
        connection: &Connection,
        served: &[String],
        namespaces: Arc<Namespaces>,
        stop: &CancellationToken,
    ) -> Self {
        let Connection { client, watch_client, certain, .. } = connection;
        let changes = broadcast::channel(CHANGES).0;
        for kind in KINDS.into_iter().filter_map(object_kind) {
            for namespace in places(served) {
                let api = api_of(watch_client.clone(), kind, namespace.as_deref());
                let watch = watch::MarkedApps::new(changes.clone());
                let follow = follow::run(api, USES, watch, stop.clone());
                tokio::spawn(certain.clone().then(follow, stop.clone()));
            }
        }
        Self { client: client.clone(), certain: certain.clone(), namespaces, changes }
    }

    /// The object of this name; none if there certainly is none.
    async fn object(
        &self,
        kind: AppKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ProviderError> {
        let Some(kind) = object_kind(kind) else { return Ok(None) };
        let what = format!("read {} '{namespace}/{name}'", kind.kind);
        let api = api_of(self.client.clone(), kind, Some(namespace));
        let found = within(&what, api.get_opt(name)).await?.map_err(|error| refusal::of(&what, error))?;
        Ok(found.map(|object| object.body))
    }

    fn check(&self, namespace: &str) -> Result<(), ProviderError> {
        self.certain.check()?;
        self.namespaces.check_served(namespace)
    }
}

#[async_trait]
impl AppProvider for Apps {
    async fn resolve(&self, namespace: &str, given: &GivenApp) -> Result<Vec<ResolvedApp>, ProviderError> {
        self.check(namespace)?;
        self.find(namespace, given).await
    }

    async fn observe(&self, app: &AppIdentity) -> Result<AppObservation, ProviderError> {
        self.check(&app.namespace)?;
        self.look_at(app).await
    }

    async fn mark(&self, app: &AppIdentity, marks: &AppMarks) -> Result<bool, ProviderError> {
        self.check(&app.namespace)?;
        let AppIdentity { namespace, name, uid, .. } = app;
        let Some(kind) = object_kind(app.kind) else { return Ok(false) };
        let present = self.object(app.kind, namespace, name).await?;
        if present.is_none_or(|object| object["metadata"]["uid"] != **uid) {
            return Ok(false);
        }
        // The label chooses what is watched, so that an app that uses any cluster has it.
        let first = marks.uses.first().map(|(name, _)| name);
        let label = marks.cluster_name.as_ref().or(first);
        let uses: Vec<Value> = marks.uses.iter().map(|(name, id)| json!({"name": name, "id": id})).collect();
        let all = (!uses.is_empty()).then(|| Value::from(uses).to_string());
        let patch =
            json!({"metadata": {"uid": uid, "labels": {USES: label}, "annotations": {ALL_USES: all}}});
        let what = format!("label {} '{namespace}/{name}'", kind.kind);
        let api = api_of(self.client.clone(), kind, Some(namespace));
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        match within(&what, api.patch_metadata(name, &parameters, &patch)).await? {
            Ok(_) => Ok(true),
            Err(error) if refusal::is(&error, 404) => Ok(false),
            Err(error) => Err(refusal::of(&what, error)),
        }
    }

    fn changes(&self) -> BoxStream<'static, AppChange> {
        watch::stream(self.changes.subscribe())
    }
}

/// The controller of an object: its kind, name and UID.
fn controller(object: &Value) -> Option<(AppKind, String, String)> {
    let references = object["metadata"]["ownerReferences"].as_array()?;
    let reference = references.iter().find(|reference| reference["controller"] == true)?;
    let kind = KINDS.into_iter().find(|kind| reference["kind"] == kind.as_str())?;
    Some((kind, text(&reference["name"]), text(&reference["uid"])))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_leaving(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}
