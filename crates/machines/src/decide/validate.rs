//! The validation of Machines. The messages of the published operator's webhook are kept to the letter.
//!
//! Rules that the published operator did not have apply only to additions of a request, so that a Machine that it
//! accepted can still be changed.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt;

use crate::amounts::{CPU, MEMORY, parse};
use crate::keys::{self, InvalidName};
use crate::types::{Gpu, Machine, MachineType, NodePoolEntry};

/// The objects that a Machine is validated against.
#[derive(Debug, Clone)]
pub struct ValidationWorld<'a> {
    /// All Machines; the validated one may be among them.
    pub machines: Vec<&'a Machine>,
    /// The names of all nodes.
    pub nodes: BTreeSet<&'a str>,
}

/// The reason why a Machine is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineRefusal {
    /// No group.
    #[error("{} is must be set in .metadata.labels", keys::MACHINE_GROUP)]
    NoGroup,
    /// Another Machine has the group.
    #[error("machineGroup label is duplicate, machineGroup must be set as unique")]
    DuplicateGroup,
    /// The group was changed.
    #[error(
        "label {} was '{before}' and cannot be changed to '{after}': create another Machine",
        keys::MACHINE_GROUP
    )]
    GroupChanged {
        /// The present group.
        before: String,
        /// The group of the request.
        after: String,
    },
    /// A node does not exist.
    #[error("failed to find node {0} in Kubernetes Cluster")]
    UnknownNode(String),
    /// A node is listed twice.
    #[error("node {0} is listed more than once in spec.nodePool")]
    DuplicateNode(String),
    /// A node of another group.
    #[error("node {node} belongs to machine-group {group}: remove it there first")]
    NodeOfAnotherGroup {
        /// The node.
        node: String,
        /// The other group.
        group: String,
    },
    /// Two types of one name.
    #[error("machineType name <{0}> is duplicated")]
    DuplicateType(String),
    /// A node with no type, or with several.
    #[error("{0}; can not set multiple machineType in nodePool.machineType")]
    NotOneType(String),
    /// A node with a type that the Machine does not have.
    #[error("{0} was not found in spec.machineTypes")]
    UnknownType(String),
    /// No resource name for accelerators.
    #[error("gpu.type must be set value")]
    NoGpuType,
    /// Accelerators of another maker.
    #[error("gpu.type is {0}: it must begin with nvidia.com/")]
    ForeignGpu(String),
    /// A negative number of accelerators.
    #[error("gpu.num must be set 0 or more value")]
    NegativeGpu,
    /// A fraction of an accelerator.
    #[error("gpu.num is {0}: it must be a whole number")]
    PartOfGpu(String),
    /// A resource that Kubernetes cannot name, or a label that no node can have.
    #[error(
        "{field} is '{value}': it has letters, digits, '-', '_' and '.', and begins and ends with a letter or digit"
    )]
    MalformedGpu {
        /// The field.
        field: &'static str,
        /// The given value.
        value: String,
    },
    /// No selector of the accelerators' nodes.
    #[error("you must set a value for either gpu.family, gpu.product or gpu.machine")]
    NoGpuSelector,
    /// Several selectors of the accelerators' nodes.
    #[error("only one GPU family, product or machine cane be set")]
    SeveralGpuSelectors,
    /// An amount that is negative or not a quantity.
    #[error("{resource} of machineType {machine_type} is {given}: it must be a quantity of 0 or more")]
    Amount {
        /// The resource.
        resource: &'static str,
        /// The type.
        machine_type: String,
        /// The given value.
        given: String,
    },
    /// A name that cannot be used.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Reservations of another Machine have the name.
    #[error(
        "'{name}', the name of the reservation of {machine_type}, is that of another in machine-group {group}"
    )]
    Collision {
        /// The type.
        machine_type: String,
        /// The name.
        name: String,
        /// The other group.
        group: String,
    },
}

impl MachineRefusal {
    /// Returns true if the refusal rests on other objects, of which a cache may be stale.
    pub fn rests_on_others(&self) -> bool {
        matches!(
            self,
            Self::DuplicateGroup
                | Self::UnknownNode(_)
                | Self::NodeOfAnotherGroup { .. }
                | Self::Collision { .. }
        )
    }
}

/// The prefix of the resources that accelerators are requested by.
const GPU_MAKER: &str = "nvidia.com/";

/// Accepts or refuses a Machine. A Machine that is being deleted is always accepted, so that its finalizers can be
/// removed.
pub fn validate_machine(
    machine: &Machine,
    before: Option<&Machine>,
    world: &ValidationWorld,
) -> Result<(), MachineRefusal> {
    if machine.is_leaving() {
        return Ok(());
    }
    let group = machine.group().ok_or(MachineRefusal::NoGroup)?;
    if let Some(old) = before.and_then(Machine::group).filter(|old| *old != group) {
        return Err(MachineRefusal::GroupChanged { before: old.to_owned(), after: group.to_owned() });
    }
    let name = machine.name_any();
    let others: Vec<_> = world.machines.iter().copied().filter(|other| other.name_any() != name).collect();
    if others.iter().any(|other| other.group() == Some(group)) {
        return Err(MachineRefusal::DuplicateGroup);
    }
    check_nodes(machine, before, world)?;
    check_types(machine)?;
    for machine_type in &machine.spec.machine_types {
        machine_type.spec.gpu.as_ref().map_or(Ok(()), check_gpu)?;
    }
    check_additions(machine, before, group, &others)
}

fn is_new_entry(entry: &NodePoolEntry, before: Option<&Machine>) -> bool {
    before.is_none_or(|before| before.spec.node_pool.iter().all(|old| old.name != entry.name))
}

