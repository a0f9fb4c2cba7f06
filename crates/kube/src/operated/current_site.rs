//! A cluster as it is, as recent as what is known to have been written.

use std::collections::HashSet;

use muster_core::cluster::Cluster;
use muster_core::node::Node;
use muster_engine::ports::provider::{MemberId, ObjectContent, ProviderError};
use serde_json::Value;

use super::Operated;
use super::stand::Stand;
use crate::content::Content;
use crate::facts::{LeanPod, ObjectFacts};
use crate::follow::{self, api_in, api_of};
use crate::plain::PlainObject;
use crate::sites::{Of, Site};

impl Operated {
    /// What the watches report of a cluster. Where its rows are of a later state, the watches are stale: another replica
    /// wrote or observed that state. Then everything is listed first.
    pub(super) async fn current_site(
        &self,
        stand: &Stand,
        cluster: &Cluster,
        nodes: &[Node],
    ) -> Result<Site, ProviderError> {
        let mut site = stand.look()?;
        if site.root.is_none() {
            // It may be on its way, sent by an action that was cancelled.
            drop(self.creations.lock(stand.key.clone()).await);
            site = stand.look()?;
        }
        if !self.is_stale(stand, &site, cluster) && unreported_losses(stand, &site, nodes).is_empty() {
            return Ok(site);
        }
        self.list_namespace(stand).await?;
        let site = stand.look()?;
        let identity = site.root.as_ref().map(|root| &root.value.uid);
        if let Some(known) = cluster.observed.object.as_ref().filter(|known| Some(*known) != identity) {
            stand.sites.bury(&stand.key, known);
        }
        for pod in unreported_losses(stand, &site, nodes) {
            stand.sites.bury(&stand.key, &pod);
        }
        Ok(site)
    }

    fn is_stale(&self, stand: &Stand, site: &Site, cluster: &Cluster) -> bool {
        let known = &cluster.observed;
        let is_gone = known.object.as_ref().is_some_and(|uid| stand.sites.is_gone(uid));
        let is_older =
            || site.fence(&self.writer.fences) < known.fence || site.generation() < known.object_generation;
        !is_gone && is_older()
    }

    /// The content of a cluster's root, if it is other than the row has stored.
    pub(super) async fn changed_content(
        &self,
        stand: &Stand,
        site: &Site,
        cluster: &Cluster,
    ) -> Result<Option<ObjectContent>, ProviderError> {
        let Some(root) = site.root.as_ref().map(|root| &root.value) else { return Ok(None) };
        let Some(digest) = root.content.as_ref().filter(|now| **now != cluster.observed.object_content)
        else {
            return Ok(None);
        };
        if let Some(recent) = stand.sites.recent_content(&root.uid, digest) {
            return Ok(Some(recent.parse(stand.flavor)));
        }
        let object = self.read_root(root).await?;
        Ok(object.map(|object| Content::read(stand.flavor, &object).parse(stand.flavor)))
    }

    /// A root as it is now; none if it is gone, also if another one has its name.
    pub(super) async fn read_root(&self, root: &ObjectFacts) -> Result<Option<Value>, ProviderError> {
        let object = self.writer.read(root.kind, &root.namespace, &root.name).await?;
        Ok(object.filter(|object| object["metadata"]["uid"] == root.uid.as_str()))
    }

    /// Takes in everything of the flavor that is in the namespace.
    async fn list_namespace(&self, stand: &Stand) -> Result<(), ProviderError> {
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

/// The UIDs of the nodes' pods that are not there although no watch has reported their end.
fn unreported_losses(stand: &Stand, site: &Site, nodes: &[Node]) -> Vec<String> {
    let present: HashSet<&str> = site.uids().collect();
    let known = nodes.iter().filter_map(MemberId::of).map(|member| member.uid);
    known.filter(|uid| !present.contains(uid.as_str()) && !stand.sites.is_gone(uid)).collect()
}
