//! Reads the machine groups of Kubernetes, and makes pods guests of a machine type.

use std::collections::BTreeMap;

use muster_core::cluster::Framework;
use muster_core::recipe::NodeRecipe;
use muster_core::shape::Shape;
use muster_engine::ports::machines::{MachineGroup, MachineProvider, MachineType};

use crate::access::Access;
use crate::error::{ErrorKind, ServiceError};
use crate::service::Service;

/// The machine type that a group or head names; empty names count as absent.
#[derive(Debug, Clone, Copy)]
pub struct MachineTypeRef<'a> {
    /// The namespace of the pods.
    pub namespace: &'a str,
    /// The machine group.
    pub machine_group: &'a str,
    /// The machine type.
    pub machine_type: &'a str,
    /// True if a shape is given, too.
    pub has_shape: bool,
}

/// The labels that make the pods of a group guests, with the shape of their slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestRecipe {
    /// The resources of a slot.
    pub shape: Shape,
    /// The labels of the pods.
    pub labels: BTreeMap<String, String>,
}

impl Service {
    /// The labels and the shape that make the pods of a group or head guests of the machine type that it names; none
    /// if it names none.
    pub fn guest_of(
        &self,
        whose: &str,
        request: MachineTypeRef<'_>,
    ) -> Result<Option<GuestRecipe>, ServiceError> {
        let MachineTypeRef { namespace, machine_group, machine_type, has_shape } = request;
        let (group, machine_type) = match (machine_group, machine_type) {
            ("", "") => return Ok(None),
            ("", _) | (_, "") => {
                let message = format!("{whose} has only one of machine_group and machine_type: give both");
                return Err(ServiceError::invalid(message));
            }
            named => named,
        };
        if has_shape {
            let message = format!("{whose} has a machine type and a shape: leave one of them out");
            return Err(ServiceError::invalid(message));
        }
        let machines = self.machines()?;
        let groups = machines.groups().map_err(unknown)?;
        let slot = find_type(&groups, group, machine_type)?;
        let labels = machines
            .guest_labels(namespace, group, machine_type)
            .map_err(|why| ServiceError::impossible(why).code("NoGuests"))?;
        let shape = slot_shape(slot).map_err(|why| {
            ServiceError::impossible(format!("machine type '{group}/{machine_type}': {why}"))
        })?;
        Ok(Some(GuestRecipe { shape, labels }))
    }

    /// The recipe of a node that names a machine type, completed so that the node is a guest; none if it names no
    /// machine type.
    pub(crate) fn guest_recipe(
        &self,
        whose: &str,
        framework: Framework,
        namespace: &str,
        recipe: &NodeRecipe,
    ) -> Result<Option<NodeRecipe>, ServiceError> {
        let request = MachineTypeRef {
            namespace,
            machine_group: recipe.machine_group.as_deref().unwrap_or_default(),
            machine_type: recipe.machine_type.as_deref().unwrap_or_default(),
            has_shape: recipe.shape() != Shape::default(),
        };
        if recipe.machine_group.is_some() && recipe.machine_type.is_some() {
            check_guest_framework(request.machine_type, framework)?;
        }
        let Some(GuestRecipe { shape, labels }) = self.guest_of(whose, request)? else { return Ok(None) };
        let mut guest = recipe.clone().with_shape(shape);
        guest.pod.labels.extend(labels);
        Ok(Some(guest))
    }

    fn machines(&self) -> Result<&dyn MachineProvider, ServiceError> {
        self.machines.as_deref().ok_or_else(|| {
            let message = "this server does not manage machines: start it with --webhook-listen";
            ServiceError::impossible(message).code("NoMachines")
        })
    }

    /// The machine groups. Every caller sees the number of free slots; guests are shown only to callers who may see
    /// their namespace.
    pub fn machine_groups(&self, access: &Access) -> Result<Vec<MachineGroup>, ServiceError> {
        let mut groups = self.machines()?.groups().map_err(unknown)?;
        if let Some(project) = access.scope() {
            let projects = &self.engine.config().projects;
            for machine_type in groups.iter_mut().flat_map(|group| &mut group.types) {
                machine_type.guests.retain(|guest| projects.project_of(&guest.namespace) == Some(project));
            }
        }
        Ok(groups)
    }
}

