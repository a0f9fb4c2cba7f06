//! Adoption of pods that Muster did not create. They become nodes by a label.

use muster_engine::ports::provider::{INVALID, ProviderError};
use muster_frameworks::kubernetes::POD;
use serde_json::{Map, Value};

use super::PodProvider;
use super::manifest::NodePodRecipe;
use crate::{labels, ownership};

impl PodProvider {
    /// Returns the properties of a profile like a pod, if the pod can become a node.
    pub(super) async fn read_adoptee(&self, identity: &str) -> Result<Map<String, Value>, ProviderError> {
        let (namespace, name) = self.find_adoptee(identity)?;
        let read = self.writer.read_object(&POD, namespace, name).await?;
        let pod = adoptable(identity, read.as_ref())?;
        Ok(NodePodRecipe::from_pod(namespace, pod).properties())
    }

    /// Labels a pod as a node. The pod may have changed since [`Self::read_adoptee`]: of two concurrent adoptions, one
    /// fails.
    pub(super) async fn label_adoptee(&self, identity: &str) -> Result<(), ProviderError> {
        let (namespace, name) = self.find_adoptee(identity)?;
        let check = |pod: Option<&Value>| adoptable(identity, pod).map(drop);
        self.writer.label_adopted_pod(namespace, name, &check).await
    }

    /// Returns the namespace and name in the identity of a pod that this server may read.
    fn find_adoptee<'i>(&self, identity: &'i str) -> Result<(&'i str, &'i str), ProviderError> {
        let (namespace, name) = split_identity(identity)?;
        self.namespaces.check_served(namespace)?;
        self.identity_gate.check()?;
        Ok((namespace, name))
    }
}

/// Splits the identity of a pod into its namespace and name. Both become parts of a URL.
fn split_identity(identity: &str) -> Result<(&str, &str), ProviderError> {
    let Some((namespace, name)) = identity.split_once('/') else {
        let message =
            format!("'{identity}' is no identity of a pod: give its namespace and name, as in demo/fred");
        return Err(ProviderError::permanent(INVALID, message));
    };
    labels::check_name("namespace", Some(namespace))
        .and_then(|()| labels::check_name("pod", Some(name)))
        .map_err(|why| ProviderError::permanent(INVALID, why))?;
    Ok((namespace, name))
}

/// Returns the pod if it can become a node.
fn adoptable<'p>(identity: &str, pod: Option<&'p Value>) -> Result<&'p Value, ProviderError> {
    let Some(pod) = pod else {
        return Err(ProviderError::permanent("NotFound", format!("pod '{identity}' does not exist")));
    };
    if !pod["metadata"]["labels"][ownership::NODE].is_null() {
        return Err(ProviderError::permanent("Adopted", format!("pod '{identity}' already is a node")));
    }
    if let Some(owner) = pod["metadata"]["ownerReferences"].get(0) {
        let (kind, name) = (owner["kind"].as_str(), owner["name"].as_str());
        let owner = format!("{} '{}'", kind.unwrap_or_default(), name.unwrap_or_default());
        let message = format!("pod '{identity}' cannot be a node: its controller, {owner}, would replace it");
        return Err(ProviderError::permanent("NotFree", message));
    }
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use muster_testkit::outside::{Outside, Reply};
    use rstest::rstest;
    use serde_json::json;

    use super::super::sample::provider;
    use super::*;

    #[rstest]
    #[case::no_namespace("fred", "is no identity of a pod")]
    #[case::parent_folder("demo/..", "pod '..' cannot exist")]
    #[case::further_parts("demo/fred/exec", "pod 'fred/exec' cannot exist")]
    #[case::query("demo/fred?force=true", "pod 'fred?force=true' cannot exist")]
    #[case::namespace_with_a_parent_folder("../secrets", "namespace '..' cannot exist")]
    #[case::not_served("other/fred", "namespace 'other' is not served by this server")]
    #[tokio::test]
    async fn only_a_pod_of_a_served_namespace_is_read_for_an_adoption(
        #[case] identity: &str,
        #[case] why: &str,
    ) {
        let mut api_server = Outside::start(200, "{}").await;
        let provider = provider(&api_server, &["demo"]);
        let read = provider.read_adoptee(identity).await.expect_err("it is refused");
        assert!(read.message.contains(why) && !read.transient, "{read:?}");
        let labelled = provider.label_adoptee(identity).await.expect_err("it is refused");
        assert_eq!(labelled.message, read.message);
        assert_eq!(api_server.received(), [], "nothing was requested");
    }

    #[tokio::test]
    async fn of_two_concurrent_adoptions_one_fails() {
        // The other adoption writes the label between the first read and the patch.
        let reads = AtomicU32::new(0);
        let mut api_server = Outside::answering(move |call| {
            let metadata = json!({"name": "fred", "namespace": "demo", "uid": "u"});
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata});
            pod["metadata"]["resourceVersion"] = json!("7");
            if call.line.starts_with("PATCH") {
                // The API server refuses the patch only because it names the version.
                return match call.body["metadata"]["resourceVersion"].as_str() {
                    Some("7") => Reply::Now(409, json!({"code": 409, "message": "modified"}).to_string()),
                    _ => Reply::Now(200, pod.to_string()),
                };
            }
            if reads.fetch_add(1, Ordering::Relaxed) > 0 {
                pod["metadata"]["labels"] = json!({ownership::NODE: ownership::ADOPTED});
            }
            Reply::Now(200, pod.to_string())
        })
        .await;
        let refused = provider(&api_server, &[]).label_adoptee("demo/fred").await.expect_err("it is late");
        assert_eq!((refused.reason.as_str(), refused.transient), ("Adopted", false), "{}", refused.message);
        let patch = api_server.received().into_iter().find(|call| call.line.starts_with("PATCH"));
        assert_eq!(patch.expect("the pod is patched").body["metadata"]["uid"], "u");
    }
}
