//! The gRPC service of machines: the slots of machine types, the guests that have one, and the guests that wait.

use std::collections::BTreeMap;

use muster_core::cluster::Framework;
use muster_core::ids::{InstanceId, LOCAL_PROVIDER};
use muster_proto::v1alpha2 as wire;
use muster_proto::v1alpha2::machine_service_server::MachineService;
use muster_proto::v1alpha2::{ListMachineGroupsRequest, ListMachineGroupsResponse};
use muster_service::machines::{GuestRecipe, MachineTypeRef, check_guest_framework};
use muster_service::ports::machines::{Guest, MachineGroup, MachineType};
use tonic::{Request, Response, Status, async_trait};

use super::{CoreApi, access, convert, shapes};
use crate::error::ApiError;

#[async_trait]
impl MachineService for CoreApi {
    async fn list_machine_groups(
        &self,
        request: Request<ListMachineGroupsRequest>,
    ) -> Result<Response<ListMachineGroupsResponse>, Status> {
        let access = access(&request)?;
        let groups = self.service.machine_groups(&access).map_err(ApiError::from)?;
        let machine_groups = groups.into_iter().map(group).collect();
        Ok(Response::new(ListMachineGroupsResponse { machine_groups }))
    }
}

impl CoreApi {
    /// Makes nodes that name a machine type its guests: sets their shape to that of a slot, and labels of their pods.
    pub(super) fn resolve_machines(
        &self,
        namespace: &str,
        cluster: &mut wire::Cluster,
    ) -> Result<(), ApiError> {
        let Some(spec) = &mut cluster.cluster_spec else { return Ok(()) };
        if let Some(head) = &mut spec.head_group_spec {
            let request = MachineTypeRef {
                namespace,
                machine_group: &head.machine_group,
                machine_type: &head.machine_type,
                has_shape: is_given(head.shape.as_ref()),
            };
            if let Some(guest) = self.service.guest_of("head_group_spec", request)? {
                make_guest(guest, &mut head.shape, &mut head.labels);
            }
        }
        for group in &mut spec.worker_group_spec {
            let request = MachineTypeRef {
                namespace,
                machine_group: &group.machine_group,
                machine_type: &group.machine_type,
                has_shape: is_given(group.shape.as_ref()),
            };
            if let Some(guest) = self.service.guest_of(&format!("group '{}'", group.group_name), request)? {
                make_guest(guest, &mut group.shape, &mut group.labels);
            }
        }
        Ok(())
    }
}

fn is_given(shape: Option<&wire::Shape>) -> bool {
    shape.is_some_and(|shape| *shape != wire::Shape::default())
}

fn make_guest(guest: GuestRecipe, shape: &mut Option<wire::Shape>, labels: &mut BTreeMap<String, String>) {
    *shape = Some(shapes::shown(&guest.shape));
    labels.extend(guest.labels);
}

/// Refuses guests on providers without slots, and for frameworks whose operator copies their labels to other pods.
pub(super) fn check_guests(
    cluster: &wire::Cluster,
    framework: Option<Framework>,
    instance: &InstanceId,
) -> Result<(), ApiError> {
    let Some(named) = machine_type_of(cluster) else { return Ok(()) };
    check_provider(cluster, instance.provider())?;
    framework.map_or(Ok(()), |framework| check_guest_framework(named, framework)).map_err(ApiError::from)
}

/// Refuses machine types for local processes.
pub(super) fn check_provider(cluster: &wire::Cluster, provider: &str) -> Result<(), ApiError> {
    match machine_type_of(cluster).filter(|_| provider == LOCAL_PROVIDER) {
        None => Ok(()),
        Some(named) => {
            let what =
                format!("machine_type '{named}': machine types are of Kubernetes, not of this machine");
            Err(ApiError::invalid(what))
        }
    }
}

/// Returns the first machine type that a cluster names.
fn machine_type_of(cluster: &wire::Cluster) -> Option<&str> {
    let spec = cluster.cluster_spec.as_ref()?;
    let head = spec.head_group_spec.iter().map(|head| &head.machine_type);
    let groups = spec.worker_group_spec.iter().map(|group| &group.machine_type);
    head.chain(groups).find(|named| !named.is_empty()).map(String::as_str)
}

/// Refuses to change the machine type of existing nodes.
pub(super) fn check_same_machine(
    whose: &str,
    given: [&String; 2],
    present: [&String; 2],
) -> Result<(), ApiError> {
    const FIELDS: [&str; 2] = ["machine_group", "machine_type"];
    for ((field, given), present) in FIELDS.into_iter().zip(given).zip(present) {
        if !given.is_empty() && given != present {
            let message = format!("{field} of {whose} cannot be changed to '{given}': add a group for it");
            return Err(ApiError::invalid(message));
        }
    }
    Ok(())
}

fn group(MachineGroup { name, machine, types }: MachineGroup) -> wire::MachineGroup {
    wire::MachineGroup { name, machine, types: types.into_iter().map(machine_type).collect() }
}

fn machine_type(shown: MachineType) -> wire::MachineType {
    let MachineType { name, cpu, memory, gpu, gpu_resource: _, maximum, reserved, used, waiting, guests } =
        shown;
    wire::MachineType {
        name,
        cpu,
        memory,
        gpu: gpu.unwrap_or_default(),
        maximum,
        reserved,
        used,
        waiting,
        guests: guests.into_iter().map(guest).collect(),
    }
}

fn guest(Guest { namespace, pod, has_slot, position, since }: Guest) -> wire::Guest {
    let position = position.and_then(|position| i32::try_from(position).ok()).unwrap_or_default();
    wire::Guest { namespace, pod, has_slot, position, since: Some(convert::moment(since)) }
}
