//! Resolves the image templates that a new cluster names: the cluster stores their images, and its creation waits for
//! builds that have not ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::ids::TaskId;
use muster_core::image_template::{ImageState, ImageTemplate};
use muster_core::profile::Profile;
use muster_core::recipe::{ClusterRecipe, store_images, stored_images};
use serde::Deserialize as _;

use crate::admission::request::SubmitError;
use crate::context::{Context, Engine};
use crate::ports::images::{ImageBuild, ImageBuilder};

impl Engine {
    /// Refuses another profile that names image templates which the cluster was not created with, since templates are
    /// resolved only when a cluster is created.
    pub(crate) async fn check_profile_images(
        &self,
        cluster: &Cluster,
        change: &Change,
    ) -> Result<(), SubmitError> {
        let Change::UpdateCluster(update) = change else { return Ok(()) };
        let Some(id) = update.profile_id.filter(|_| cluster.framework.is_some()) else { return Ok(()) };
        let Some(profile) = self.context.store.profile(id).await? else { return Ok(()) };
        let recipe = ClusterRecipe::from_stored(&profile.properties).map_err(SubmitError::Invalid)?;
        let known = stored_images(&cluster.spec);
        match recipe.image_templates(&cluster.groups).iter().find(|name| !known.contains_key(*name)) {
            Some(name) => Err(SubmitError::Invalid(format!(
                "the profile has image template '{name}', which is resolved only when a cluster is created: set its image \
                 in the profile, or create another cluster"
            ))),
            None => Ok(()),
        }
    }

    /// Removes the image of a template that was deleted, unless another template or a cluster uses it. If the build
    /// still runs, the image is removed when the build ends.
    pub async fn remove_image(&self, template: &ImageTemplate) {
        let provider = self.context.providers.get(&template.instance);
        let builder = provider.and_then(|provider| Arc::clone(provider).image_builder());
        let build = ImageBuild::deserialize(&template.task.inputs);
        if let (Some(builder), Ok(build), true) = (builder, build, template.task.status.is_ended()) {
            remove(&self.context, builder.as_ref(), template.task.id, &build).await;
        }
    }

    /// Stores the images of the templates that a cluster names in its spec; returns the builds that it waits for.
    pub(crate) async fn resolve_images(
        &self,
        cluster: &mut Cluster,
        profile: &Profile,
    ) -> Result<Vec<TaskId>, SubmitError> {
        if cluster.framework.is_none() {
            return Ok(Vec::new());
        }
        let recipe = ClusterRecipe::from_stored(&profile.properties).map_err(SubmitError::Invalid)?;
        let (mut images, mut waits) = (BTreeMap::new(), Vec::new());
        for name in recipe.image_templates(&cluster.groups) {
            let template = self.context.store.image_template(&cluster.namespace, &name).await?;
            let template = template.ok_or_else(|| unknown(cluster, &name))?;
            refusal(cluster, &template).map_or(Ok(()), |why| Err(SubmitError::Invalid(why)))?;
            if !template.task.status.is_ended() {
                waits.push(template.task.id);
            }
            images.insert(name, template.image);
        }
        if !waits.is_empty() {
            let names: Vec<&str> = images.keys().map(String::as_str).collect();
            cluster.status_reason = format!("Waiting for the build of its image: {}", names.join(", "));
        }
        store_images(&mut cluster.spec, &images);
        Ok(waits)
    }
}

fn unknown(cluster: &Cluster, name: &str) -> SubmitError {
    SubmitError::Invalid(format!(
        "image template '{name}' not found in namespace '{}': create it first, or give an image",
        cluster.namespace
    ))
}

/// Returns the reason why a cluster cannot use a template, if there is one.
fn refusal(cluster: &Cluster, template: &ImageTemplate) -> Option<String> {
    let name = &template.name;
    if template.instance != cluster.instance {
        let (built, here) = (template.instance.provider(), cluster.instance.provider());
        return Some(format!(
            "image template '{name}' was built for provider '{built}', but the cluster has provider '{here}': create one \
             there, or give an image"
        ));
    }
    (template.state() == ImageState::Failed).then(|| {
        let why = &template.task.status_reason;
        format!("the build of image template '{name}' failed: {why}")
    })
}

/// Removes an image, unless a template or a cluster uses it by now.
pub(crate) async fn remove(context: &Context, builder: &dyn ImageBuilder, task: TaskId, build: &ImageBuild) {
    // If the database is unavailable, the image stays.
    let is_used = Box::pin(async { context.store.is_image_used(&build.image).await.unwrap_or(true) });
    if let Err(error) = builder.remove(task, build, is_used).await {
        tracing::warn!(%error, image = build.image, "cannot remove an image");
    }
}
