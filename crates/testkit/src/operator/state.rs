//! The objects and members behind the operator. Pure: its state follows from its calls.

use std::collections::HashMap;

use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_core::node::{Node, NodeRole, Observation};
use muster_core::recipe::ClusterRecipe;
use muster_engine::ports::provider::{
    Bounds, FencedCall, MemberId, ObjectSpec, ObjectState, Observed, ObservedGroup, ObservedMember,
    ProviderError,
};

/// The calls of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Create the object.
    Create,
    /// Write the object.
    Update,
    /// Remove data that was needed only until the goal was observed.
    Settle,
    /// Replace the head.
    RestartHead,
    /// Delete the object.
    Delete,
    /// Observe.
    Observe,
}

/// An entry of the log of calls, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorCall {
    /// The call.
    pub verb: Verb,
    /// The fence of the call.
    pub fence: Fence,
    /// True if the call changed anything.
    pub lasting: bool,
}

/// The whole state.
#[derive(Default)]
pub(super) struct OperatorState {
    pub(super) objects: HashMap<ClusterId, OperatorObject>,
    pub(super) calls: Vec<OperatorCall>,
    /// True if the operator is stopped, so that nothing converges.
    pub(super) stopped: bool,
    /// The largest number of workers that are created, whatever the object requests.
    pub(super) silent_limit: Option<u32>,
    /// The limit of an admission rule, which reduces larger numbers to it.
    pub(super) clamp: Option<u32>,
    /// True if deleted objects stay until their finalizers are released.
    pub(super) finalizer: bool,
    made: u64,
}

/// An object with its members.
pub(super) struct OperatorObject {
    pub(super) spec: ObjectSpec,
    pub(super) members: Vec<ObservedMember>,
    pub(super) victims: Vec<String>,
    has_head: bool,
    recipe: u64,
}

impl OperatorState {
    pub(super) fn create(&mut self, cluster: &Cluster, fence: Fence) -> bool {
        if self.objects.contains_key(&cluster.id) {
            return false;
        }
        self.made += 1;
        let groups = cluster.groups.iter().map(|group| ObservedGroup {
            name: group.name.clone(),
            desired: group.desired,
            bounds: Some(Bounds { min: group.min, max: group.max }),
            floor_differs: false,
            autoscaled: false,
            template: None,
        });
        let spec = ObjectSpec {
            identity: format!("object-{}", self.made),
            groups: groups.collect(),
            fence,
            ..ObjectSpec::default()
        };
        let thing = OperatorObject {
            spec,
            members: Vec::new(),
            victims: Vec::new(),
            has_head: cluster.has_head,
            recipe: 1,
        };
        self.objects.insert(cluster.id, thing);
        true
    }

    /// Writes the differences, if the object has the expected content.
    pub(super) fn update(
        &mut self,
        call: FencedCall<'_>,
        before: &Cluster,
        victims: &[Node],
        rolls: bool,
    ) -> Result<bool, ProviderError> {
        let (clamp, thing) = (self.clamp, self.thing(call.cluster.id)?);
        let mut changed = false;
        for group in &call.cluster.groups {
            let Some(was) = before.group(&group.name).filter(|was| *was != group) else { continue };
            let Some(seen) = thing.spec.groups.iter_mut().find(|seen| seen.name == group.name) else {
                continue;
            };
            if seen.desired != was.desired {
                let message = format!("the object holds {} workers, not {}", seen.desired, was.desired);
                return Err(ProviderError::transient("Conflict", message));
            }
            seen.desired = clamp.map_or(group.desired, |clamp| group.desired.min(clamp));
            seen.bounds = Some(Bounds { min: group.min, max: group.max });
            changed = true;
            if was.shape != group.shape || was.spec != group.spec {
                thing.recipe += 1;
                for member in
                    thing.members.iter_mut().filter(|member| member.group.as_ref() == Some(&group.name))
                {
                    member.outdated = true;
                    member.leaving = rolls;
                }
            }
        }
        if before.spec != call.cluster.spec {
            changed = true;
            let recipe = |cluster| ClusterRecipe::of_cluster(cluster, call.profile).unwrap_or_default();
            let (old, new) = (recipe(before), recipe(call.cluster));
            let (head, workers) = (old.head() != new.head(), old.worker != new.worker);
            for member in &mut thing.members {
                let concerned = if member.role == NodeRole::Head { head } else { workers };
                if concerned {
                    member.outdated = true;
                    member.leaving = rolls;
                }
            }
        }
        thing.spec.fence = call.fence;
        thing.victims = victims.iter().map(|node| node.name.clone()).collect();
        Ok(changed)
    }

