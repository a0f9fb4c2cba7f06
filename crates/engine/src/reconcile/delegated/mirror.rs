//! Computes the rows of a delegated cluster after an observation. Pure: without I/O.

use std::collections::{HashMap, HashSet};

use muster_core::action::Fence;
use muster_core::cluster::{Cluster, WorkerGroup, WorkerTemplate};
use muster_core::ids::NodeId;
use muster_core::node::{Node, NodeRole, NodeStatus, Observation};
use muster_core::recipe::NodeRecipe;
use muster_core::shape::Shape;
use muster_core::status::WorkingCounts;
use muster_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::intent::naming;
use crate::ports::provider::external_event::in_order;
use crate::ports::provider::{
    Bounds, ExternalEvent, MemberId, ObjectSpec, Observed, ObservedGroup, ObservedMember,
};
use crate::reconcile::reasons::BEING_DELETED;

/// The rows after an observation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MirroredRows {
    /// The cluster's row.
    pub(crate) cluster: Cluster,
    /// Members that were observed for the first time.
    pub(crate) new: Vec<Node>,
    /// Nodes whose rows change.
    pub(crate) changed: Vec<Node>,
    /// Nodes whose rows are removed.
    pub(crate) gone: Vec<NodeId>,
    /// Events to record.
    pub(crate) events: Vec<ObservationEvent>,
    /// The object as APIs show it, if its content changed.
    pub(crate) object: Option<Value>,
}

/// An event that follows from an observation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ObservationEvent {
    /// The cluster's intent was changed elsewhere.
    ChangedElsewhere(String),
    /// A member stopped working unexpectedly.
    Lost(Box<Node>),
    /// An external event about an object, and the node that the object represents.
    External(ExternalEvent, Option<Box<Node>>),
}

impl MirroredRows {
    /// Returns true if no row changes.
    pub(crate) fn is_same_as(&self, cluster: &Cluster) -> bool {
        self.new.is_empty() && self.changed.is_empty() && self.gone.is_empty() && self.cluster == *cluster
    }

    /// Returns all nodes after the observation.
    fn nodes<'n>(&'n self, before: &'n [Node]) -> Vec<&'n Node> {
        let changed: HashMap<NodeId, &Node> = self.changed.iter().map(|node| (node.id, node)).collect();
        let gone: HashSet<NodeId> = self.gone.iter().copied().collect();
        let present = before.iter().filter(|node| !gone.contains(&node.id));
        let present = present.map(|node| *changed.get(&node.id).unwrap_or(&node));
        present.chain(&self.new).collect()
    }

    /// Returns the names of the members that were created from an older recipe.
    fn outdated_names(&self, before: &[Node]) -> Vec<String> {
        let nodes = self.nodes(before).into_iter();
        nodes.filter(|node| node.is_outdated()).map(|node| node.name.clone()).collect()
    }

    /// Counts the working workers, and determines the state of the head.
    pub(crate) fn counts(&self, before: &[Node]) -> WorkingCounts {
        WorkingCounts::of(&self.cluster, self.nodes(before))
    }
}

/// Mirrors an observation. `called` is the fence of the first write of the action that observes, if it has called one:
/// that action records the recipe of its write itself. The loss of `expected` nodes needs no event.
pub(crate) fn mirror(
    cluster: &Cluster,
    nodes: &[Node],
    observed: &Observed,
    spec: Option<&ObjectSpec>,
    (called, expected): (Option<Fence>, impl Fn(&Node) -> bool),
    now: Timestamp,
) -> MirroredRows {
    let mut mirror = MirroredRows {
        cluster: cluster.clone(),
        new: Vec::new(),
        changed: Vec::new(),
        gone: Vec::new(),
        events: Vec::new(),
        object: None,
    };
    if let Some(spec) = spec {
        mirror.copy_spec(spec, called);
        mirror.copy_content(spec);
    }
    mirror.head(nodes, &observed.members, now);
    mirror.workers(nodes, &observed.members, now);
    mirror.drop_placeholders(nodes);
    mirror.collect_losses(nodes, expected);
    mirror.import_events(nodes, &observed.external_events, now);
    mirror.counts(nodes).write_to(&mut mirror.cluster);
    mirror.cluster.observed.outdated = mirror.outdated_names(nodes);
    mirror.cluster.observed.endpoints.clone_from(&observed.endpoints);
    if !mirror.is_same_as(cluster) {
        mirror.cluster.observed.at = Some(now);
    }
    mirror
}

