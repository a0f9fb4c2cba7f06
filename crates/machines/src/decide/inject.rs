//! The mutation of a guest at its creation: resources, affinity, tolerations, a scheduling gate and the stamp that
//! orders the queue.
//!
//! The injector works on JSON, so that fields of a newer API server survive. It is idempotent, because the API server
//! may call it again for one request.

mod pod;

use json_patch::Patch;
use k8s_openapi::api::core::v1::PodSpec;
use muster_core::time::{TimeSpan, Timestamp};
use serde_json::{Map, Value, json};

use crate::amounts::shown;
use crate::decide::pod_requests::pod_requests;
use crate::keys;
use crate::placement;
use crate::types::{Machine, MachineType, Overflow};

use self::pod::{list, object, text};

/// The largest accepted age of a stamp that the pod already carries. The injector is called again for one request when
/// other webhooks change the pod, so that a recent stamp is kept; an older stamp was copied from another pod and would
/// jump the queue.
const OLDEST_STAMP: TimeSpan = TimeSpan::from_secs(10);

/// The group and the type that a pod asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestRequest {
    /// The group.
    pub group: String,
    /// The type.
    pub machine_type: String,
}

/// The use of a type, by the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TypeLoad {
    /// Guests that have a slot.
    pub holders: usize,
    /// Guests that wait for a slot.
    pub waiting: usize,
}

/// The priority of the guests' class, as the class exists in the cluster: the API server rejects any other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestPriority {
    /// The value.
    pub value: i32,
    /// The preemption policy.
    pub preemption_policy: String,
}

impl Default for GuestPriority {
    /// That of the class that Muster creates.
    fn default() -> Self {
        Self { value: keys::GUEST_PRIORITY, preemption_policy: "PreemptLowerPriority".to_owned() }
    }
}

/// The mutation of an admitted pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Injected {
    /// The changes of the pod.
    pub patch: Patch,
    /// The warnings for the user.
    pub warnings: Vec<String>,
}

/// The reason why a guest is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InjectRefusal {
    /// No Machine has the group.
    #[error("failed to find machine-group {0}")]
    UnknownGroup(String),
    /// The Machine has no such type.
    #[error("machine-group, {group} does not have machine-type, {machine_type}")]
    UnknownType {
        /// The group.
        group: String,
        /// The type.
        machine_type: String,
    },
    /// The type has no slot, or all are taken and the Machine says `overflow: deny`.
    #[error("name: {name}, namespace: {namespace}; there is no {machine_type} left")]
    NoneLeft {
        /// The name of the pod.
        name: String,
        /// The namespace of the pod.
        namespace: String,
        /// The type.
        machine_type: String,
    },
    /// The pod chooses its node.
    #[error("spec.nodeName is '{0}': the scheduler places guests; remove the field")]
    NodeName(String),
    /// The label names a container that does not exist in the pod.
    #[error(
        "label '{label}' names container '{container}', which is not in spec.containers; the pod has {known}"
    )]
    UnknownContainer {
        /// The label.
        label: &'static str,
        /// The name.
        container: String,
        /// The names of the pod's containers.
        known: String,
    },
    /// The pod is malformed, which no API server sends.
    #[error("the pod cannot be read: {0}")]
    Malformed(String),
}

/// The group and the type that a pod requests; `None` if the pod is no guest.
pub fn guest_request(pod: &Value) -> Option<GuestRequest> {
    let label = |key| pod.get("metadata")?.get("labels")?.get(key)?.as_str();
    if label(keys::POD_ROLE) != Some(keys::GUEST) {
        return None;
    }
    Some(GuestRequest {
        group: label(keys::MACHINE_GROUP)?.to_owned(),
        machine_type: label(keys::MACHINE_TYPE)?.to_owned(),
    })
}

