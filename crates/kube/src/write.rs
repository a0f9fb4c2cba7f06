//! Writes that do not undo what others wrote, and that come to nothing once another engine has the cluster.

use std::time::Duration;

use http::{Request, header};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::response::Status;
use kube::{Api, Client, Error};
use muster_core::action::Fence;
use muster_core::ids::{ClusterId, NodeId};
use muster_engine::ports::provider::{NO_NAMESPACE, ProviderError};
use muster_frameworks::kubernetes::{Kind, Manifest, POD};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinError;

use crate::facts::ObjectFacts;
use crate::fences::Fences;
use crate::follow::api_of;
use crate::plain::Metadata;
use crate::{marks, refusal};

/// The reason of writes to something that is not as it was seen any more.
pub(crate) const CHANGED_MEANWHILE: &str = "ChangedMeanwhile";

/// How long a write may take: less than an engine may be thought of as alive.
const AT_MOST: Duration = Duration::from_secs(10);

/// How often a merge patch is tried while the object's status is being written.
const OVERLAYS: u32 = 5;

/// An answer that does not say again what was said.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json";

/// What a deletion came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deleted {
    /// It is gone.
    Gone,
    /// It is on its way.
    Leaving,
}

/// Writes for an action.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    /// Which fences are ours.
    pub(crate) fences: Fences,
}

impl Writer {
    pub(crate) fn new(client: Client, fences: Fences) -> Self {
        Self { client, fences }
    }

    /// Makes an object for a cluster, to go with its owner; one that was made for it before is as good.
    pub(crate) async fn make(
        &self,
        mut manifest: Manifest,
        owner: Option<&Value>,
        cluster: ClusterId,
        fence: Fence,
    ) -> Result<Value, ProviderError> {
        marks::mark(&mut manifest.body, cluster, &self.fences.written(fence));
        if let Some(owner) = owner {
            manifest.body["metadata"]["ownerReferences"] = json!([marks::reference(owner)]);
        }
        let made = self.post(manifest, fence, &|object| marks::cluster_of(object) == Some(cluster)).await?;
        match owner.filter(|owner| !marks::goes_with(&made, owner)) {
            Some(_) => {
                let (namespace, name) = place(&made);
                let message = format!("'{namespace}/{name}' is one of before, and goes with its owner");
                Err(ProviderError::transient("Conflict", message))
            }
            None => Ok(made),
        }
    }

    /// Makes the pod of a node; one that was made for it before is as good.
    pub(crate) async fn make_node(
        &self,
        mut manifest: Manifest,
        node: NodeId,
        fence: Fence,
    ) -> Result<Value, ProviderError> {
        marks::mark_node(&mut manifest.body, node, &self.fences.written(fence));
        let node = node.to_string();
        self.post(manifest, fence, &|pod| pod["metadata"]["labels"][marks::NODE] == *node).await
    }

    /// Makes an object, unless `ours` recognises the one that has its name.
    async fn post(
        &self,
        manifest: Manifest,
        fence: Fence,
        ours: &(dyn Fn(&Value) -> bool + Sync),
    ) -> Result<Value, ProviderError> {
        let Manifest { kind, mut body, .. } = manifest;
        let (namespace, name) = place(&body);
        let what = format!("create {} '{namespace}/{name}'", kind.kind);
        let request = making(kind, &namespace, &body)
            .map_err(|why| ProviderError::permanent("Invalid", format!("cannot {what}: {why}")))?;
        match within(&what, self.client.request::<Made>(request)).await? {
            Ok(Made { metadata }) => {
                body["metadata"] = metadata.0;
                return Ok(body);
            }
            Err(error) if refusal::is(&error, 409) => {}
            Err(error) if refusal::is(&error, 404) => return Err(missing(&what, kind, &namespace, &error)),
            Err(error) => return Err(refusal::of(&what, error)),
        }
        let Some(object) = self.read(kind, &namespace, &name).await? else {
            let message = format!("cannot {what}: the one before is just going");
            return Err(ProviderError::transient("Conflict", message));
        };
        if !ours(&object) {
            let message =
                format!("cannot {what}: there is one already, which others made: choose another name");
            return Err(ProviderError::permanent("AlreadyExists", message));
        }
        if !object["metadata"]["deletionTimestamp"].is_null() {
            let message = format!("cannot {what}: it is being deleted");
            return Err(ProviderError::transient("Leaving", message));
        }
        self.fences.refuse_older(fence, marks::fence_of(&object).as_ref())?;
        Ok(object)
    }

