//! Patches. Each is refused if the object has changed since it was observed, with one exception: fields that only
//! Muster writes.

use kube::Error;
use kube::api::{Patch, PatchParams};
use kube::core::response::Status;
use muster_core::action::Fence;
use muster_core::ids::{JobId, NodeId};
use muster_engine::ports::provider::{CHANGED_MEANWHILE, INVALID, ProviderError};
use muster_frameworks::kubernetes::{POD, ResourceKind};
use serde_json::{Value, json};

use super::{ObjectWriter, with_deadline};
use crate::apps::JOB;
use crate::projection::CachedObject;
use crate::watches::untyped_api;
use crate::{errors, ownership};

/// The number of attempts of a merge patch while others write the status of the object.
const MERGE_ATTEMPTS: u32 = 5;

/// Returns the metadata to merge into an object, as it was read; none to leave the object as it is.
type MetadataDecision<'d> = dyn Fn(Option<&Value>) -> Result<Option<Value>, ProviderError> + Sync + 'd;

impl ObjectWriter {
    /// Patches an object, unless its specification or fence has changed since it was observed. The `last` of several
    /// writes also writes the fence, as the record that all of them were done.
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
            // The resource version is not tested here, since every write of the status changes it.
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
            Err(Error::Api(status)) if has_no_cause(&status) => {
                // The answer does not say which operation failed: a newer fence ends the action.
                let now = self.read_object(observed.kind, &observed.namespace, &observed.name).await?;
                self.fences.refuse_older(fence, now.as_ref().and_then(ownership::fence_of).as_ref())?;
                Err(patch_error(&what, observed, now.as_ref(), Error::Api(status)))
            }
            Err(error) => Err(errors::request_error(&what, error)),
        }
    }

    /// Does the same as [`Self::patch`] with a merge patch. The only precondition of a merge patch is the resource
    /// version, which a change of the status raises too: on a conflict the object is read, and the patch is retried if
    /// only the status has changed.
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
                Err(error) if errors::has_status(&error, 409) || errors::is_not_found(&error) => {}
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

    /// Restores the label of a node on the pod with this UID, and writes the fence. Returns the pod; none if it is
    /// gone.
    pub(crate) async fn label_node(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        node: NodeId,
        fence: Fence,
    ) -> Result<Option<Value>, ProviderError> {
        let labels = json!({ownership::NODE: node.to_string()});
        let label = |pod: Option<&Value>| {
            let own = pod.filter(|pod| pod["metadata"]["uid"] == uid);
            self.fenced_metadata(own, json!({"labels": labels}), fence)
        };
        self.merge_metadata(&POD, namespace, name, &label).await
    }

    /// Labels a pod that Muster did not create as a node, unless `check` refuses the pod as it is then.
    pub(crate) async fn label_adopted_pod(
        &self,
        namespace: &str,
        name: &str,
        check: &(dyn Fn(Option<&Value>) -> Result<(), ProviderError> + Sync),
    ) -> Result<(), ProviderError> {
        let label = |pod: Option<&Value>| {
            check(pod)?;
            Ok(Some(json!({"labels": {ownership::NODE: ownership::ADOPTED}})))
        };
        self.merge_metadata(&POD, namespace, name, &label).await.map(drop)
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
        let adopt = |object: Option<&Value>| {
            let own = object.filter(|object| object["metadata"]["labels"][ownership::JOB] == *job);
            self.fenced_metadata(own, json!({}), fence)
        };
        self.merge_metadata(&JOB, namespace, name, &adopt).await
    }

    /// Adds the fence to the metadata to merge into this object; none without the object.
    fn fenced_metadata(
        &self,
        object: Option<&Value>,
        mut metadata: Value,
        fence: Fence,
    ) -> Result<Option<Value>, ProviderError> {
        let Some(object) = object else { return Ok(None) };
        self.fences.refuse_older(fence, ownership::fence_of(object).as_ref())?;
        metadata["annotations"] = json!({ownership::FENCE: self.fences.format(fence).as_str()});
        Ok(Some(metadata))
    }

    /// Merges the metadata that `decide` returns into the object of this name. Returns the object as it is then; none
    /// if nothing was merged.
    async fn merge_metadata(
        &self,
        kind: &ResourceKind,
        namespace: &str,
        name: &str,
        decide: &MetadataDecision<'_>,
    ) -> Result<Option<Value>, ProviderError> {
        let what = format!("label {} '{namespace}/{name}'", kind.kind);
        let api = untyped_api(self.client.clone(), kind, Some(namespace));
        for _ in 0..MERGE_ATTEMPTS {
            let read = self.read_object(kind, namespace, name).await?;
            let decided = decide(read.as_ref())?;
            let (Some(object), Some(mut metadata)) = (read, decided) else { return Ok(None) };
            // With the version, the API server refuses the patch if the object was written since the read.
            metadata["uid"] = object["metadata"]["uid"].clone();
            metadata["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
            let body = json!({"metadata": metadata});
            match with_deadline(&what, api.patch(name, &PatchParams::default(), &Patch::Merge(&body))).await?
            {
                Ok(object) => return Ok(Some(object.body)),
                Err(error) if errors::has_status(&error, 409) || errors::is_not_found(&error) => {}
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
            // The object was deleted since it was observed.
            Err(error) if errors::is_not_found(&error) => Err(changed_meanwhile(&what)),
            Err(error) => Err(errors::request_error(&what, error)),
        }
    }
}

/// Returns true if a patch was refused as invalid without a cause: that is the answer to a failed `test`, to a path that
/// does not exist, and to the denial of some admission webhooks.
fn has_no_cause(status: &Status) -> bool {
    status.code == 422 && status.details.as_ref().is_none_or(|details| details.causes.is_empty())
}

/// Returns the error of a JSON patch that was refused without a cause, after the object was read. A patch that is
/// refused for the very version that was observed is refused for ever. With another version a `test` may have failed,
/// or a path may be missing that a retry does not need: also labels and annotations, which have no generation.
fn patch_error(what: &str, observed: &CachedObject, now: Option<&Value>, error: Error) -> ProviderError {
    let is_as_observed = |now: &Value| {
        let metadata = &now["metadata"];
        metadata["uid"] == observed.uid.as_str() && metadata["resourceVersion"] == observed.version.as_str()
    };
    if !now.is_some_and(is_as_observed) {
        return changed_meanwhile(what);
    }
    let mut refused = errors::request_error(what, error);
    if refused.reason == INVALID {
        refused.message += ": the object is as it was observed, so it lacks a field that the patch changes";
    }
    refused
}

fn changed_meanwhile(what: &str) -> ProviderError {
    ProviderError::transient(CHANGED_MEANWHILE, format!("cannot {what}: it was changed in the meantime"))
}

fn test_operation(path: &str, value: &Value) -> Value {
    json!({"op": "test", "path": path, "value": value})
}

#[cfg(test)]
mod tests {
    use muster_frameworks::kubernetes::ObjectProjection;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::of_the_observed_object("u", "7", "the server rejected our request", "Invalid", false)]
    #[case::by_a_webhook("u", "7", "admission webhook \"w\" denied the request: no", "Rejected", false)]
    #[case::of_a_changed_object("u", "8", "the server rejected our request", CHANGED_MEANWHILE, true)]
    #[case::of_another_object("v", "7", "the server rejected our request", CHANGED_MEANWHILE, true)]
    fn a_refused_patch_is_retried_only_if_the_object_has_changed(
        #[case] uid: &str,
        #[case] version: &str,
        #[case] message: &str,
        #[case] reason: &str,
        #[case] transient: bool,
    ) {
        let object = |uid: &str, version: &str| json!({"metadata": {"uid": uid, "resourceVersion": version}});
        let observed = CachedObject::read(&POD, &object("u", "7"), ObjectProjection::default());
        let status = Status { code: 422, message: message.to_owned(), ..Status::default() };
        assert!(has_no_cause(&status));
        let now = object(uid, version);
        let error = patch_error("change it", &observed, Some(&now), Error::Api(Box::new(status)));
        assert_eq!((error.reason.as_str(), error.transient), (reason, transient), "{}", error.message);
    }

    #[test]
    fn a_refused_patch_of_a_deleted_object_is_retried_after_an_observation() {
        let observed = CachedObject::read(&POD, &json!({}), ObjectProjection::default());
        let status = Status { code: 422, ..Status::default() };
        let error = patch_error("change it", &observed, None, Error::Api(Box::new(status)));
        assert_eq!((error.reason.as_str(), error.transient), (CHANGED_MEANWHILE, true));
    }
}
