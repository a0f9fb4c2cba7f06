//! Updates of worker groups: sizes, bounds and recipes.

use std::collections::HashSet;

use muster_core::change::{Change, ClusterUpdate, GroupChange};
use muster_core::cluster::Cluster;
use muster_proto::v1alpha2 as wire;
use muster_proto::wkt::FieldMask;
use muster_service::sizes;

use super::super::create::check_group_count;
use super::super::machines::check_same_machine;
use super::super::recipe::check_same_template;
use super::super::{convert, pods, sizes as group_sizes};
use super::mask::{Fields, GivenNode};
use super::{either, known_group, recipe};
use crate::error::ApiError;

/// The path of the groups in an update mask.
pub(super) const GROUPS: &str = "cluster_spec.worker_group_spec";

/// The fields of a group that can be changed.
const UPDATABLE: &[&str] =
    &["replicas", "min_replicas", "max_replicas", "shape", "image", "image_template", "environment", "args"];

/// Builds the changes of the groups that a request gives, each limited to the fields that the mask names.
pub(super) fn changed(
    cluster: &Cluster,
    given: &wire::Cluster,
    mask: &FieldMask,
    limit: u32,
) -> Result<Vec<GroupChange>, ApiError> {
    let fields = Fields::of(mask, GROUPS, UPDATABLE)?;
    let given = given.cluster_spec.as_ref().map(|spec| spec.worker_group_spec.as_slice()).unwrap_or_default();
    if given.is_empty() {
        return Err(ApiError::invalid(format!(
            "update_mask has '{GROUPS}', but the request has no worker group: give each group that changes, with its \
             group_name"
        )));
    }
    check_group_count(given)?;
    let mut names = HashSet::new();
    if let Some(double) = given.iter().find(|group| !names.insert(&group.group_name)) {
        let name = &double.group_name;
        return Err(ApiError::invalid(format!("worker group '{name}' is given twice: give it once")));
    }
    let mut changes = Vec::with_capacity(given.len());
    for (place, group) in given.iter().enumerate() {
        let name = &group.group_name;
        let nothing = wire::WorkerGroupSpec { group_name: name.clone(), ..wire::WorkerGroupSpec::default() };
        let own = fields.of_element(mask, GROUPS, place);
        if fields.is_whole() && !own.gives_any(UPDATABLE).unwrap_or(*group != nothing) {
            return Err(ApiError::invalid(format!(
                "worker group '{name}' has no changes: set at least one of {}",
                UPDATABLE.join(", ")
            )));
        }
        changes.push(group_change(cluster, group, &own)?);
    }
    let update = ClusterUpdate { groups: Some(changes.clone()), ..ClusterUpdate::default() };
    sizes::after(cluster, &Change::UpdateCluster(Box::new(update)), limit)?;
    Ok(changes)
}

fn group_change(
    cluster: &Cluster,
    given: &wire::WorkerGroupSpec,
    fields: &Fields<'_>,
) -> Result<GroupChange, ApiError> {
    let stored = known_group(cluster, &given.group_name)?;
    if fields.is_whole() {
        check_pods(given, &convert::group(stored))?;
    }
    let name = &stored.name;
    super::super::recipe::check_node(&given.image, &given.environment)?;
    let wire::WorkerGroupSpec { image, environment, args, shape, .. } = given;
    let node = fields
        .node_change(&GivenNode { image, environment, args, shape: shape.as_ref() })
        .map_err(|why| ApiError::invalid(format!("shape of group '{name}': {why}")))?;
    let count = |field: &str, given: i32| group_sizes::count(field, name, given);
    let bound = |field: &str, given: Option<i32>| given.map(|given| count(field, given)).transpose();
    let change = GroupChange {
        name: name.clone(),
        desired: fields
            .take("replicas", &given.replicas)
            .map(|given| count("replicas", given))
            .transpose()?,
        min: fields
            .take("min_replicas", &given.min_replicas)
            .map(|given| count("min_replicas", given.unwrap_or(0)))
            .transpose()?,
        max: fields
            .take("max_replicas", &given.max_replicas)
            .map(|given| bound("max_replicas", given))
            .transpose()?,
        node,
    };
    let mut after = stored.clone();
    change.apply_recipe(&mut after);
    if after != *stored {
        recipe::check_type(cluster)?;
    }
    Ok(change)
}