impl MirroredRows {
    /// Copies sizes and bounds from the spec of record, regardless of their author, and what is observed of the recipe.
    fn copy_spec(&mut self, spec: &ObjectSpec, called: Option<Fence>) {
        let known = &mut self.cluster.observed;
        // A higher fence than the recorded one: the engine died after its write, or the action was cancelled.
        let ours = spec.fence > known.fence;
        // The row has no recipe of a write that arrived after its action had ended.
        let is_recorded_later = ours && called.is_some_and(|called| spec.fence >= called);
        known.object = Some(spec.identity.clone());
        known.fence = spec.fence;
        known.object_generation = spec.generation;
        let autoscaled = spec.groups.iter().filter(|group| group.autoscaled);
        known.autoscaled = autoscaled.map(|group| group.name.clone()).collect();
        if spec.unfinished {
            // An incomplete object does not define sizes: its creation was interrupted, or parts of it were deleted.
            return;
        }
        let mut differences = Vec::new();
        let mut groups = Vec::with_capacity(spec.groups.len());
        let template = spec
            .groups
            .iter()
            .filter_map(|observed| Some((observed.name.clone(), observed.template.clone()?)));
        let templates_before = std::mem::replace(&mut known.templates, template.collect());
        for observed in &spec.groups {
            let present = self.cluster.group(&observed.name).cloned();
            if present.is_none() {
                differences.push(format!("group '{}' was added", observed.name));
            }
            let mut group = present.unwrap_or_else(|| unknown_group(&observed.name));
            copy_sizes(&mut group, observed, &mut differences);
            if let (Some(before), Some(template), false) =
                (templates_before.get(&observed.name), &observed.template, is_recorded_later)
            {
                copy_template(&mut group, before, template, &mut differences);
            }
            groups.push(group);
        }
        let left =
            self.cluster.groups.iter().filter(|group| spec.groups.iter().all(|s| s.name != group.name));
        differences.extend(left.map(|group| format!("group '{}' was removed", group.name)));
        if differences.is_empty() {
            return;
        }
        self.cluster.groups = groups;
        self.cluster.generation += 1;
        if !ours {
            self.events.push(ObservationEvent::ChangedElsewhere(differences.join("; ")));
        }
    }

    /// Copies what APIs show of the object. The labels, annotations, owner and user of an external cluster are those of
    /// its object; those of a managed one are what its users gave.
    fn copy_content(&mut self, spec: &ObjectSpec) {
        let known = &mut self.cluster.observed;
        known.reported_state.clone_from(&spec.reported_state);
        known.ports.clone_from(&spec.ports);
        let Some(content) = &spec.content else { return };
        known.object_content.clone_from(&content.digest);
        self.object.clone_from(&content.shown);
        // The object takes precedence over the row.
        self.cluster.ephemeral = content.ephemeral.clone().map(Box::new);
        if self.cluster.is_external() {
            self.cluster.labels.clone_from(&content.labels);
            self.cluster.annotations.clone_from(&content.annotations);
            self.cluster.owner.clone_from(&content.owner);
            self.cluster.user.clone_from(&content.user);
        }
    }

