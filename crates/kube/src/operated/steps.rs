//! From what shall change to writes, and these one after the other.

use std::collections::BTreeMap;

use muster_core::cluster::Cluster;
use muster_core::node::Node;
use muster_engine::ports::provider::{FencedCall, ProviderError};
use muster_frameworks::kubernetes::{Deed, Resize, Step, Victim, groups};
use serde_json::{Map, Value, json};

use super::Operated;
use super::stand::Stand;
use crate::facts::PodFacts;
use crate::marks;
use crate::sites::Site;
use crate::write::CHANGED_MEANWHILE;

/// How often something is written that others write to at the same time, before the action makes room for others.
const TRIES: u32 = 8;

impl Operated {
    /// Writes what the site as it is asks for; whoever was overtaken by somebody else looks again and tries again.
    pub(super) async fn write_steps(
        &self,
        stand: &Stand,
        steps: &(dyn Fn(&Site) -> Result<Vec<Step>, ProviderError> + Sync),
        call: FencedCall<'_>,
    ) -> Result<(), ProviderError> {
        let mut tries = 0;
        loop {
            let site = stand.look()?;
            tries += 1;
            let written = match steps(&site) {
                Ok(steps) => self.take_steps(stand, &site, steps, call).await,
                Err(error) => Err(error),
            };
            match written {
                Err(error) if error.reason == CHANGED_MEANWHILE && tries < TRIES => {
                    self.look_anew(stand, &site).await?;
                }
                written => return written,
            }
        }
    }

    /// Takes in how objects are now, without waiting for a watch to tell.
    async fn look_anew(&self, stand: &Stand, site: &Site) -> Result<(), ProviderError> {
        for object in site.objects() {
            let since = stand.sites.begin();
            match self.writer.read(object.kind, &object.namespace, &object.name).await? {
                Some(now) => stand.take_since(Some(since), object.kind, &now),
                None => stand.sites.bury(&stand.key, &object.uid),
            }
        }
        Ok(())
    }

