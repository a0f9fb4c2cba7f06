//! Finds the clusters that run in the framework installations of Muster on this machine.

use muster_core::cluster::Framework;
use muster_core::ids::LOCAL_PROVIDER;
use muster_core::recipe::ClusterRecipe;
use muster_engine::ports::frameworks::Frameworks;
use muster_store::reads::ClusterQuery;

use crate::error::ServiceError;
use crate::service::Service;

impl Service {
    /// The clusters whose nodes run in an installation of a framework, as `namespace/name`.
    pub async fn clusters_in_installed(
        &self,
        port: &dyn Frameworks,
        framework: Framework,
    ) -> Result<Vec<String>, ServiceError> {
        let mut found = Vec::new();
        for instance in self.instances().into_iter().filter(|id| id.provider() == LOCAL_PROVIDER) {
            let query = ClusterQuery {
                instance: Some(instance),
                framework: Some(framework),
                ..ClusterQuery::default()
            };
            for cluster in self.store().clusters(&query).await?.items {
                let profile = self.store().profile(cluster.profile_id).await?;
                let recipe = profile.and_then(|profile| ClusterRecipe::of_cluster(&cluster, &profile).ok());
                let groups = cluster.groups.iter();
                let images = match &recipe {
                    Some(recipe) => std::iter::once(recipe.head().image)
                        .chain(groups.map(|group| recipe.workers(Some(group)).image))
                        .collect(),
                    // A cluster whose recipe cannot be read may run in the installation.
                    None => vec![None],
                };
                for image in images {
                    if port.runs_installed(framework, image.as_deref()).await {
                        found.push(format!("{}/{}", cluster.namespace, cluster.name));
                        break;
                    }
                }
            }
        }
        Ok(found)
    }
}