    /// Mirrors the head; its row keeps its id when the operator replaces the head.
    fn head(&mut self, nodes: &[Node], members: &[ObservedMember], now: Timestamp) {
        let heads = || members.iter().filter(|member| member.role == NodeRole::Head && exists(member));
        let row = nodes.iter().find(|node| node.role == NodeRole::Head);
        // While an old head is being removed, the new one may exist already and takes precedence.
        let head = heads().find(|member| !member.leaving).or_else(|| heads().next());
        match (row, head) {
            (Some(row), Some(head)) => {
                let known = MemberId::of(row);
                let mut node = row.clone();
                if known.as_ref() != Some(&head.id) {
                    node.incarnation = self.cluster.incarnation;
                }
                apply_observation(&mut node, head, now);
                self.change(row, node, now);
            }
            (Some(row), None) => {
                let mut node = row.clone();
                if MemberId::of(row).is_some() {
                    MemberId::unbind(&mut node);
                    node.physical_id = None;
                    node.status = NodeStatus::Recovering;
                    "not found".clone_into(&mut node.status_reason);
                }
                self.change(row, node, now);
            }
            (None, Some(head)) if self.cluster.has_head => {
                let mut node = naming::head(&self.cluster, now);
                apply_observation(&mut node, head, now);
                self.new.push(node);
            }
            (None, _) => {}
        }
    }

    fn workers(&mut self, nodes: &[Node], members: &[ObservedMember], now: Timestamp) {
        let mut unmatched: HashMap<&str, &ObservedMember> = members
            .iter()
            .filter(|member| member.role == NodeRole::Worker && exists(member))
            .map(|member| (member.id.identity.as_str(), member))
            .collect();
        let mut placeholders: Vec<&Node> = Vec::new();
        for row in nodes.iter().filter(|node| node.role == NodeRole::Worker) {
            let Some(known) = MemberId::of(row) else {
                placeholders.push(row);
                continue;
            };
            match unmatched.remove(known.identity.as_str()) {
                Some(member) => {
                    let mut node = row.clone();
                    apply_observation(&mut node, member, now);
                    self.change(row, node, now);
                }
                None => self.gone.push(row.id),
            }
        }
        placeholders.sort_by_key(|node| node.index);
        // A member that is already being removed when first observed needs no row.
        let mut fresh: Vec<&ObservedMember> =
            unmatched.into_values().filter(|member| !member.leaving).collect();
        fresh.sort_by(|one, other| one.name.cmp(&other.name));
        for member in fresh {
            match placeholders.iter().position(|node| node.group == member.group) {
                Some(place) => {
                    let row = placeholders.remove(place);
                    let mut node = row.clone();
                    apply_observation(&mut node, member, now);
                    self.change(row, node, now);
                }
                None => self.add_worker(member, now),
            }
        }
    }

    fn add_worker(&mut self, member: &ObservedMember, now: Timestamp) {
        let index = self.cluster.next_index;
        self.cluster.next_index = index.saturating_add(1);
        let group = member.group.as_deref().unwrap_or_default();
        let mut node = naming::worker(&self.cluster, group, index, now);
        node.group.clone_from(&member.group);
        apply_observation(&mut node, member, now);
        self.new.push(node);
    }

    /// Removes placeholders beyond the desired size.
    fn drop_placeholders(&mut self, before: &[Node]) {
        let nodes = self.nodes(before);
        let workers = || nodes.iter().filter(|node| node.role == NodeRole::Worker);
        let mut room: HashMap<Option<&str>, u32> =
            self.cluster.groups.iter().map(|group| (Some(group.name.as_str()), group.desired)).collect();
        for node in workers().filter(|node| stays(node)) {
            if let Some(room) = room.get_mut(&node.group.as_deref()) {
                *room = room.saturating_sub(1);
            }
        }
        let mut placeholders: Vec<&Node> = workers().filter(|node| is_placeholder(node)).copied().collect();
        placeholders.sort_by_key(|node| node.index);
        let surplus = placeholders.into_iter().filter(|node| match room.get_mut(&node.group.as_deref()) {
            Some(room) if *room > 0 => {
                *room -= 1;
                false
            }
            _ => true,
        });
        let surplus: Vec<NodeId> = surplus.map(|node| node.id).collect();
        self.gone.extend(surplus);
    }

