//! Updates of the recipe of the head, and of the environment variables of all nodes.

use muster_core::change::{MapChange, NodeChange};
use muster_core::cluster::Cluster;
use muster_proto::v1alpha2 as wire;
use muster_proto::wkt::FieldMask;

use super::super::convert::{self, CLUSTER_SPEC};
use super::super::{machines, pods, recipe};
use super::either;
use super::mask::{self, Fields, GivenNode};
use crate::error::ApiError;

/// The path of the head in an update mask.
pub(super) const HEAD: &str = "cluster_spec.head_group_spec";

/// The path of the variables of all nodes.
pub(super) const ENVS: &str = "envs";

/// The fields of the head that can be changed.
const UPDATABLE: &[&str] = &["shape", "image", "image_template", "environment", "args"];

/// Builds the change of the head that the mask names.
pub(super) fn head_change(
    cluster: &Cluster,
    given: &wire::Cluster,
    mask: &FieldMask,
) -> Result<NodeChange, ApiError> {
    check_type(cluster)?;
    let fields = Fields::of(mask, HEAD, UPDATABLE)?;
    let head = |cluster: &wire::Cluster| cluster.cluster_spec.clone().and_then(|spec| spec.head_group_spec);
    let present = head(&convert::kept(&cluster.spec, CLUSTER_SPEC)).unwrap_or_default();
    let given = head(given).unwrap_or_default();
    check_head(&fields, &given, &present)?;
    let wire::HeadGroupSpec { image, environment, args, shape, .. } = &given;
    fields
        .node_change(&GivenNode { image, environment, args, shape: shape.as_ref() })
        .map_err(|why| ApiError::invalid(format!("shape of head_group_spec: {why}")))
}

/// Builds the change of the variables of all nodes; none if the mask names none.
pub(super) fn env_change(
    cluster: &Cluster,
    given: &wire::Cluster,
    mask: &FieldMask,
) -> Result<Option<MapChange>, ApiError> {
    let named = mask::below(mask, ENVS);
    if named.is_empty() {
        return Ok(None);
    }
    check_type(cluster)?;
    recipe::check_variables(&given.envs)?;
    Ok(mask::map_change(&named, &given.envs))
}

/// Refuses changes that would not reach any node: without a framework, nodes are created from their profile only.
pub(super) fn check_type(cluster: &Cluster) -> Result<(), ApiError> {
    match cluster.framework {
        Some(_) => Ok(()),
        None => Err(ApiError::invalid(format!(
            "nodes of type {} are created from their profile: create another profile, and select it through the \
             clustering API",
            cluster.profile_type
        ))),
    }
}

/// Refuses invalid values, and changes of pod settings that cannot be changed.
fn check_head(
    fields: &Fields<'_>,
    given: &wire::HeadGroupSpec,
    present: &wire::HeadGroupSpec,
) -> Result<(), ApiError> {
    if fields.is_whole() && *given == wire::HeadGroupSpec::default() {
        return Err(ApiError::invalid(format!(
            "update_mask has '{HEAD}', but the request does not set it: set at least one of {}",
            UPDATABLE.join(", ")
        )));
    }
    recipe::check_node(&given.image, &given.environment)?;
    if !fields.is_whole() {
        return Ok(());
    }
    recipe::check_same_template("head_group_spec", &given.compute_template, &present.compute_template)?;
    let machine = [&present.machine_group, &present.machine_type];
    machines::check_same_machine("head_group_spec", [&given.machine_group, &given.machine_type], machine)?;
    // The other settings cannot be changed, so given values have to be equal to the present ones.
    let rest = wire::HeadGroupSpec {
        service_type: either(given.service_type.clone(), present.service_type.clone()),
        ray_start_params: either(given.ray_start_params.clone(), present.ray_start_params.clone()),
        volumes: either(given.volumes.clone(), present.volumes.clone()),
        service_account: either(given.service_account.clone(), present.service_account.clone()),
        image_pull_secret: either(given.image_pull_secret.clone(), present.image_pull_secret.clone()),
        annotations: either(given.annotations.clone(), present.annotations.clone()),
        labels: either(given.labels.clone(), present.labels.clone()),
        image_pull_policy: either(given.image_pull_policy.clone(), present.image_pull_policy.clone()),
        security_context: either(given.security_context.clone(), present.security_context.clone()),
        environment_from: either(given.environment_from.clone(), present.environment_from.clone()),
        ..present.clone()
    };
    let adds_ingress = given.enable_ingress && !present.enable_ingress;
    if adds_ingress || pods::of_head(&rest)? != pods::of_head(present)? {
        return Err(ApiError::invalid(
            "of the pod of head_group_spec only shape, image, image_template, environment and args can be changed: for other labels, \
             annotations, volumes, accounts or start parameters create another cluster",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
