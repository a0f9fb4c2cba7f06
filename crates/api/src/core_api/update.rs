//! Builds typed changes from update and scale requests.

mod groups;
mod images;
mod mask;
mod recipe;

use std::collections::BTreeMap;

use muster_core::change::{Change, ClusterUpdate, ResizeGroup, RestartScope};
use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::limits::LimitsChange;
use muster_core::resize::Resize;
use muster_proto::v1alpha2 as wire;
use muster_proto::wkt::{Duration, FieldMask};
use muster_service::sizes;

use super::{create, limits};
use crate::error::ApiError;

/// The paths of maps in an update mask, which names the whole map or single keys.
const LABELS: &str = "labels";
const ANNOTATIONS: &str = "annotations";

/// The fields that an update replaces as a whole.
const FIELDS: &[&str] = &["timeout", "idle_timeout", "max_lifetime"];

/// The fields that an update changes as a whole or in part.
const PARTS: &[&str] = &[LABELS, ANNOTATIONS, groups::GROUPS, recipe::HEAD, recipe::ENVS];

/// Builds the update of the fields that the mask names.
pub(super) fn update(
    cluster: &Cluster,
    given: &wire::Cluster,
    mask: &FieldMask,
    restart: Option<RestartScope>,
    max_nodes: u32,
) -> Result<ClusterUpdate, ApiError> {
    let mask = &spelled_out(given, mask)?;
    if mask.paths.is_empty() && restart != Some(RestartScope::Workers) {
        return Err(ApiError::invalid(format!(
            "nothing to update: name at least one of {} in update_mask",
            updatable()
        )));
    }
    create::check_marks("label", &given.labels)?;
    create::check_marks("annotation", &given.annotations)?;
    check_changed_keys("label", &mask::below(mask, LABELS), &given.labels, &cluster.labels)?;
    check_changed_keys(
        "annotation",
        &mask::below(mask, ANNOTATIONS),
        &given.annotations,
        &cluster.annotations,
    )?;
    for path in &mask.paths {
        if !(FIELDS.contains(&path.as_str()) || PARTS.iter().any(|whole| is_below(path, whole))) {
            return Err(ApiError::invalid(format!(
                "update_mask has '{path}', which cannot be changed: use {}",
                updatable()
            )));
        }
    }
    let names = |field: &str| mask.paths.iter().any(|path| is_below(path, field));
    let limit = |field: &str, given: Option<Duration>| {
        names(field).then(|| given.map(|given| limits::life(field, given)).transpose()).transpose()
    };
    let limits = LimitsChange {
        idle_timeout: limit("idle_timeout", given.idle_timeout)?,
        max_lifetime: limit("max_lifetime", given.max_lifetime)?,
    };
    Ok(ClusterUpdate {
        labels: mask::map_change(&mask::below(mask, LABELS), &given.labels),
        annotations: mask::map_change(&mask::below(mask, ANNOTATIONS), &given.annotations),
        timeout_seconds: names("timeout")
            .then(|| limits::timeout(given.timeout.unwrap_or_default()))
            .transpose()?,
        groups: names(groups::GROUPS)
            .then(|| groups::changed(cluster, given, mask, max_nodes))
            .transpose()?,
        head: names(recipe::HEAD).then(|| recipe::head_change(cluster, given, mask)).transpose()?,
        env: recipe::env_change(cluster, given, mask)?,
        limits: Some(limits).filter(|limits| *limits != LimitsChange::default()),
        restart,
        ..ClusterUpdate::default()
    })
}

/// Refuses changes of labels or annotations that only Muster writes. Present ones may be given as they are.
fn check_changed_keys(
    what: &str,
    named: &[&str],
    given: &BTreeMap<String, String>,
    present: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    let keys: Vec<&str> =
        if named.contains(&"") { given.keys().map(String::as_str).collect() } else { named.to_vec() };
    create::check_keys(what, keys.into_iter().filter(|key| given.get(*key) != present.get(*key)))
}

/// Reads the scope of running nodes that the update replaces.
pub(super) fn restart(given: &str) -> Result<Option<RestartScope>, ApiError> {
    if given.is_empty() {
        return Ok(None);
    }
    given.parse().map(Some).map_err(|_| {
        let known: Vec<&str> = RestartScope::ALL.iter().map(|scope| scope.as_str()).collect();
        ApiError::invalid(format!("restart is '{given}': use one of {}, or leave it out", known.join(", ")))
    })
}

/// Lists the fields that an update may change, for messages.
fn updatable() -> String {
    FIELDS.iter().chain(PARTS).copied().collect::<Vec<_>>().join(", ")
}

/// The path of the message that contains the head and the groups.
const CLUSTER_PART: &str = "cluster_spec";

