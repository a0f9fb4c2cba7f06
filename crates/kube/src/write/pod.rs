//! Pods that are nodes.

use kube::api::{DynamicObject, PostParams};
use muster_core::action::Fence;
use muster_core::ids::NodeId;
use muster_engine::provider::ProviderError;
use muster_frameworks::kubernetes::Manifest;

use super::{Writer, missing, place, refuse_older, within};
use crate::follow::{api_of, plain};
use crate::{marks, refusal};

impl Writer {
    /// Makes the pod of a node; one that was made for it before is as good.
    pub(crate) async fn make_node(
        &self,
        mut manifest: Manifest,
        node: NodeId,
        fence: Fence,
    ) -> Result<(), ProviderError> {
        marks::mark_node(&mut manifest.body, node, fence);
        let (namespace, name) = place(&manifest.body);
        let what = format!("create pod '{namespace}/{name}'");
        let pod: DynamicObject = serde_json::from_value(manifest.body)
            .map_err(|error| ProviderError::permanent("Invalid", format!("cannot {what}: {error}")))?;
        let api = api_of(self.client.clone(), manifest.kind, Some(&namespace));
        match within(&what, api.create(&PostParams::default(), &pod)).await? {
            Ok(_) => Ok(()),
            Err(error) if refusal::is(&error, 404) => Err(missing(&what, manifest.kind, &namespace, &error)),
            Err(error) if !refusal::is(&error, 409) => Err(refusal::of(&what, error)),
            Err(_) => {
                let present = within(&what, api.get_opt(&name)).await?;
                let present =
                    present.map_err(|error| refusal::of(&what, error))?.map(plain).unwrap_or_default();
                if present["metadata"]["labels"][marks::NODE] != node.to_string().as_str() {
                    let message = format!("cannot {what}: there is one already, which others made");
                    return Err(ProviderError::permanent("AlreadyExists", message));
                }
                refuse_older(fence, marks::fence_of(&present))
            }
        }
    }
}
