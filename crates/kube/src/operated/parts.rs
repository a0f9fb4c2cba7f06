//! Objects of a cluster beside its root: those of one before it go, and those that others took away come again.

use std::sync::Arc;

use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_engine::ports::provider::{FencedCall, ProviderError};
use muster_frameworks::kubernetes::{Manifest, Plan};
use serde_json::Value;

use super::stand::Stand;
use super::{Operated, invalid, recipe_of};
use crate::apps::write_mark;
use crate::facts::ObjectFacts;
use crate::write::{CHANGED_MEANWHILE, detached};

impl Operated {
    /// Parts of a cluster of that name that is gone would be taken for parts of the new one.
    pub(super) async fn clear_away(&self, stand: &Stand) -> Result<(), ProviderError> {
        let site = stand.look()?;
        let left: Vec<&ObjectFacts> = site.objects().collect();
        if site.root.is_some() || left.is_empty() {
            return Ok(());
        }
        for object in &left {
            if object.leaving.is_none() {
                self.writer.delete(object.kind, &object.namespace, &object.name, &object.uid).await?;
            }
        }
        let names: Vec<&str> = left.iter().map(|object| object.name.as_str()).collect();
        let message = format!("what is left of a cluster of that name has to go first: {}", names.join(", "));
        Err(ProviderError::transient("Leftovers", message))
    }

    /// Makes an object, and takes in what that is answered with. A request that was sent is not taken back when this is
    /// dropped: a reader that finds nothing waits for it.
    pub(super) async fn make(
        &self,
        stand: &Stand,
        manifest: Manifest,
        owner: Option<&Value>,
        call: FencedCall<'_>,
    ) -> Result<Value, ProviderError> {
        let (writer, creations, stand) = (self.writer.clone(), Arc::clone(&self.creations), stand.clone());
        let (owner, cluster, fence) = (owner.cloned(), call.cluster.id, call.fence);
        let made = async move {
            let _held = creations.lock(stand.key.clone()).await;
            let kind = manifest.kind;
            let made = writer.make(manifest, owner.as_ref(), cluster, fence).await?;
            stand.take(kind, &made);
            Ok(made)
        };
        detached(made).await
    }

    /// Makes again what others took away of a cluster, as it was: its sizes are changed after that.
    pub(super) async fn make_whole(
        &self,
        stand: &Stand,
        call: FencedCall<'_>,
        before: &Cluster,
    ) -> Result<(), ProviderError> {
        let site = stand.look()?;
        let Some(root) = site.root.as_ref().map(|root| &root.value) else { return Ok(()) };
        if stand.flavor.missing(&stand.key.name, &site.words()).is_empty() {
            return Ok(());
        }
        self.writer.fences.refuse_older(call.fence, root.fence.as_ref())?;
        let Some(owner) = self.read_root(root).await? else {
            let message = format!("'{}/{}' was deleted in the meantime", root.namespace, root.name);
            return Err(ProviderError::transient(CHANGED_MEANWHILE, message));
        };
        let recipe = recipe_of(before, call.profile)?;
        let manifests = stand.flavor.manifests(Plan { cluster: before, recipe: &recipe }).map_err(invalid)?;
        // The fence of this write would say that what follows was written, too.
        let fence = self.writer.fences.read(root.fence.as_ref()).unwrap_or(Fence(0));
        for mut manifest in manifests.into_iter().filter(|manifest| manifest.owned) {
            if let Some(mark) = before.ephemeral.as_deref() {
                write_mark(&mut manifest.body, mark, false);
            }
            let (kind, name) = (manifest.kind, manifest.body["metadata"]["name"].as_str());
            if name.is_some_and(|name| site.object(kind.kind, name).is_none()) {
                self.make(stand, manifest, Some(&owner), FencedCall { fence, ..call }).await?;
            }
        }
        Ok(())
    }
}