/// Refuses guests of Dask, whose operator would copy the labels of workers to other pods.
pub fn check_guest_framework(machine_type: &str, framework: Framework) -> Result<(), ServiceError> {
    if framework != Framework::Dask {
        return Ok(());
    }
    Err(ServiceError::invalid(format!(
        "machine_type '{machine_type}': the Dask operator gives the labels of workers to all pods of a cluster, so that \
         its scheduler would take a slot too; give a shape (cpu, memory, gpu) instead"
    )))
}

fn unknown(why: String) -> ServiceError {
    ServiceError::new(ErrorKind::Unavailable, why)
}

fn find_type<'g>(
    groups: &'g [MachineGroup],
    group: &str,
    machine_type: &str,
) -> Result<&'g MachineType, ServiceError> {
    let Some(found) = groups.iter().find(|known| known.name == group) else {
        let names: Vec<&str> = groups.iter().map(|known| known.name.as_str()).collect();
        return Err(not_found(&format!("machine group '{group}' not found"), &names));
    };
    // A type that was removed from its group has no amounts.
    let known = || found.types.iter().filter(|known| !known.cpu.is_empty());
    known().find(|known| known.name == machine_type).ok_or_else(|| {
        let names: Vec<&str> = known().map(|known| known.name.as_str()).collect();
        not_found(&format!("machine type '{machine_type}' not found in group '{group}'"), &names)
    })
}

fn not_found(message: &str, known: &[&str]) -> ServiceError {
    let remedy = if known.is_empty() {
        "create a Machine first".to_owned()
    } else {
        format!("use one of {}", known.join(", "))
    };
    ServiceError::invalid(format!("{message}: {remedy}")).code("NoMachineType")
}

/// The resources of a slot as the shape of a node; the injector gives pods the same amounts.
fn slot_shape(slot: &MachineType) -> Result<Shape, String> {
    let gpu = slot
        .gpu
        .as_deref()
        .map(|number| number.parse().map_err(|_| format!("gpu is '{number}': must be a whole number")));
    let shape = Shape {
        cpu: Some(slot.cpu.parse().map_err(|error| format!("cpu: {error}"))?),
        memory: Some(slot.memory.parse().map_err(|error| format!("memory: {error}"))?),
        gpu: gpu.transpose()?,
        gpu_resource: slot.gpu_resource.clone(),
        ..Shape::default()
    };
    shape.check().map_err(|error| error.to_string())?;
    Ok(shape)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn slot(cpu: &str, gpu: Option<&str>) -> MachineType {
        MachineType {
            name: "medium".to_owned(),
            cpu: cpu.to_owned(),
            memory: "48Gi".to_owned(),
            gpu: gpu.map(str::to_owned),
            gpu_resource: gpu.map(|_| "nvidia.com/mig-1g.5gb".to_owned()),
            maximum: 1,
            reserved: 1,
            used: 0,
            waiting: 0,
            guests: Vec::new(),
        }
    }

    #[test]
    fn a_slot_is_the_shape_of_its_guest() {
        let shape = slot_shape(&slot("6", Some("2"))).expect("a shape");
        let expected = serde_json::json!({"cpu": "6", "memory": "48Gi", "gpu": 2, "gpu_resource": "nvidia.com/mig-1g.5gb"});
        assert_eq!(serde_json::to_value(shape).expect("JSON"), expected);
    }

    #[rstest]
    #[case::no_whole_accelerator("6", Some("500m"), "gpu is '500m': must be a whole number")]
    #[case::no_amount("many", None, "cpu: ")]
    fn a_slot_that_is_no_shape_is_refused(#[case] cpu: &str, #[case] gpu: Option<&str>, #[case] why: &str) {
        let refusal = slot_shape(&slot(cpu, gpu)).expect_err("it is refused");
        assert!(refusal.contains(why), "{refusal}");
    }
}
