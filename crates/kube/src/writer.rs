//! Fenced writes: each is refused if the object has changed since it was observed, or if another engine has taken over.

mod patches;
#[cfg(test)]
mod tests;

use std::time::Duration;

use http::{Request, header};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client};
use muster_core::action::Fence;
use muster_core::ids::{ClusterId, JobId, NodeId};
use muster_engine::ports::provider::{ALREADY_EXISTS, NO_NAMESPACE, ProviderError};
use muster_frameworks::kubernetes::{Manifest, POD, ResourceKind};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinError;

use crate::apps::JOB;
use crate::fences::Fences;
use crate::installed_flavors::is_built_in;
use crate::untyped_object::ObjectMetadata;
use crate::watches::untyped_api;
use crate::{errors, ownership};

/// The reason of errors because an object exists and is being deleted.
pub(crate) const LEAVING: &str = "Leaving";

/// The time-out of a request: less than the lease of an engine, so that no write arrives after a take-over.
pub(crate) const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// The `Accept` header that requests an answer with the metadata only: the caller has the rest of the object.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";

/// The state of an object after its deletion was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionProgress {
    /// The object does not exist any more.
    Deleted,
    /// The object remains until its finalizers are removed or its pod has ended.
    Deleting,
}

/// Writes objects under the fence of an action.
#[derive(Clone)]
pub(crate) struct ObjectWriter {
    client: Client,
    pub(crate) fences: Fences,
}

impl ObjectWriter {
    pub(crate) fn new(client: Client, fences: Fences) -> Self {
        Self { client, fences }
    }

    /// Creates an object of a cluster, which is deleted with its owner. Succeeds if it was created for the cluster
    /// before.
    pub(crate) async fn create_object(
        &self,
        mut manifest: Manifest,
        owner: Option<&Value>,
        cluster: ClusterId,
        fence: Fence,
    ) -> Result<Value, ProviderError> {
        ownership::mark_object(&mut manifest.body, cluster, &self.fences.format(fence));
        if let Some(owner) = owner {
            manifest.body["metadata"]["ownerReferences"] = json!([ownership::owner_reference(owner)]);
        }
        let is_own = |object: &Value| ownership::cluster_of(object) == Some(cluster);
        let created = self.create_or_read(manifest, fence, &is_own).await?;
        match owner.filter(|owner| !ownership::is_owned_by(&created, owner)) {
            Some(_) => {
                let (namespace, name) = namespace_and_name(&created);
                let message =
                    format!("'{namespace}/{name}' belongs to a former object, and is deleted with it");
                Err(ProviderError::transient("Conflict", message))
            }
            None => Ok(created),
        }
    }

    /// Creates the pod of a node. Succeeds if it was created for the node before.
    pub(crate) async fn create_pod(
        &self,
        mut manifest: Manifest,
        node: NodeId,
        fence: Fence,
    ) -> Result<Value, ProviderError> {
        ownership::mark_pod(&mut manifest.body, node, &self.fences.format(fence));
        let node = node.to_string();
        self.create_or_read(manifest, fence, &|pod| pod["metadata"]["labels"][ownership::NODE] == *node).await
    }