    /// Collects losses: missing members beyond the size are surplus, others are lost.
    fn collect_losses(&mut self, before: &[Node], expected: impl Fn(&Node) -> bool) {
        let now: HashMap<NodeId, &Node> =
            self.nodes(before).into_iter().map(|node| (node.id, node)).collect();
        let mut present: HashMap<Option<&str>, usize> = HashMap::new();
        for node in before.iter().filter(|node| stays(node)) {
            *present.entry(node.group.as_deref()).or_default() += 1;
        }
        let mut surplus: HashMap<Option<&str>, usize> = HashMap::new();
        for group in &self.cluster.groups {
            let wanted = usize::try_from(group.desired).unwrap_or(usize::MAX);
            let present = present.get(&Some(group.name.as_str())).copied().unwrap_or(0);
            surplus.insert(Some(group.name.as_str()), present.saturating_sub(wanted));
        }
        let mut lost = Vec::new();
        let worked = |node: &&Node| matches!(node.status, NodeStatus::Active | NodeStatus::Warning);
        for node in before.iter().filter(worked).filter(|node| !expected(node)) {
            let now = now.get(&node.id).copied();
            if now.is_some_and(|now| still_works(node, now)) {
                continue;
            }
            let goes = now.is_none_or(|now| now.status == NodeStatus::Deleting);
            if let Some(surplus) =
                surplus.get_mut(&node.group.as_deref()).filter(|surplus| goes && **surplus > 0)
            {
                *surplus -= 1;
                continue;
            }
            let reason = match now {
                None => "deleted",
                Some(now) if now.status == NodeStatus::Active => "replaced by another pod",
                Some(now) => &now.status_reason,
            };
            lost.push(ObservationEvent::Lost(Box::new(Node {
                status_reason: reason.to_owned(),
                ..node.clone()
            })));
        }
        self.events.extend(lost);
    }

    /// Imports external events that were not recorded before, with the nodes that they are about.
    fn import_events(&mut self, before: &[Node], external: &[ExternalEvent], now: Timestamp) {
        let known = self.cluster.observed.last_external_event;
        let last = external.iter().map(|external| external.version).max().unwrap_or(0);
        if last <= known {
            return;
        }
        self.cluster.observed.last_external_event = last;
        let events: Vec<ObservationEvent> = {
            let about = |external: &ExternalEvent| {
                let named = |node: &&Node| node.name == external.object;
                self.changed.iter().chain(&self.new).find(named).or_else(|| before.iter().find(named))
            };
            let new: Vec<ExternalEvent> =
                external.iter().filter(|external| external.version > known).cloned().collect();
            let import = |external: ExternalEvent| {
                let node = about(&external).cloned().map(Box::new);
                ObservationEvent::External(external, node)
            };
            in_order(new, now).into_iter().map(import).collect()
        };
        self.events.extend(events);
    }

    fn change(&mut self, before: &Node, mut after: Node, now: Timestamp) {
        if after != *before {
            after.updated_at = Some(now);
            self.changed.push(after);
        }
    }
}

/// Returns true if a node represents a worker that was not observed yet.
pub(crate) fn is_placeholder(node: &Node) -> bool {
    node.role == NodeRole::Worker && MemberId::of(node).is_none()
}

/// Returns true if a node represents an existing worker that is not being removed.
pub(crate) fn stays(node: &Node) -> bool {
    node.role == NodeRole::Worker && MemberId::of(node).is_some() && node.status != NodeStatus::Deleting
}

/// Returns true if a node that worked still works, or if a worker is restarting. A recreated head was lost before.
fn still_works(before: &Node, now: &Node) -> bool {
    if now.role == NodeRole::Head {
        return now.status == NodeStatus::Active && MemberId::of(now) == MemberId::of(before);
    }
    !matches!(now.status, NodeStatus::Error | NodeStatus::Deleting)
}

