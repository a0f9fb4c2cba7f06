//! From what shall change to writes, and these one after the other.

use std::collections::BTreeMap;

use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::node::Node;
use muster_engine::provider::{Call, ProviderError};
use muster_frameworks::kubernetes::{Deed, Resize, Step, Victim};

use super::Kubernetes;
use super::stand::Stand;
use crate::facts::PodFacts;
use crate::sites::Site;

impl Kubernetes {
    /// Writes, and takes in what each write is answered with.
    pub(super) async fn take_steps(
        &self,
        stand: &Stand,
        site: &Site,
        steps: Vec<Step>,
        call: Call<'_>,
    ) -> Result<(), ProviderError> {
        for Step { kind, name, deed } in steps {
            let namespace = &stand.key.namespace;
            match deed {
                Deed::Patch(operations) => {
                    let Some(seen) = site.object(kind.kind, &name) else {
                        let message = format!("there is no {} '{namespace}/{name}' any more", kind.kind);
                        return Err(ProviderError::transient("ChangedMeanwhile", message));
                    };
                    let patched = self.writer.patch(seen, operations, call.fence).await?;
                    stand.take(kind, &patched);
                }
                Deed::Merge(body) => self.writer.merge(kind, namespace, &name, &body).await?,
                Deed::Delete => {
                    if let Some(now) = self.writer.read(kind, namespace, &name).await? {
                        let uid = now["metadata"]["uid"].as_str().unwrap_or_default();
                        self.writer.delete(kind, namespace, &name, uid).await?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// What has to be written for the sizes to be what they should, provided that they are what they were.
pub(super) fn resized(
    stand: &Stand,
    site: &Site,
    after: &Cluster,
    before: &Cluster,
    victims: &[Node],
) -> Result<Vec<Step>, ProviderError> {
    let words = site.words();
    let chosen: BTreeMap<&str, Vec<Victim>> = after
        .groups
        .iter()
        .map(|group| {
            let own = victims.iter().filter(|node| node.group.as_ref() == Some(&group.name));
            // Whatever else has that name is none of ours.
            let pods = own
                .filter_map(|node| site.pod(&node.name))
                .filter(|pod| pod.member.group.as_ref() == Some(&group.name));
            let victim =
                |pod: &PodFacts| Victim { pod: pod.name.clone(), controller: pod.controller.clone() };
            (group.name.as_str(), pods.map(victim).collect())
        })
        .collect();
    let mut changes = Vec::new();
    for group in &after.groups {
        let Some(present) = before.group(&group.name) else { continue };
        let desired = (group.desired != present.desired).then_some(group.desired);
        let bounds = ((group.min, group.max) != (present.min, present.max)).then_some((group.min, group.max));
        let victims = chosen.get(group.name.as_str()).map(Vec::as_slice).unwrap_or_default();
        if desired.is_none() && bounds.is_none() {
            continue;
        }
        let said = words.iter().flat_map(|words| &words.groups).find(|said| said.name == group.name);
        if said.is_some_and(|said| desired.is_some() && said.desired != present.desired) {
            let message = format!("group '{}' was resized in the meantime", group.name);
            return Err(ProviderError::transient("ChangedMeanwhile", message));
        }
        changes.push(Resize { group: &group.name, desired, bounds, victims });
    }
    if changes.is_empty() {
        // The fence is written all the same.
        let Some(root) = &site.root else { return Ok(Vec::new()) };
        let (kind, name) = (root.value.kind, root.value.name.clone());
        return Ok(vec![Step { kind, name, deed: Deed::Patch(Vec::new()) }]);
    }
    let steps = stand.flavor.resize(&stand.key.name, &words, &changes);
    steps.map_err(|why| ProviderError::permanent("Invalid", why))
}

/// Patches of one object are one write.
pub(super) fn joined(steps: Vec<Step>) -> Vec<Step> {
    let mut joined: Vec<Step> = Vec::new();
    for step in steps {
        match joined.last_mut() {
            Some(Step { kind, name, deed: Deed::Patch(operations) })
                if *kind == step.kind && *name == step.name && matches!(step.deed, Deed::Patch(_)) =>
            {
                if let Deed::Patch(more) = step.deed {
                    operations.extend(more);
                }
            }
            _ => joined.push(step),
        }
    }
    joined
}

/// Whether what members are made from differs.
pub(super) fn changes_recipe(before: &Cluster, after: &Cluster) -> bool {
    let group = |after: &WorkerGroup| {
        before
            .group(&after.name)
            .is_none_or(|before| before.shape != after.shape || before.spec != after.spec)
    };
    before.spec != after.spec || after.groups.iter().any(group)
}