fn check_nodes(
    machine: &Machine,
    before: Option<&Machine>,
    world: &ValidationWorld,
) -> Result<(), MachineRefusal> {
    let mut entries = machine.spec.node_pool.iter();
    let missing =
        |entry: &&NodePoolEntry| is_new_entry(entry, before) && !world.nodes.contains(entry.name.as_str());
    entries.find(missing).map_or(Ok(()), |entry| Err(MachineRefusal::UnknownNode(entry.name.clone())))
}

fn check_types(machine: &Machine) -> Result<(), MachineRefusal> {
    let mut names = BTreeSet::new();
    for machine_type in &machine.spec.machine_types {
        if !names.insert(machine_type.name.as_str()) {
            return Err(MachineRefusal::DuplicateType(machine_type.name.clone()));
        }
    }
    for entry in &machine.spec.node_pool {
        let machine_type =
            entry.single_type().ok_or_else(|| MachineRefusal::NotOneType(entry.name.clone()))?;
        if !names.contains(machine_type) {
            return Err(MachineRefusal::UnknownType(machine_type.to_owned()));
        }
    }
    Ok(())
}

fn check_gpu(gpu: &Gpu) -> Result<(), MachineRefusal> {
    let given = |field: &Option<String>| field.as_ref().is_some_and(|value| !value.is_empty());
    if !given(&gpu.resource) {
        return Err(MachineRefusal::NoGpuType);
    }
    if gpu.num.as_ref().is_some_and(|Quantity(number)| parse("gpu", number).is_none()) {
        return Err(MachineRefusal::NegativeGpu);
    }
    match [&gpu.family, &gpu.product, &gpu.machine].into_iter().filter(|field| given(field)).count() {
        0 => Err(MachineRefusal::NoGpuSelector),
        1 => Ok(()),
        _ => Err(MachineRefusal::SeveralGpuSelectors),
    }
}

/// Checks the rules that the published operator did not have, for additions of the request only.
fn check_additions(
    machine: &Machine,
    before: Option<&Machine>,
    group: &str,
    others: &[&Machine],
) -> Result<(), MachineRefusal> {
    if before.is_none() {
        keys::check_machine_name(&machine.name_any())?;
    }
    let mut listed = BTreeSet::new();
    for entry in &machine.spec.node_pool {
        if !listed.insert(entry.name.as_str()) {
            return Err(MachineRefusal::DuplicateNode(entry.name.clone()));
        }
        let lists = |other: &&&Machine| other.spec.node_pool.iter().any(|theirs| theirs.name == entry.name);
        if is_new_entry(entry, before)
            && let Some(other) = others.iter().find(lists)
        {
            let group = other.group().unwrap_or_default().to_owned();
            return Err(MachineRefusal::NodeOfAnotherGroup { node: entry.name.clone(), group });
        }
    }
    let is_new = |machine_type: &&MachineType| {
        before.and_then(|old| old.machine_type(&machine_type.name)) != Some(machine_type)
    };
    machine
        .spec
        .machine_types
        .iter()
        .filter(is_new)
        .try_for_each(|machine_type| check_type(machine_type, group, others))
}

fn check_type(machine_type: &MachineType, group: &str, others: &[&Machine]) -> Result<(), MachineRefusal> {
    keys::check_type_name(&machine_type.name)?;
    keys::check_joined_name(&machine_type.name, group)?;
    for (resource, Quantity(given)) in [(CPU, &machine_type.spec.cpu), (MEMORY, &machine_type.spec.memory)] {
        if parse(resource, given).is_none() {
            let (machine_type, given) = (machine_type.name.clone(), given.clone());
            return Err(MachineRefusal::Amount { resource, machine_type, given });
        }
    }
    machine_type.spec.gpu.as_ref().map_or(Ok(()), check_new_gpu)?;
    let name = keys::reservation_name(&machine_type.name, group);
    for other in others {
        let theirs = other.group().unwrap_or_default();
        let mut types = other.spec.machine_types.iter();
        if types.any(|other| keys::reservation_name(&other.name, theirs) == name) {
            let (machine_type, group) = (machine_type.name.clone(), theirs.to_owned());
            return Err(MachineRefusal::Collision { machine_type, name, group });
        }
    }
    Ok(())
}

/// Refuses accelerators that a reservation could not request or select.
fn check_new_gpu(gpu: &Gpu) -> Result<(), MachineRefusal> {
    let resource = gpu.resource.as_deref().unwrap_or_default();
    let Some(name) = resource.strip_prefix(GPU_MAKER) else {
        return Err(MachineRefusal::ForeignGpu(resource.to_owned()));
    };
    if !is_label_value(name) {
        return Err(MachineRefusal::MalformedGpu { field: "gpu.type", value: resource.to_owned() });
    }
    if let Some(Quantity(number)) = gpu.num.as_ref().filter(|Quantity(number)| !is_whole(number)) {
        return Err(MachineRefusal::PartOfGpu(number.clone()));
    }
    let selectors =
        [("gpu.family", &gpu.family), ("gpu.product", &gpu.product), ("gpu.machine", &gpu.machine)];
    for (field, value) in selectors {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty() && !is_label_value(value)) {
            return Err(MachineRefusal::MalformedGpu { field, value: value.clone() });
        }
    }
    Ok(())
}

/// Returns true if a quantity is a whole number. A text that is no quantity is refused by [`check_gpu`].
fn is_whole(number: &str) -> bool {
    parse(CPU, number).is_none_or(|thousandths| thousandths % 1000 == 0)
}

/// Returns true if the text is a valid, non-empty label value.
fn is_label_value(value: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let outer = |c: char| c.is_ascii_alphanumeric();
    value.len() <= 63 && value.starts_with(outer) && value.ends_with(outer) && value.chars().all(inner)
}

#[cfg(test)]
mod tests;