/// Refuses changes of pod settings that cannot be changed, where the mask names the whole group.
fn check_pods(given: &wire::WorkerGroupSpec, present: &wire::WorkerGroupSpec) -> Result<(), ApiError> {
    let whose = format!("group '{}'", given.group_name);
    check_same_template(&whose, &given.compute_template, &present.compute_template)?;
    let machine = [&present.machine_group, &present.machine_type];
    check_same_machine(&whose, [&given.machine_group, &given.machine_type], machine)?;
    let merged = wire::WorkerGroupSpec {
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
    if pods::of_workers(&merged)? == pods::of_workers(present)? {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "of the pods of group '{}' only shape, image, image_template, environment and args can be changed: for other labels, \
         annotations, volumes, accounts or start parameters make another cluster",
        present.group_name
    )))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use muster_core::change::{MapChange, NodeChange};
    use muster_core::cluster::{Framework, WorkerGroup};
    use muster_core::recipe::NodeRecipe;
    use muster_core::sample;
    use muster_core::shape::ShapeChange;
    use rstest::rstest;

    use super::super::super::create;
    use super::*;

    fn ray() -> Cluster {
        let group = wire::WorkerGroupSpec {
            group_name: "g".to_owned(),
            replicas: 2,
            max_replicas: Some(3),
            image: "image:1".to_owned(),
            environment: BTreeMap::from([("A".to_owned(), "1".to_owned())]),
            ..wire::WorkerGroupSpec::default()
        };
        let groups = vec![create::worker_group(&group).expect("a group")];
        Cluster { framework: Some(Framework::Ray), groups, ..sample::cluster(2, 0, None) }
    }

    fn updated(group: Option<wire::WorkerGroupSpec>, path: &str) -> Result<WorkerGroup, ApiError> {
        let mask = FieldMask { paths: vec![path.to_owned()] };
        let spec = wire::ClusterSpec {
            worker_group_spec: group.into_iter().collect(),
            ..wire::ClusterSpec::default()
        };
        let given = wire::Cluster { cluster_spec: Some(spec), ..wire::Cluster::default() };
        let update =
            ClusterUpdate { groups: Some(changed(&ray(), &given, &mask, 10)?), ..ClusterUpdate::default() };
        let after = sizes::after(&ray(), &Change::UpdateCluster(Box::new(update)), 10).unwrap();
        Ok(after.groups[0].clone())
    }

    fn named() -> wire::WorkerGroupSpec {
        wire::WorkerGroupSpec { group_name: "g".to_owned(), ..wire::WorkerGroupSpec::default() }
    }

    #[test]
    fn what_is_named_alone_is_cleared_if_nothing_is_given() {
        let group = updated(Some(named()), "cluster_spec.worker_group_spec.environment").unwrap();
        let recipe = NodeRecipe { image: Some("image:1".to_owned()), ..NodeRecipe::default() };
        assert_eq!(NodeRecipe::stored_in(&group), recipe);
        let group = updated(Some(named()), "cluster_spec.worker_group_spec.max_replicas").unwrap();
        assert_eq!((group.desired, group.max), (2, None));
        let group = updated(Some(named()), "cluster_spec.worker_group_spec.replicas").unwrap();
        assert_eq!((group.desired, group.max), (0, Some(3)));
    }

    #[test]
    fn what_is_not_named_is_ignored() {
        let given = wire::WorkerGroupSpec { replicas: 1, max_replicas: Some(5), ..named() };
        let group = updated(Some(given), "cluster_spec.worker_group_spec.max_replicas").unwrap();
        assert_eq!((group.desired, group.max), (2, Some(5)));
    }

    #[test]
    fn what_a_body_gives_counts_also_if_it_is_a_default() {
        let paths = ["", ".0.group_name", ".0.replicas", ".0.environment", ".0.shape.memory"];
        let mask = FieldMask { paths: paths.iter().map(|path| format!("{GROUPS}{path}")).collect() };
        let shape = Some(wire::Shape { memory: "2Gi".to_owned(), ..wire::Shape::default() });
        let group = wire::WorkerGroupSpec { shape, ..named() };
        let spec = wire::ClusterSpec { worker_group_spec: vec![group], ..wire::ClusterSpec::default() };
        let given = wire::Cluster { cluster_spec: Some(spec), ..wire::Cluster::default() };
        let changes = changed(&ray(), &given, &mask, 10).unwrap();
        let node = NodeChange {
            env: Some(MapChange::All(BTreeMap::new())),
            shape: ShapeChange { memory: Some("2Gi".parse().ok()), ..ShapeChange::default() },
            ..NodeChange::default()
        };
        let expected = GroupChange { name: "g".to_owned(), desired: Some(0), node, ..GroupChange::default() };
        assert_eq!(changes, [expected]);
        let only_name = FieldMask { paths: vec![GROUPS.to_owned(), format!("{GROUPS}.0.group_name")] };
        let refused = changed(&ray(), &given, &only_name, 10).unwrap_err();
        assert!(refused.message.contains("has no changes: set at least one of"), "{refused}");
    }

    /// Guards against quadratic work: each group scans the mask, to which a JSON body adds the fields of each group.
    #[test]
    fn the_groups_of_an_update_are_counted_before_they_are_read() {
        let count = 101;
        let elements = (0..count).map(|place| format!("{GROUPS}.{place}.replicas"));
        let mask = FieldMask { paths: std::iter::once(GROUPS.to_owned()).chain(elements).collect() };
        let spec =
            wire::ClusterSpec { worker_group_spec: vec![named(); count], ..wire::ClusterSpec::default() };
        let given = wire::Cluster { cluster_spec: Some(spec), ..wire::Cluster::default() };
        let refused = changed(&ray(), &given, &mask, 10).unwrap_err().message;
        assert_eq!(refused, "101 worker groups are given: must be at most 100", "as of a create");
    }

    #[test]
    fn a_group_that_is_given_twice_is_refused() {
        let spec =
            wire::ClusterSpec { worker_group_spec: vec![named(), named()], ..wire::ClusterSpec::default() };
        let given = wire::Cluster { cluster_spec: Some(spec), ..wire::Cluster::default() };
        let refused = changed(&ray(), &given, &FieldMask { paths: vec![GROUPS.to_owned()] }, 10).unwrap_err();
        assert_eq!(refused.message, "worker group 'g' is given twice: give it once");
    }

    #[rstest]
    #[case::no_group(None, GROUPS, "the request has no worker group")]
    #[case::unknown_field(Some(named()), "cluster_spec.worker_group_spec.colour", "which cannot be changed")]
    #[case::fixed_field(Some(named()), "cluster_spec.worker_group_spec.volumes", "which cannot be changed")]
    fn a_mask_without_effect_is_refused(
        #[case] group: Option<wire::WorkerGroupSpec>,
        #[case] path: &str,
        #[case] why: &str,
    ) {
        let refused = updated(group, path).unwrap_err();
        assert!(refused.message.contains(why), "{refused}");
    }
}