    pub(super) fn settle(&mut self, id: ClusterId) -> Result<bool, ProviderError> {
        let thing = self.thing(id)?;
        Ok(!std::mem::take(&mut thing.victims).is_empty())
    }

    pub(super) fn replace(&mut self, id: ClusterId, old: &[MemberId]) -> Result<bool, ProviderError> {
        let mut replaced = false;
        for member in self.thing(id)?.members.iter_mut().filter(|member| old.contains(&member.id)) {
            replaced |= !std::mem::replace(&mut member.leaving, true);
        }
        Ok(replaced)
    }

    pub(super) fn delete(&mut self, id: ClusterId) -> bool {
        self.objects.get_mut(&id).is_some_and(|thing| !std::mem::replace(&mut thing.spec.leaving, true))
    }

    fn thing(&mut self, id: ClusterId) -> Result<&mut OperatorObject, ProviderError> {
        self.objects
            .get_mut(&id)
            .ok_or_else(|| ProviderError::permanent("NotFound", "there is no such object"))
    }

    /// Runs one pass of the operator.
    pub(super) fn converge(&mut self) {
        if self.stopped {
            return;
        }
        let (limit, finalizer) = (self.silent_limit, self.finalizer);
        self.objects.retain(|_, thing| !thing.spec.leaving || finalizer);
        let made = &mut self.made;
        for thing in self.objects.values_mut() {
            thing.converge(limit.unwrap_or(u32::MAX), made);
        }
    }

    pub(super) fn observe(&self, id: ClusterId) -> Observed {
        let Some(thing) = self.objects.get(&id) else {
            return Observed { object: ObjectState::Absent, ..Observed::default() };
        };
        Observed {
            members: thing.members.clone(),
            object: ObjectState::Present(thing.spec.clone()),
            endpoints: [("head".to_owned(), format!("tcp://{}", thing.spec.identity))].into(),
            ..Observed::default()
        }
    }
}

impl OperatorObject {
    fn converge(&mut self, limit: u32, made: &mut u64) {
        self.members.retain(|member| !member.leaving);
        if self.spec.leaving {
            return self.members.clear();
        }
        let head = |member: &ObservedMember| member.role == NodeRole::Head;
        if self.has_head && !self.members.iter().any(head) {
            self.members.push(member("head", NodeRole::Head, None, made));
        }
        for group in self.spec.groups.clone() {
            let wanted = usize::try_from(group.desired.min(limit)).unwrap_or(usize::MAX);
            let own = |member: &ObservedMember| member.group.as_ref() == Some(&group.name);
            while self.members.iter().filter(|member| own(member)).count() > wanted {
                // The victims first, and then the first members.
                let victim = |member: &ObservedMember| own(member) && self.victims.contains(&member.name);
                let place =
                    self.members.iter().position(victim).or_else(|| self.members.iter().position(own));
                if let Some(place) = place {
                    self.members.remove(place);
                }
            }
            while self.members.iter().filter(|member| own(member)).count() < wanted {
                self.members.push(member(&group.name, NodeRole::Worker, Some(group.name.clone()), made));
            }
        }
        for member in &mut self.members {
            if matches!(member.observation, Observation::Starting { .. }) && member.reason.is_empty() {
                member.observation = Observation::Running { physical_id: format!("demo/{}", member.name) };
            }
        }
    }
}

fn member(prefix: &str, role: NodeRole, group: Option<String>, made: &mut u64) -> ObservedMember {
    *made += 1;
    let name = format!("{prefix}-{made:04}");
    ObservedMember {
        id: MemberId { identity: format!("uid-{made}"), uid: format!("uid-{made}") },
        name,
        role,
        group,
        observation: Observation::Starting { physical_id: None },
        reason: String::new(),
        leaving: false,
        outdated: false,
        created_at: None,
    }
}