    /// An object as it is now.
    pub(crate) async fn read(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, ProviderError> {
        let what = format!("read {} '{namespace}/{name}'", kind.kind);
        let api = api_of(self.client.clone(), kind, Some(namespace));
        let object = within(&what, api.get_opt(name)).await?.map_err(|error| refusal::of(&what, error))?;
        Ok(object.map(|object| object.body))
    }

    /// What a secret holds under a key, if it is there.
    pub(crate) async fn secret(
        &self,
        namespace: &str,
        name: &str,
        key: &str,
    ) -> Result<Option<String>, ProviderError> {
        let what = format!("read Secret '{namespace}/{name}'");
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret =
            within(&what, secrets.get_opt(name)).await?.map_err(|error| refusal::of(&what, error))?;
        let held = secret.and_then(|secret| secret.data?.remove(key));
        Ok(held.and_then(|held| String::from_utf8(held.0).ok()))
    }

    /// Patches an object that is as it was seen: what it says, and who wrote to it last. The fence stands on it from
    /// then on if this write is the last of several.
    pub(crate) async fn patch(
        &self,
        seen: &ObjectFacts,
        operations: Vec<Value>,
        fence: Fence,
        last: bool,
    ) -> Result<Value, ProviderError> {
        let what = format!("change {} '{}/{}'", seen.kind.kind, seen.namespace, seen.name);
        self.fences.refuse_older(fence, seen.fence.as_ref())?;
        let mut all = match &seen.fence {
            // Status is written all the time: a version would hardly ever be the one that was seen.
            Some(written) => {
                vec![test("/metadata/generation", &json!(seen.generation)), marks::test_fence(written)]
            }
            None => vec![test("/metadata/resourceVersion", &json!(seen.version))],
        };
        all.push(test("/metadata/uid", &json!(seen.uid)));
        all.extend(last.then(|| marks::write_fence(&self.fences.written(fence), seen.has_annotations)));
        all.extend(operations);
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(all))
            .map_err(|error| ProviderError::permanent("Invalid", format!("cannot {what}: {error}")))?;
        let api = api_of(self.client.clone(), seen.kind, Some(&seen.namespace));
        let (parameters, patch) = (PatchParams::default(), Patch::<()>::Json(patch));
        match within(&what, api.patch(&seen.name, &parameters, &patch)).await? {
            Ok(patched) => Ok(patched.body),
            Err(Error::Api(status)) if is_failed_test(&status) => {
                // Nobody says which test failed. Whoever was overtaken by another engine has nothing to say any more.
                let now = self.read(seen.kind, &seen.namespace, &seen.name).await?;
                self.fences.refuse_older(fence, now.as_ref().and_then(marks::fence_of).as_ref())?;
                Err(changed_meanwhile(&what))
            }
            Err(error) => Err(refusal::of(&what, error)),
        }
    }

    /// The same with a merge patch. That cannot ask for what the object says, only for its version, which rises with
    /// its status too: so the object is read again, and if only its status has changed, it is tried again.
    pub(crate) async fn overlay(
        &self,
        seen: &ObjectFacts,
        mut body: Value,
        fence: Fence,
        last: bool,
    ) -> Result<Value, ProviderError> {
        let what = format!("change {} '{}/{}'", seen.kind.kind, seen.namespace, seen.name);
        let api = api_of(self.client.clone(), seen.kind, Some(&seen.namespace));
        for _ in 0..OVERLAYS {
            let now = self.read(seen.kind, &seen.namespace, &seen.name).await?.unwrap_or_default();
            self.fences.refuse_older(fence, marks::fence_of(&now).as_ref())?;
            let metadata = &now["metadata"];
            let same = metadata["uid"] == seen.uid.as_str()
                && metadata["generation"].as_i64().unwrap_or_default() == seen.generation
                && marks::fence_of(&now) == seen.fence;
            if !same {
                return Err(changed_meanwhile(&what));
            }
            body["metadata"]["resourceVersion"] = metadata["resourceVersion"].clone();
            if last {
                body["metadata"]["annotations"][marks::FENCE] = self.fences.written(fence).as_str().into();
            }
            let patch = Patch::Merge(&body);
            match within(&what, api.patch(&seen.name, &PatchParams::default(), &patch)).await? {
                Ok(patched) => return Ok(patched.body),
                Err(error) if refusal::is(&error, 409) => {}
                Err(error) => return Err(refusal::of(&what, error)),
            }
        }
        Err(changed_meanwhile(&what))
    }

    /// Writes a node's label back on just this pod, with the fence; the pod as it is then, or none if it is gone.
    pub(crate) async fn label_node(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        node: NodeId,
        fence: Fence,
    ) -> Result<Option<Value>, ProviderError> {
        let what = format!("label Pod '{namespace}/{name}'");
        let api = api_of(self.client.clone(), &POD, Some(namespace));
        for _ in 0..OVERLAYS {
            let read = self.read(&POD, namespace, name).await?;
            let Some(pod) = read.filter(|pod| pod["metadata"]["uid"] == uid) else { return Ok(None) };
            self.fences.refuse_older(fence, marks::fence_of(&pod).as_ref())?;
            // The version makes the API server refuse the patch if another engine has written since the read.
            let body = json!({"metadata": {
                "uid": uid,
                "resourceVersion": pod["metadata"]["resourceVersion"],
                "labels": {marks::NODE: node.to_string()},
                "annotations": {marks::FENCE: self.fences.written(fence).as_str()},
            }});
            match within(&what, api.patch(name, &PatchParams::default(), &Patch::Merge(&body))).await? {
                Ok(pod) => return Ok(Some(pod.body)),
                Err(error) if refusal::is(&error, 404) => return Ok(None),
                Err(error) if refusal::is(&error, 409) => {}
                Err(error) => return Err(refusal::of(&what, error)),
            }
        }
        Err(changed_meanwhile(&what))
    }

