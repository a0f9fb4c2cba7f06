//! The writes that change the recipe of a cluster's nodes.

use muster_core::change::ClusterUpdate;
use muster_core::cluster::Cluster;
use muster_core::recipe::ClusterRecipe;
use muster_engine::ports::provider::{ClusterTarget, ProviderError};
use muster_frameworks::kubernetes::{DesiredCluster, Flavor, ObjectWrite};

use super::{invalid, recipe_of};
use crate::cluster_cache::CachedCluster;

/// A change of recipes: the cluster before and after it, and the update that requests it, if one does.
pub(super) struct RecipeUpdate<'a> {
    update: Option<&'a ClusterUpdate>,
    before: (&'a Cluster, ClusterRecipe),
    after: (&'a Cluster, ClusterRecipe),
}

/// The planned writes.
pub(super) struct RecipeWrites {
    pub(super) writes: Vec<ObjectWrite>,
    /// True if the flavor has compared the update with the objects, and not only the recipes.
    is_compared: bool,
}

impl RecipeWrites {
    /// Returns true if the update changes the objects; none if the flavor has not compared them.
    pub(super) fn differs(&self) -> Option<bool> {
        self.is_compared.then(|| self.writes.iter().any(|write| !write.is_empty()))
    }
}

impl<'a> RecipeUpdate<'a> {
    pub(super) fn new(
        update: Option<&'a ClusterUpdate>,
        before: &'a Cluster,
        after: ClusterTarget<'a>,
    ) -> Result<Self, ProviderError> {
        let read = |cluster: &'a Cluster| -> Result<_, ProviderError> {
            Ok((cluster, recipe_of(cluster, after.profile)?))
        };
        Ok(Self { update, before: read(before)?, after: read(after.cluster)? })
    }

    /// Plans the writes for the present cluster.
    pub(super) fn plan(
        &self,
        flavor: &dyn Flavor,
        cached: &CachedCluster,
    ) -> Result<RecipeWrites, ProviderError> {
        fn desired<'d>((cluster, recipe): &'d (&Cluster, ClusterRecipe)) -> DesiredCluster<'d> {
            DesiredCluster { cluster, recipe }
        }
        let (before, after, projections) =
            (desired(&self.before), desired(&self.after), cached.projections());
        if let Some(update) = self.update
            && let Some(writes) = flavor.apply_update(update, before, after, &projections).map_err(invalid)?
        {
            return Ok(RecipeWrites { writes, is_compared: true });
        }
        if self.after.0.has_same_recipe(self.before.0) {
            return Ok(RecipeWrites { writes: Vec::new(), is_compared: false });
        }
        let writes = flavor.change_recipe(before, after, &projections).map_err(invalid)?;
        Ok(RecipeWrites { writes, is_compared: false })
    }
}