    /// Creates the Job of a job. Succeeds if it was created for the job before.
    pub(crate) async fn create_job(
        &self,
        mut manifest: Manifest,
        job: JobId,
        fence: Fence,
    ) -> Result<(), ProviderError> {
        let written = self.fences.format(fence);
        ownership::mark_fence(&mut manifest.body, &written);
        let (namespace, name) = namespace_and_name(&manifest.body);
        let id = job.to_string();
        let is_own = |object: &Value| object["metadata"]["labels"][ownership::JOB] == *id;
        match self.create_or_read(manifest, fence, &is_own).await {
            Ok(object) if ownership::fence_of(&object) == Some(written) => Ok(()),
            // Another engine created the Job, and died. With the new fence, late writes of that engine are refused.
            Ok(_) => self.adopt_job(&namespace, &name, job, fence).await.map(drop),
            // The Job was created, and is being deleted. Another one would run the command a second time.
            Err(error) if error.reason == LEAVING => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Creates an object, or returns the one that has its name if `is_own` recognises it.
    async fn create_or_read(
        &self,
        manifest: Manifest,
        fence: Fence,
        is_own: &(dyn Fn(&Value) -> bool + Sync),
    ) -> Result<Value, ProviderError> {
        let Manifest { kind, mut body, .. } = manifest;
        let (namespace, name) = namespace_and_name(&body);
        let what = format!("create {} '{namespace}/{name}'", kind.kind);
        let request = create_request(kind, &namespace, &body)
            .map_err(|why| ProviderError::permanent("Invalid", format!("cannot {what}: {why}")))?;
        match with_deadline(&what, self.client.request::<CreatedMetadata>(request)).await? {
            Ok(CreatedMetadata { metadata }) => {
                body["metadata"] = metadata.0;
                return Ok(body);
            }
            Err(error) if errors::has_status(&error, 409) => {}
            Err(error) if errors::is_not_found(&error) && error.to_string().contains("namespaces") => {
                let message = format!(
                    "cannot {what}: namespace '{namespace}' does not exist: create it, or choose another"
                );
                return Err(ProviderError::permanent(NO_NAMESPACE, message));
            }
            Err(error) if errors::is_not_served(&error) && self.is_undefined(kind).await => {
                let message = format!("cannot {what}: the kind {} is not installed", kind.qualified());
                return Err(ProviderError::permanent("NoOperator", message));
            }
            Err(error) => return Err(errors::request_error(&what, error)),
        }
        let Some(object) = self.read_object(kind, &namespace, &name).await? else {
            let message = format!("cannot {what}: the former one is being deleted");
            return Err(ProviderError::transient("Conflict", message));
        };
        if !is_own(&object) {
            let message = format!(
                "cannot {what}: it already exists, and does not belong to this cluster: choose another name"
            );
            return Err(ProviderError::permanent(ALREADY_EXISTS, message));
        }
        if !object["metadata"]["deletionTimestamp"].is_null() {
            let message = format!("cannot {what}: it is being deleted");
            return Err(ProviderError::transient(LEAVING, message));
        }
        self.fences.refuse_older(fence, ownership::fence_of(&object).as_ref())?;
        Ok(object)
    }

    /// Reads an object from the API server; none if it does not exist.
    pub(crate) async fn read_object(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ProviderError> {
        let what = format!("read {} '{namespace}/{name}'", kind.kind);
        let api = untyped_api(self.client.clone(), kind, Some(namespace));
        match with_deadline(&what, api.get(name)).await? {
            Err(error) if errors::is_not_served(&error) && self.is_undefined(kind).await => Ok(None),
            read => Ok(errors::found(&what, read)?.map(|object| object.body)),
        }
    }

    /// Returns true if the custom resource of this kind certainly has no definition, and thus no objects. A kind that is
    /// not served may be defined nevertheless, see [`errors::is_not_found`].
    async fn is_undefined(&self, kind: &ResourceKind) -> bool {
        if is_built_in(kind) {
            return false;
        }
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        // A list, because the server may have the permission to list definitions but not to get them.
        let named = ListParams::default().fields(&format!("metadata.name={}", kind.qualified()));
        let listed =
            with_deadline("list custom resource definitions", definitions.list_metadata(&named)).await;
        matches!(listed, Ok(Ok(listed)) if listed.items.is_empty())
    }

    /// Reads the value of a Secret under a key; none if either does not exist.
    pub(crate) async fn read_secret(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> Result<Option<String>, ProviderError> {
        let what = format!("read Secret '{namespace}/{name}'");
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = errors::found(&what, with_deadline(&what, secrets.get(name)).await?)?;
        let value = secret.and_then(|secret| secret.data?.remove(key));
        Ok(value.and_then(|value| String::from_utf8(value.0).ok()))
    }

    /// Deletes the object with this UID. Succeeds if it is gone, also if another object has its name.
    pub(crate) async fn delete_object(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<DeletionProgress, ProviderError> {
        self.delete_with(DeleteParams::background(), kind, namespace, name, uid).await
    }

    /// Deletes the pod with this UID. The pod gets `grace` seconds to end.
    pub(crate) async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: u32,
    ) -> Result<DeletionProgress, ProviderError> {
        let parameters = DeleteParams::background().grace_period(grace);
        self.delete_with(parameters, &POD, namespace, name, uid).await
    }

    /// Deletes the Job with this UID after its pod.
    pub(crate) async fn delete_job(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<DeletionProgress, ProviderError> {
        self.delete_with(DeleteParams::foreground(), &JOB, namespace, name, uid).await
    }

    async fn delete_with(
        &self,
        parameters: DeleteParams,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<DeletionProgress, ProviderError> {
        let what = format!("delete {} '{namespace}/{name}'", kind.kind);
        let api = untyped_api(self.client.clone(), kind, Some(namespace));
        let same_object = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let parameters = parameters.preconditions(same_object);
        match with_deadline(&what, api.delete(name, &parameters)).await? {
            Ok(left) => {
                Ok(if left.is_left() { DeletionProgress::Deleting } else { DeletionProgress::Deleted })
            }
            Err(error) if errors::is_not_found(&error) => Ok(DeletionProgress::Deleted),
            Err(error) if errors::is_not_served(&error) && self.is_undefined(kind).await => {
                Ok(DeletionProgress::Deleted)
            }
            Err(error) if errors::has_status(&error, 409) => {
                let now = self.read_object(kind, namespace, name).await?;
                match now.filter(|now| now["metadata"]["uid"] == uid) {
                    Some(_) => Err(errors::request_error(&what, error)),
                    None => Ok(DeletionProgress::Deleted),
                }
            }
            Err(error) => Err(errors::request_error(&what, error)),
        }
    }
}

/// The answer to a creation. The rest of the object is as sent, unless an admission webhook changed it, which the watch
/// reports.
#[derive(Deserialize)]
struct CreatedMetadata {
    metadata: ObjectMetadata,
}

fn create_request(kind: &ResourceKind, namespace: &str, body: &Value) -> Result<Request<Vec<u8>>, String> {
    let root = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
    // Users write pod templates, so the API server shall name misspelt fields. The flavors write everything else.
    let validation = if *kind == POD { "Strict" } else { "Ignore" };
    let path = format!(
        "{root}/{}/namespaces/{namespace}/{}?fieldValidation={validation}",
        kind.version, kind.plural
    );
    let bytes = serde_json::to_vec(body).map_err(|error| error.to_string())?;
    Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, METADATA_ONLY)
        .body(bytes)
        .map_err(|error| error.to_string())
}

fn namespace_and_name(body: &Value) -> (String, String) {
    let text = |key: &str| body["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

/// Runs a write in its own task, so that it completes also if its caller is dropped.
pub(crate) async fn run_detached<T: Send + 'static>(
    write: impl Future<Output = Result<T, ProviderError>> + Send + 'static,
) -> Result<T, ProviderError> {
    let failed = |error: JoinError| Err(ProviderError::transient("Interrupted", error.to_string()));
    tokio::spawn(write).await.unwrap_or_else(failed)
}

/// Waits for the answer to a request, for at most the deadline of a request.
pub(crate) async fn with_deadline<T>(
    what: &str,
    request: impl Future<Output = T>,
) -> Result<T, ProviderError> {
    tokio::time::timeout(REQUEST_DEADLINE, request).await.map_err(|_| errors::timeout_error(what))
}
