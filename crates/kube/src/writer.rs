//! Fenced writes: each is refused if the object has changed since it was observed, or if another engine has taken over.

use std::time::Duration;

use http::{Request, header};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::response::Status;
use kube::{Api, Client, Error};
use muster_core::action::Fence;
use muster_core::ids::{ClusterId, JobId, NodeId};
use muster_engine::ports::provider::{NO_NAMESPACE, ProviderError};
use muster_frameworks::kubernetes::{Manifest, POD, ResourceKind};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinError;

use crate::apps::JOB;
use crate::fences::Fences;
use crate::projection::CachedObject;
use crate::untyped_object::ObjectMetadata;
use crate::watches::untyped_api;
use crate::{errors, ownership};

/// The reason of the refusal of a write to an object that has changed since it was observed.
pub(crate) const CHANGED_MEANWHILE: &str = "ChangedMeanwhile";

/// The reason of the refusal of a creation while the object exists and is being deleted.
const LEAVING: &str = "Leaving";

/// The time-out of a request: less than the lease of an engine, so that no write arrives after a take-over.
const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// The number of attempts of a merge patch while others write the status of the object.
const MERGE_ATTEMPTS: u32 = 5;

/// Asks for an answer with the metadata only: the rest is what was sent.
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
            // An engine that died created it. From now on, late writes of that engine are refused.
            Ok(_) => self.adopt_job(&namespace, &name, job, fence).await.map(drop),
            // The Job exists. Its deletion does not start its command a second time.
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
            Err(error) if errors::has_status(&error, 404) => {
                return Err(not_found(&what, kind, &namespace, &error));
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
            return Err(ProviderError::permanent("AlreadyExists", message));
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
        let object = with_deadline(&what, api.get_opt(name))
            .await?
            .map_err(|error| errors::request_error(&what, error))?;
        Ok(object.map(|object| object.body))
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
        let secret = with_deadline(&what, secrets.get_opt(name))
            .await?
            .map_err(|error| errors::request_error(&what, error))?;
        let value = secret.and_then(|secret| secret.data?.remove(key));
        Ok(value.and_then(|value| String::from_utf8(value.0).ok()))
    }

    /// Patches an object whose specification and fence are as observed. `last` writes the fence, with the last of
    /// several writes: it says that all of them were done.
    pub(crate) async fn patch(
        &self,
        observed: &CachedObject,
        operations: Vec<Value>,
        fence: Fence,
        last: bool,
    ) -> Result<Value, ProviderError> {
        let what = format!("change {} '{}/{}'", observed.kind.kind, observed.namespace, observed.name);
        self.fences.refuse_older(fence, observed.fence.as_ref())?;
        let mut all = match &observed.fence {
            // Not the resource version, which every write of the status changes.
            Some(written) => {
                vec![
                    test_operation("/metadata/generation", &json!(observed.generation)),
                    ownership::test_fence(written),
                ]
            }
            None => vec![test_operation("/metadata/resourceVersion", &json!(observed.version))],
        };
        all.push(test_operation("/metadata/uid", &json!(observed.uid)));
        all.extend(
            last.then(|| ownership::write_fence(&self.fences.format(fence), observed.has_annotations)),
        );
        all.extend(operations);
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(all))
            .map_err(|error| ProviderError::permanent("Invalid", format!("cannot {what}: {error}")))?;
        let api = untyped_api(self.client.clone(), observed.kind, Some(&observed.namespace));
        let (parameters, patch) = (PatchParams::default(), Patch::<()>::Json(patch));
        match with_deadline(&what, api.patch(&observed.name, &parameters, &patch)).await? {
            Ok(patched) => Ok(patched.body),
            Err(Error::Api(status)) if is_failed_test(&status) => {
                // The answer does not say which test failed: a newer fence ends the action, anything else is a
                // conflict.
                let now = self.read_object(observed.kind, &observed.namespace, &observed.name).await?;
                self.fences.refuse_older(fence, now.as_ref().and_then(ownership::fence_of).as_ref())?;
                Err(changed_meanwhile(&what))
            }
            Err(error) => Err(errors::request_error(&what, error)),
        }
    }

    /// Does the same with a merge patch. Its only precondition is the resource version, which rises with the status
    /// too: on a conflict the object is read, and the patch is tried again if only the status has changed.
    pub(crate) async fn merge_patch(
        &self,
        observed: &CachedObject,
        mut body: Value,
        fence: Fence,
        last: bool,
    ) -> Result<Value, ProviderError> {
        let what = format!("change {} '{}/{}'", observed.kind.kind, observed.namespace, observed.name);
        let api = untyped_api(self.client.clone(), observed.kind, Some(&observed.namespace));
        self.fences.refuse_older(fence, observed.fence.as_ref())?;
        if last {
            body["metadata"]["annotations"][ownership::FENCE] = self.fences.format(fence).as_str().into();
        }
        body["metadata"]["resourceVersion"] = observed.version.as_str().into();
        for _ in 0..MERGE_ATTEMPTS {
            let patch = Patch::Merge(&body);
            match with_deadline(&what, api.patch(&observed.name, &PatchParams::default(), &patch)).await? {
                Ok(patched) => return Ok(patched.body),
                Err(error) if errors::has_status(&error, 409) || errors::has_status(&error, 404) => {}
                Err(error) => return Err(errors::request_error(&what, error)),
            }
            let now = self
                .read_object(observed.kind, &observed.namespace, &observed.name)
                .await?
                .unwrap_or_default();
            self.fences.refuse_older(fence, ownership::fence_of(&now).as_ref())?;
            let metadata = &now["metadata"];
            let same = metadata["uid"] == observed.uid.as_str()
                && metadata["generation"].as_i64().unwrap_or_default() == observed.generation
                && ownership::fence_of(&now) == observed.fence;
            if !same {
                return Err(changed_meanwhile(&what));
            }
            body["metadata"]["resourceVersion"] = metadata["resourceVersion"].clone();
        }
        Err(changed_meanwhile(&what))
    }

    /// Writes the label of a node on the pod with this UID again, with the fence. Returns the pod; none if it is gone.
    pub(crate) async fn label_node(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        node: NodeId,
        fence: Fence,
    ) -> Result<Option<Value>, ProviderError> {
        let labels = json!({ownership::NODE: node.to_string()});
        let is_own = |pod: &Value| pod["metadata"]["uid"] == uid;
        self.merge_metadata(&POD, namespace, name, &is_own, &json!({"labels": labels}), fence).await
    }

    /// Writes the fence on the Job of a job, so that writes of engines that claimed the job before are refused.
    /// Returns the Job; none if it is gone.
    pub(crate) async fn adopt_job(
        &self,
        namespace: &str,
        name: &str,
        job: JobId,
        fence: Fence,
    ) -> Result<Option<Value>, ProviderError> {
        let job = job.to_string();
        let is_own = |object: &Value| object["metadata"]["labels"][ownership::JOB] == *job;
        self.merge_metadata(&JOB, namespace, name, &is_own, &json!({}), fence).await
    }

    /// Merges metadata, with the fence, into the object of this name if `is_own` recognises it. Returns the object as it
    /// is then; none if it is gone.
    async fn merge_metadata(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        is_own: &(dyn Fn(&Value) -> bool + Sync),
        metadata: &Value,
        fence: Fence,
    ) -> Result<Option<Value>, ProviderError> {
        let what = format!("label {} '{namespace}/{name}'", kind.kind);
        let api = untyped_api(self.client.clone(), kind, Some(namespace));
        for _ in 0..MERGE_ATTEMPTS {
            let read = self.read_object(kind, namespace, name).await?;
            let Some(object) = read.filter(is_own) else { return Ok(None) };
            self.fences.refuse_older(fence, ownership::fence_of(&object).as_ref())?;
            // The version makes the API server refuse the patch if another engine has written since the read.
            let mut metadata = metadata.clone();
            metadata["uid"] = object["metadata"]["uid"].clone();
            metadata["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
            metadata["annotations"] = json!({ownership::FENCE: self.fences.format(fence).as_str()});
            let body = json!({"metadata": metadata});
            match with_deadline(&what, api.patch(name, &PatchParams::default(), &Patch::Merge(&body))).await?
            {
                Ok(object) => return Ok(Some(object.body)),
                Err(error) if errors::has_status(&error, 404) => return Ok(None),
                Err(error) if errors::has_status(&error, 409) => {}
                Err(error) => return Err(errors::request_error(&what, error)),
            }
        }
        Err(changed_meanwhile(&what))
    }

    /// Applies a merge patch without preconditions, for fields that only Muster writes.
    pub(crate) async fn merge_patch_unconditionally(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<(), ProviderError> {
        let what = format!("change {} '{namespace}/{name}'", kind.kind);
        let api = untyped_api(self.client.clone(), kind, Some(namespace));
        match with_deadline(&what, api.patch(name, &PatchParams::default(), &Patch::Merge(body))).await? {
            Ok(_) => Ok(()),
            // It existed when it was observed.
            Err(error) if errors::has_status(&error, 404) => Err(changed_meanwhile(&what)),
            Err(error) => Err(errors::request_error(&what, error)),
        }
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

    /// Deletes the pod with this UID, which may take these seconds to end.
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
            Err(error) if errors::has_status(&error, 404) => Ok(DeletionProgress::Deleted),
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

/// Returns whether a `test` operation of the patch failed: the only invalid request whose answer has no details.
fn is_failed_test(status: &Status) -> bool {
    status.code == 422 && status.details.as_ref().is_none_or(|details| details.causes.is_empty())
}

fn changed_meanwhile(what: &str) -> ProviderError {
    ProviderError::transient(CHANGED_MEANWHILE, format!("cannot {what}: it was changed in the meantime"))
}

/// The error of a creation in a namespace, or of a kind, that does not exist.
fn not_found(what: &str, kind: &ResourceKind, namespace: &str, error: &Error) -> ProviderError {
    let message = error.to_string();
    if message.contains("namespaces") {
        let message =
            format!("cannot {what}: namespace '{namespace}' does not exist: create it, or choose another");
        return ProviderError::permanent(NO_NAMESPACE, message);
    }
    let message = format!("cannot {what}: the kind {} is not installed", kind.qualified());
    ProviderError::permanent("NoOperator", message)
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

fn test_operation(path: &str, value: &Value) -> Value {
    json!({"op": "test", "path": path, "value": value})
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