/// Mutates a guest at its creation, or refuses the guest. `machine` is the Machine of the group; `load` is that of the
/// type; `priority` is that of the guests' class.
pub fn inject(
    pod: &Value,
    namespace: &str,
    request: &GuestRequest,
    machine: Option<&Machine>,
    load: TypeLoad,
    priority: &GuestPriority,
    now: Timestamp,
) -> Result<Injected, InjectRefusal> {
    let GuestRequest { group, machine_type } = request;
    let machine = machine.ok_or_else(|| InjectRefusal::UnknownGroup(group.clone()))?;
    let wanted = machine.machine_type(machine_type).ok_or_else(|| InjectRefusal::UnknownType {
        group: group.clone(),
        machine_type: machine_type.clone(),
    })?;
    let maximum = usize::try_from(machine.maximum(machine_type)).unwrap_or(0);
    let full =
        machine.spec.overflow == Overflow::Deny && load.holders.saturating_add(load.waiting) >= maximum;
    if maximum == 0 || full {
        return Err(InjectRefusal::NoneLeft {
            name: name_of(pod),
            namespace: namespace.to_owned(),
            machine_type: machine_type.clone(),
        });
    }
    let mut after = pod.clone();
    let root = after.as_object_mut().ok_or_else(|| malformed("it is not an object"))?;
    let container = named_container(root);
    let spec = object(root, "spec")?;
    if let Some(node) = text(spec, "nodeName") {
        return Err(InjectRefusal::NodeName(node.to_owned()));
    }
    set_resources(spec, container, wanted)?;
    require_nodes(spec, group, wanted)?;
    tolerate(spec, group, machine_type)?;
    gate(spec)?;
    set_priority(spec, priority);
    let metadata = object(root, "metadata")?;
    enqueue(object(metadata, "annotations")?, now);
    let warnings = excess(&after, wanted).into_iter().collect();
    Ok(Injected { patch: json_patch::diff(pod, &after), warnings })
}

fn malformed(why: impl Into<String>) -> InjectRefusal {
    InjectRefusal::Malformed(why.into())
}

/// The name of a pod, or the prefix that the API server will generate a name from.
fn name_of(pod: &Value) -> String {
    let metadata = pod.get("metadata").and_then(Value::as_object);
    let name =
        metadata.and_then(|metadata| text(metadata, "name").or_else(|| text(metadata, "generateName")));
    name.unwrap_or_default().to_owned()
}

/// The label that selects the container that gets the resources, and the container's name.
fn named_container(root: &Map<String, Value>) -> Option<(&'static str, String)> {
    let labels = root.get("metadata")?.get("labels")?.as_object()?;
    let mut named = [keys::INJECTING_CONTAINER, keys::INJECT_RESOURCE]
        .into_iter()
        .filter_map(|label| Some((label, text(labels, label)?.to_owned())));
    named.next()
}