/// Returns true if a path is equal to another path, or below it.
fn is_below(path: &str, whole: &str) -> bool {
    path.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Normalizes a mask, and replaces `cluster_spec` by the paths of the head and the groups that the request gives.
fn spelled_out(given: &wire::Cluster, mask: &FieldMask) -> Result<FieldMask, ApiError> {
    let spec = given.cluster_spec.as_ref();
    let head = spec.is_some_and(|spec| spec.head_group_spec.is_some()).then_some(recipe::HEAD);
    let groups = spec.is_some_and(|spec| !spec.worker_group_spec.is_empty()).then_some(groups::GROUPS);
    let mut paths = Vec::new();
    for path in &mask.paths {
        match mask::normalized(path)? {
            path if path == CLUSTER_PART => paths.extend(head.into_iter().chain(groups).map(str::to_owned)),
            path => paths.push(path),
        }
    }
    Ok(FieldMask { paths })
}

fn either<T: Default + PartialEq>(given: T, present: T) -> T {
    if given == T::default() { present } else { given }
}

pub(super) fn known_group<'c>(cluster: &'c Cluster, name: &str) -> Result<&'c WorkerGroup, ApiError> {
    cluster.group(name).ok_or_else(|| {
        let names: Vec<&str> = cluster.groups.iter().map(|group| group.name.as_str()).collect();
        ApiError::invalid(format!("worker group '{name}' not found: use one of {}", names.join(", ")))
    })
}

/// Builds the resize of a scale request; refuses a size outside the present bounds.
pub(super) fn scale(
    cluster: &Cluster,
    group: &str,
    replicas: Option<i32>,
    max_nodes: u32,
) -> Result<ResizeGroup, ApiError> {
    let replicas =
        replicas.ok_or_else(|| ApiError::invalid("replicas is missing: give the number of workers"))?;
    let wanted = u32::try_from(replicas)
        .map_err(|_| ApiError::invalid(format!("replicas is {replicas}: must be 0 or greater")))?;
    let chosen = if group.is_empty() {
        match cluster.groups.as_slice() {
            [only] => only,
            groups => {
                let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
                let message = format!("group_name is missing: use one of {}", names.join(", "));
                return Err(ApiError::invalid(message));
            }
        }
    } else {
        known_group(cluster, group)?
    };
    let group = Some(chosen.name.clone());
    let scale = ResizeGroup { group, resize: Resize::exactly(wanted), candidates: None };
    sizes::after(cluster, &Change::Resize(scale.clone()), max_nodes)?;
    Ok(scale)
}

#[cfg(test)]
mod tests {
    use muster_core::change::MapChange;
    use muster_core::cluster::Framework;
    use muster_core::sample;
    use rstest::rstest;
    use serde_json::json;

    use super::super::convert;
    use super::*;

    fn updated(cluster: &Cluster, given: &wire::Cluster, path: &str) -> Result<ClusterUpdate, ApiError> {
        let mask = FieldMask { paths: vec![path.to_owned()] };
        update(cluster, given, &mask, None, 1000)
    }

    fn of_group(group: wire::WorkerGroupSpec) -> wire::Cluster {
        let spec = wire::ClusterSpec { worker_group_spec: vec![group], ..wire::ClusterSpec::default() };
        wire::Cluster { cluster_spec: Some(spec), ..wire::Cluster::default() }
    }

    fn variable(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_group_keeps_what_an_update_does_not_give() {
        let mut cluster = Cluster { framework: Some(Framework::Ray), ..sample::cluster(2, 0, None) };
        let name = cluster.groups[0].name.clone();
        let present = wire::WorkerGroupSpec {
            group_name: name.clone(),
            replicas: 2,
            image: "image:1".to_owned(),
            environment: variable("A", "old"),
            args: vec!["--x".to_owned()],
            service_account: "robot".to_owned(),
            ..wire::WorkerGroupSpec::default()
        };
        cluster.groups = vec![create::worker_group(&present).unwrap()];
        let given = wire::WorkerGroupSpec {
            group_name: name,
            environment: variable("A", "new"),
            ..wire::WorkerGroupSpec::default()
        };
        let update = updated(&cluster, &of_group(given), "cluster_spec.worker_group_spec").unwrap();
        let after = sizes::after(&cluster, &Change::UpdateCluster(Box::new(update)), 1000).unwrap();
        let pod = json!({"service_account": "robot"});
        let node = json!({"image": "image:1", "env": {"A": "new"}, "args": ["--x"], "pod": pod});
        assert_eq!(after.groups[0].spec["node"], node, "what nodes are made from");
        let shown =
            wire::WorkerGroupSpec { environment: variable("A", "new"), min_replicas: Some(0), ..present };
        assert_eq!(convert::group(&after.groups[0]), shown, "what the API shows");
        let other = wire::WorkerGroupSpec {
            group_name: cluster.groups[0].name.clone(),
            service_account: "another".to_owned(),
            ..wire::WorkerGroupSpec::default()
        };
        let refused = updated(&cluster, &of_group(other), "cluster_spec.worker_group_spec").unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("only shape, image, image_template, environment and args can be changed"),
            "{refused}"
        );
    }