fn exists(member: &ObservedMember) -> bool {
    member.observation != Observation::Absent
}

/// Applies the observation of a member to its node.
fn apply_observation(node: &mut Node, member: &ObservedMember, now: Timestamp) {
    if MemberId::of(node).as_ref() != Some(&member.id) {
        member.id.clone().bind(node);
    }
    node.name.clone_from(&member.name);
    if let Some(at) = member.created_at.filter(|at| node.started_at() != Some(*at)) {
        node.set_started_at(at);
    }
    if member.leaving {
        node.status = NodeStatus::Deleting;
        BEING_DELETED.clone_into(&mut node.status_reason);
        return;
    }
    match &member.observation {
        // Unknown changes nothing, except that a new member is marked as starting.
        Observation::Unknown { .. } | Observation::Absent if node.status == NodeStatus::Init => {
            node.observe(&Observation::Starting { physical_id: None }, &member.reason, now);
        }
        Observation::Absent => {}
        observed => node.observe(observed, &member.reason, now),
    }
}

fn unknown_group(name: &str) -> WorkerGroup {
    WorkerGroup {
        name: name.to_owned(),
        desired: 0,
        min: 0,
        max: None,
        shape: Shape::default(),
        spec: Map::new(),
    }
}

fn copy_sizes(group: &mut WorkerGroup, observed: &ObservedGroup, differences: &mut Vec<String>) {
    let ObservedGroup { name, desired, bounds, floor_differs: _, autoscaled: _, template: _ } = observed;
    if group.desired != *desired {
        differences
            .push(format!("desired size of group '{name}' changed from {} to {desired}", group.desired));
        group.desired = *desired;
    }
    let present = Bounds { min: group.min, max: group.max };
    if let Some(bounds) = bounds.filter(|bounds| *bounds != present) {
        differences.push(format!(
            "bounds of group '{name}' changed from {} to {}",
            describe_bounds(present),
            describe_bounds(bounds)
        ));
        (group.min, group.max) = (bounds.min, bounds.max);
    }
}

/// Copies image and shape where they were changed elsewhere since the last observation.
fn copy_template(
    group: &mut WorkerGroup,
    before: &WorkerTemplate,
    template: &WorkerTemplate,
    differences: &mut Vec<String>,
) {
    let name = group.name.clone();
    if before.image != template.image {
        differences
            .push(format!("image of group '{name}' changed from {} to {}", before.image, template.image));
        let image = Some(template.image.clone());
        NodeRecipe { image, image_template: None, ..NodeRecipe::stored_in(group) }.store_in(group);
    }
    let (now, then) = (amounts(&template.shape), amounts(&before.shape));
    if now != then {
        differences.push(format!("workers of group '{name}' changed from {then} to {now}"));
        let Shape { cpu, memory, gpu, .. } = template.shape;
        NodeRecipe { cpu: None, memory: None, gpu: None, ..NodeRecipe::stored_in(group) }.store_in(group);
        group.shape = Shape { cpu, memory, gpu, ..group.shape.clone() };
    }
}

fn amounts(Shape { cpu, memory, gpu, .. }: &Shape) -> String {
    let amounts = [
        cpu.map(|cpu| format!("cpu {cpu}")),
        memory.map(|memory| format!("memory {memory}")),
        gpu.map(|gpu| format!("gpu {gpu}")),
    ];
    let amounts: Vec<String> = amounts.into_iter().flatten().collect();
    if amounts.is_empty() { "no amounts".to_owned() } else { amounts.join(", ") }
}

fn describe_bounds(bounds: Bounds) -> String {
    let max = bounds.max.map_or_else(|| "no max".to_owned(), |max| format!("max {max}"));
    format!("min {}, {max}", bounds.min)
}

#[cfg(test)]
mod tests;