/// Sets the type's amounts on the container that the label names, or on the first one. Other resources stay.
fn set_resources(
    spec: &mut Map<String, Value>,
    named: Option<(&'static str, String)>,
    wanted: &MachineType,
) -> Result<(), InjectRefusal> {
    let containers = list(spec, "containers")?;
    let name = |container: &Value| container.get("name").and_then(Value::as_str).map(str::to_owned);
    let target = match named {
        None => containers.first_mut().ok_or_else(|| malformed("spec.containers is empty"))?,
        Some((label, container)) => {
            let known = containers.iter().filter_map(name).collect::<Vec<_>>().join(", ");
            let target = containers.iter_mut().find(|candidate| name(candidate).as_ref() == Some(&container));
            target.ok_or(InjectRefusal::UnknownContainer { label, container, known })?
        }
    };
    let target = target.as_object_mut().ok_or_else(|| malformed("a container is not an object"))?;
    let resources = object(target, "resources")?;
    for list in ["requests", "limits"] {
        let amounts = object(resources, list)?;
        for (resource, amount) in placement::resources(&wanted.spec) {
            amounts.insert(resource, Value::String(amount.0));
        }
    }
    Ok(())
}

/// Adds the type's node requirements to every node selector term of the user: terms are OR-ed, so that a term without
/// the requirements would let the pod run on nodes of others.
fn require_nodes(
    spec: &mut Map<String, Value>,
    group: &str,
    wanted: &MachineType,
) -> Result<(), InjectRefusal> {
    let affinity = object(object(spec, "affinity")?, "nodeAffinity")?;
    let required = object(affinity, "requiredDuringSchedulingIgnoredDuringExecution")?;
    let terms = list(required, "nodeSelectorTerms")?;
    let is_ours = terms.is_empty();
    if is_ours {
        terms.push(json!({}));
    }
    let requirements = placement::requirements(&wanted.name, group, &wanted.spec);
    for term in terms {
        let term = term.as_object_mut().ok_or_else(|| malformed("a nodeSelectorTerm is not an object"))?;
        // In Kubernetes a term without conditions matches no node; with our conditions it would match some.
        let is_empty =
            |field: &str| term.get(field).is_none_or(|value| value.as_array().is_none_or(Vec::is_empty));
        if !is_ours && is_empty("matchExpressions") && is_empty("matchFields") {
            continue;
        }
        let expressions = list(term, "matchExpressions")?;
        for requirement in &requirements {
            push_missing(expressions, json!(requirement));
        }
    }
    Ok(())
}

fn tolerate(spec: &mut Map<String, Value>, group: &str, machine_type: &str) -> Result<(), InjectRefusal> {
    let tolerations = list(spec, "tolerations")?;
    for toleration in placement::tolerations(machine_type, group) {
        push_missing(tolerations, json!(toleration));
    }
    Ok(())
}

fn gate(spec: &mut Map<String, Value>) -> Result<(), InjectRefusal> {
    push_missing(list(spec, "schedulingGates")?, json!({"name": keys::GATE}));
    Ok(())
}

fn push_missing(list: &mut Vec<Value>, wanted: Value) {
    if !list.contains(&wanted) {
        list.push(wanted);
    }
}

/// Sets the guests' priority class on a guest without a class. The API server has filled in the default priority before
/// it calls the injector, and rejects a priority that differs from that of the class: the three fields change together.
fn set_priority(spec: &mut Map<String, Value>, priority: &GuestPriority) {
    if text(spec, "priorityClassName").is_none() {
        spec.insert("priorityClassName".to_owned(), keys::GUEST_PRIORITY_CLASS.into());
        spec.insert("priority".to_owned(), priority.value.into());
        spec.insert("preemptionPolicy".to_owned(), priority.preemption_policy.clone().into());
    }
}

/// Stamps the pod with the time that orders the queue, and removes a booking annotation: pods are copied with their
/// annotations, so that the booking is that of another pod.
fn enqueue(annotations: &mut Map<String, Value>, now: Timestamp) {
    annotations.remove(keys::BOOKED_AT);
    let stamp = text(annotations, keys::QUEUED_AT).and_then(|stamp| stamp.parse().ok());
    let oldest = now.before(OLDEST_STAMP);
    if stamp.map(Timestamp::from_micros).is_none_or(|stamp| stamp < oldest || stamp > now) {
        annotations.insert(keys::QUEUED_AT.to_owned(), now.micros().to_string().into());
    }
}

/// Returns a warning if the pod requests more than a slot has.
fn excess(pod: &Value, wanted: &MachineType) -> Option<String> {
    let spec: PodSpec = serde_json::from_value(pod.get("spec")?.clone()).ok()?;
    let above = pod_requests(&spec).above(&placement::slot_amounts(&wanted.spec));
    if above.is_empty() {
        return None;
    }
    let amounts = above.iter().map(|(resource, amount)| format!("{resource} {}", shown(resource, amount)));
    Some(format!(
        "the pod requests {} more than a slot of {} has, so it may stay pending although its slot is free: \
         lower its requests",
        amounts.collect::<Vec<_>>().join(", "),
        wanted.name
    ))
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