    /// A patch of something that nobody else has a say in.
    pub(crate) async fn merge(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<(), ProviderError> {
        let what = format!("change {} '{namespace}/{name}'", kind.kind);
        let api = api_of(self.client.clone(), kind, Some(namespace));
        match within(&what, api.patch(name, &PatchParams::default(), &Patch::Merge(body))).await? {
            Ok(_) => Ok(()),
            // It was there when it was looked for.
            Err(error) if refusal::is(&error, 404) => Err(changed_meanwhile(&what)),
            Err(error) => Err(refusal::of(&what, error)),
        }
    }

    /// Deletes just this one; that it is gone, or that another one has its name, is as good.
    pub(crate) async fn delete(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<Deleted, ProviderError> {
        self.delete_with(DeleteParams::background(), kind, namespace, name, uid).await
    }

    /// The same for a pod that may take so many seconds to end.
    pub(crate) async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: u32,
    ) -> Result<Deleted, ProviderError> {
        let parameters = DeleteParams::background().grace_period(grace);
        self.delete_with(parameters, &POD, namespace, name, uid).await
    }

    async fn delete_with(
        &self,
        parameters: DeleteParams,
        kind: &Kind,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<Deleted, ProviderError> {
        let what = format!("delete {} '{namespace}/{name}'", kind.kind);
        let api = api_of(self.client.clone(), kind, Some(namespace));
        let just_this = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let parameters = parameters.preconditions(just_this);
        match within(&what, api.delete(name, &parameters)).await? {
            Ok(left) => Ok(if left.is_left() { Deleted::Leaving } else { Deleted::Gone }),
            Err(error) if refusal::is(&error, 404) => Ok(Deleted::Gone),
            Err(error) if refusal::is(&error, 409) => {
                let now = self.read(kind, namespace, name).await?;
                match now.filter(|now| now["metadata"]["uid"] == uid) {
                    Some(_) => Err(refusal::of(&what, error)),
                    None => Ok(Deleted::Gone),
                }
            }
            Err(error) => Err(refusal::of(&what, error)),
        }
    }
}

/// A failed `test` is a bare refusal; everything else that is invalid has details.
fn is_failed_test(status: &Status) -> bool {
    status.code == 422 && status.details.as_ref().is_none_or(|details| details.causes.is_empty())
}

fn changed_meanwhile(what: &str) -> ProviderError {
    ProviderError::transient(CHANGED_MEANWHILE, format!("cannot {what}: it was changed in the meantime"))
}

fn missing(what: &str, kind: &Kind, namespace: &str, error: &Error) -> ProviderError {
    let message = error.to_string();
    if message.contains("namespaces") {
        let sentence =
            format!("cannot {what}: there is no namespace '{namespace}': make it first, or name another");
        return ProviderError::permanent(NO_NAMESPACE, sentence);
    }
    let sentence = format!("cannot {what}: Kubernetes does not know {}", kind.qualified());
    ProviderError::permanent("NoOperator", sentence)
}

/// What is heard of an object that was made: what it says is known, unless others changed it on its way in, which a
/// watch tells.
#[derive(Deserialize)]
struct Made {
    metadata: Metadata,
}

/// The request that makes an object.
fn making(kind: &Kind, namespace: &str, body: &Value) -> Result<Request<Vec<u8>>, String> {
    let root = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
    // A pod's template is a user's own: what is misspelt there is to be named. The rest is ours, and looking for
    // unknown fields in it is work for nothing.
    let validation = if *kind == POD { "Strict" } else { "Ignore" };
    let place = format!(
        "{root}/{}/namespaces/{namespace}/{}?fieldValidation={validation}",
        kind.version, kind.plural
    );
    let bytes = serde_json::to_vec(body).map_err(|error| error.to_string())?;
    Request::post(place)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, METADATA_ONLY)
        .body(bytes)
        .map_err(|error| error.to_string())
}

fn place(body: &Value) -> (String, String) {
    let text = |key: &str| body["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

fn test(path: &str, value: &Value) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

/// Goes on when the task that waits for it is dropped.
pub(crate) async fn detached<T: Send + 'static>(
    write: impl Future<Output = Result<T, ProviderError>> + Send + 'static,
) -> Result<T, ProviderError> {
    let failed = |error: JoinError| Err(ProviderError::transient("Interrupted", error.to_string()));
    tokio::spawn(write).await.unwrap_or_else(failed)
}

/// Waits for an answer, but not for ever.
pub(crate) async fn within<T>(what: &str, request: impl Future<Output = T>) -> Result<T, ProviderError> {
    tokio::time::timeout(AT_MOST, request).await.map_err(|_| refusal::late(what))
}