    /// Writes, and takes in what each write is answered with.
    pub(super) async fn take_steps(
        &self,
        stand: &Stand,
        site: &Site,
        steps: Vec<Step>,
        call: FencedCall<'_>,
    ) -> Result<(), ProviderError> {
        let steps = joined(self.decide_containers(stand, steps).await?);
        // The fence says that all is written: whoever is interrupted before writes all of it again.
        let last = steps.iter().rposition(|step| is_fenced(&step.deed));
        for (index, Step { kind, name, deed }) in steps.into_iter().enumerate() {
            let (namespace, last) = (&stand.key.namespace, Some(index) == last);
            let seen = || {
                site.object(kind.kind, &name).ok_or_else(|| {
                    let message = format!("there is no {} '{namespace}/{name}' any more", kind.kind);
                    ProviderError::transient(CHANGED_MEANWHILE, message)
                })
            };
            match deed {
                Deed::Patch(operations) if operations.is_empty() && !last => {}
                Deed::Patch(operations) => {
                    let patched = self.writer.patch(seen()?, operations, call.fence, last).await?;
                    stand.take(kind, &patched);
                }
                // Decided above.
                Deed::Pods(_) => {}
                Deed::Overlay(body) => {
                    let patched = self.writer.overlay(seen()?, body, call.fence, last).await?;
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

    /// Decides how containers are changed, on the objects as they are: others may have added to them. A patch is refused
    /// if an object changes before it is written.
    async fn decide_containers(&self, stand: &Stand, steps: Vec<Step>) -> Result<Vec<Step>, ProviderError> {
        let mut decided = Vec::with_capacity(steps.len());
        for Step { kind, name, deed } in steps {
            let Deed::Pods(changes) = deed else {
                decided.push(Step { kind, name, deed });
                continue;
            };
            let object = match changes.as_slice() {
                [] => None,
                _ => self.writer.read(kind, &stand.key.namespace, &name).await?,
            };
            let operations = |object| changes.iter().flat_map(|change| change.operations(object)).collect();
            let deed = Deed::Patch(object.as_ref().map(operations).unwrap_or_default());
            decided.push(Step { kind, name, deed });
        }
        Ok(decided)
    }
}

/// What has to be written for the sizes to be what they should, provided that they are what they were.
pub(super) fn resized(
    stand: &Stand,
    site: &Site,
    after: &Cluster,
    before: &Cluster,
    (asked, victims): (&[String], &[Node]),
) -> Result<Vec<Step>, ProviderError> {
    let words = site.words();
    let said = groups(&words);
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
        let is_asked = asked.contains(&group.name);
        let desired = (group.desired != present.desired || is_asked).then_some(group.desired);
        let bounds = ((group.min, group.max) != (present.min, present.max)).then_some((group.min, group.max));
        let victims = chosen.get(group.name.as_str()).map(Vec::as_slice).unwrap_or_default();
        if desired.is_none() && bounds.is_none() {
            continue;
        }
        let said = said.iter().find(|said| said.name == group.name);
        if said.is_some_and(|said| desired.is_some() && said.desired != present.desired) {
            let message = format!("group '{}' was resized in the meantime", group.name);
            return Err(ProviderError::transient(CHANGED_MEANWHILE, message));
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

/// What has to be written for users' labels and annotations to be what they should.
pub(super) fn relabelled(site: &Site, before: &Cluster, after: &Cluster) -> Option<Step> {
    let mut metadata = Map::new();
    let kinds =
        [("labels", &before.labels, &after.labels), ("annotations", &before.annotations, &after.annotations)];
    for (place, before, after) in kinds {
        let gone = before.keys().filter(|key| !after.contains_key(*key) && !marks::is_of_others(key));
        let gone = gone.map(|key| (key.clone(), Value::Null));
        let new = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
        let new = new.map(|(key, value)| (key.clone(), Value::from(value.clone())));
        let changes: Map<String, Value> = gone.chain(new).collect();
        if !changes.is_empty() {
            metadata.insert(place.to_owned(), Value::Object(changes));
        }
    }
    let root = &site.root.as_ref().filter(|_| !metadata.is_empty())?.value;
    let deed = Deed::Overlay(json!({"metadata": metadata}));
    Some(Step { kind: root.kind, name: root.name.clone(), deed })
}

/// Whether a write stands under the fence.
fn is_fenced(deed: &Deed) -> bool {
    matches!(deed, Deed::Patch(_) | Deed::Overlay(_))
}

/// What is written to one object is one write, at the place of the last: what comes between may have to come first.
fn joined(steps: Vec<Step>) -> Vec<Step> {
    let mut joined: Vec<Step> = Vec::new();
    for mut step in steps {
        let same = |before: &Step| {
            let alike = std::mem::discriminant(&before.deed) == std::mem::discriminant(&step.deed);
            before.kind == step.kind && before.name == step.name && alike && is_fenced(&before.deed)
        };
        if let Some(place) = joined.iter().position(same) {
            step.deed = both(joined.remove(place).deed, step.deed);
        }
        joined.push(step);
    }
    joined
}

fn both(before: Deed, after: Deed) -> Deed {
    match (before, after) {
        (Deed::Patch(mut operations), Deed::Patch(more)) => {
            operations.extend(more);
            Deed::Patch(operations)
        }
        (Deed::Overlay(mut body), Deed::Overlay(more)) => {
            overlay(&mut body, more);
            Deed::Overlay(body)
        }
        (_, after) => after,
    }
}

/// Two merge patches as one: what is removed stays removed.
fn overlay(body: &mut Value, more: Value) {
    match (body, more) {
        (Value::Object(body), Value::Object(more)) => {
            for (key, value) in more {
                overlay(body.entry(key).or_insert(Value::Null), value);
            }
        }
        (body, more) => *body = more,
    }
}

#[cfg(test)]
mod tests {
    use muster_frameworks::kubernetes::POD;

    use super::*;

    fn step(name: &str, deed: Deed) -> Step {
        Step { kind: &POD, name: name.to_owned(), deed }
    }

    #[test]
    fn what_is_written_to_one_object_is_one_write_after_what_comes_between() {
        let patch = |name: &str, number: u32| step(name, Deed::Patch(vec![json!(number)]));
        let steps = vec![patch("a", 1), step("x", Deed::Delete), patch("b", 2), patch("a", 3)];
        let joined = joined(steps);
        let both = step("a", Deed::Patch(vec![json!(1), json!(3)]));
        assert_eq!(joined, [step("x", Deed::Delete), patch("b", 2), both]);
    }

    #[test]
    fn two_overlays_are_one_and_what_is_removed_stays_removed() {
        let sizes = json!({"spec": {"worker": {"replicas": 2}, "autoscaling": {"minReplicas": 2}}});
        let recipe = json!({"spec": {"worker": {"resources": {"limits": {"cpu": null}}}}});
        let steps = vec![step("a", Deed::Overlay(sizes)), step("a", Deed::Overlay(recipe))];
        let one = json!({"spec": {
            "worker": {"replicas": 2, "resources": {"limits": {"cpu": null}}}, "autoscaling": {"minReplicas": 2},
        }});
        assert_eq!(joined(steps), [step("a", Deed::Overlay(one))]);
    }
}
