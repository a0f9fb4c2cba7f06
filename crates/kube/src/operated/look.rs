//! A cluster as it is, as recent as what is known to have been written.

use muster_core::cluster::Cluster;
use muster_engine::ports::provider::ProviderError;

use super::Operated;
use super::stand::Stand;
use crate::facts::LeanPod;
use crate::follow::{self, api_in, api_of};
use crate::plain::PlainObject;
use crate::sites::{Of, Site};

impl Operated {
    /// What the watches tell of a cluster. Where its row says that more was acknowledged, the watches may be behind,
    /// since another replica wrote that: then everything is listed first.
    pub(super) async fn look(&self, stand: &Stand, cluster: &Cluster) -> Result<Site, ProviderError> {
        let mut site = stand.look()?;
        if site.root.is_none() {
            // It may be on its way, sent by an action that was cancelled.
            drop(self.creations.lock(stand.key.clone()).await);
            site = stand.look()?;
        }
        if !self.may_be_behind(stand, &site, cluster) {
            return Ok(site);
        }
        self.list(stand).await?;
        let site = stand.look()?;
        let identity = site.root.as_ref().map(|root| &root.value.uid);
        if let Some(known) = cluster.observed.object.as_ref().filter(|known| Some(*known) != identity) {
            stand.sites.bury(&stand.key, known);
        }
        Ok(site)
    }

    fn may_be_behind(&self, stand: &Stand, site: &Site, cluster: &Cluster) -> bool {
        let known = &cluster.observed;
        let is_gone = known.object.as_ref().is_some_and(|uid| stand.sites.is_gone(uid));
        !is_gone && site.fence(&self.writer.fences) < known.fence
    }

    /// Takes in everything of the flavor that is in the namespace.
    async fn list(&self, stand: &Stand) -> Result<(), ProviderError> {
        let (sites, namespace) = (&stand.sites, stand.key.namespace.as_str());
        for &of in sites.kinds() {
            let begun = sites.begin();
            match of {
                Of::Pods => {
                    let pods = api_in::<LeanPod>(self.client.clone(), Some(namespace));
                    let take = |pod| sites.take_pod(Some(begun), pod, true);
                    follow::list(&pods, stand.flavor.pods(), take).await?;
                }
                Of::Objects(watched) => {
                    let objects = api_of(self.client.clone(), watched.kind, Some(namespace));
                    let take = |object: PlainObject| {
                        sites.take_object(Some(begun), watched, &object.body, true);
                    };
                    follow::list(&objects, watched.selector, take).await?;
                }
            }
            sites.listed(of, namespace, begun);
        }
        Ok(())
    }
}