    /// Guards against quadratic work: parsing the mask once per path would take hours.
    #[test]
    fn a_mask_may_name_many_keys() {
        let paths = |map: &str| (0..50_000).map(|key| format!("{map}.{key}")).collect::<Vec<_>>();
        let mask = FieldMask { paths: [paths("labels"), paths("annotations")].concat() };
        let given = wire::Cluster { labels: variable("7", "x"), ..wire::Cluster::default() };
        let update = update(&sample::cluster(1, 0, None), &given, &mask, None, 1000).unwrap();
        let Some(MapChange::Keys { keys }) = update.labels else { panic!("keys: {:?}", update.labels) };
        assert_eq!((keys.len(), keys["7"].as_deref(), keys["8"].as_deref()), (50_000, Some("x"), None));
    }

    #[rstest]
    #[case::whole("labels", "muster.dev/cluster", "other", true)]
    #[case::one("labels.muster.dev/cluster", "muster.dev/cluster", "other", true)]
    #[case::removed("labels.muster.dev/cluster", "team", "a", true)]
    #[case::as_it_is("labels", "muster.dev/cluster", "c", false)]
    #[case::another("labels", "team", "a", false)]
    fn an_update_cannot_change_the_labels_of_muster(
        #[case] path: &str,
        #[case] key: &str,
        #[case] value: &str,
        #[case] is_refused: bool,
    ) {
        let present = variable("muster.dev/cluster", "c");
        let cluster =
            Cluster { labels: present.clone(), annotations: present, ..sample::cluster(1, 0, None) };
        let given = wire::Cluster { labels: variable(key, value), ..wire::Cluster::default() };
        let refused = updated(&cluster, &given, path).map_err(|refused| refused.message);
        assert_eq!(refused.is_err(), is_refused, "{refused:?}");
        let given = wire::Cluster { annotations: variable(key, value), ..wire::Cluster::default() };
        let refused = updated(&cluster, &given, &path.replace("labels", "annotations"))
            .map_err(|refused| refused.message);
        assert_eq!(refused.is_err_and(|why| why.contains("'muster.dev/cluster' is reserved")), is_refused);
    }

    #[rstest]
    #[case::empty("cluster_spec", wire::Cluster::default(), "nothing to update")]
    #[case::unknown(
        "cluster_spec.colour",
        wire::Cluster::default(),
        "update_mask has 'cluster_spec.colour', which cannot be changed"
    )]
    #[case::similar("cluster_spec.head_group_specs", wire::Cluster::default(), "which cannot be changed")]
    #[case::of_a_profile(
        "cluster_spec.worker_group_spec",
        of_group(wire::WorkerGroupSpec { group_name: "default".to_owned(), image: "x".to_owned(), ..wire::WorkerGroupSpec::default() }),
        "are created from their profile"
    )]
    fn an_update_that_would_reach_no_node_is_refused(
        #[case] path: &str,
        #[case] given: wire::Cluster,
        #[case] why: &str,
    ) {
        let refused = updated(&sample::cluster(1, 0, None), &given, path).unwrap_err();
        assert!(refused.message.contains(why), "{refused}");
    }

    #[rstest]
    #[case("A=B", "", "", "environment variable is \"A=B\": must be a name")]
    #[case("A", "\0", "", "environment variable is \"A\": must be a name")]
    #[case("A", "b", "a\nb", "image \"a\\nb\" has control characters")]
    fn an_update_refuses_what_a_create_refuses(
        #[case] name: &str,
        #[case] value: &str,
        #[case] image: &str,
        #[case] expected: &str,
    ) {
        let cluster = Cluster { framework: Some(Framework::Ray), ..sample::cluster(1, 0, None) };
        let group = wire::WorkerGroupSpec {
            group_name: cluster.groups[0].name.clone(),
            image: image.to_owned(),
            environment: variable(name, value),
            ..wire::WorkerGroupSpec::default()
        };
        let refusal = updated(&cluster, &of_group(group), "cluster_spec.worker_group_spec").unwrap_err();
        assert!(refusal.message.contains(expected), "{refusal}");
        if image.is_empty() {
            let given = wire::Cluster { envs: variable(name, value), ..wire::Cluster::default() };
            let refusal = updated(&cluster, &given, "envs").unwrap_err();
            assert!(refusal.message.contains(expected), "{refusal}");
        }
    }
}
