//! Builds a new cluster from a request.

use std::collections::{BTreeMap, HashSet};

use muster_core::cluster::{Cluster, DEFAULT_GROUP, DEFAULT_TIMEOUT, Framework, WorkerGroup};
use muster_core::dns_label::{LONGEST_DNS_LABEL, is_dns_label};
use muster_core::ids::{ClusterId, LOCAL_PROVIDER, ProfileId};
use muster_core::own_keys::{APP_LABELS, OWN_DOMAIN, is_own_key};
use muster_core::principal::Principal;
use muster_core::profile::{InvalidProfileType, Profile, ProfileType};
use muster_core::recipe::ClusterRecipe;
use muster_core::resize::Sizes;
use muster_core::shape::Shape;
use muster_core::time::TimeSpan;
use muster_proto::v1alpha2 as wire;
use muster_service::new_id;
use muster_service::placement::{cluster_type, framework_of};
use serde_json::{Map, Value};

use super::convert::{CLUSTER_SPEC, GROUP_SPEC};
use super::find::{optional, optional_variant};
use super::{CoreApi, limits, machines, recipe, shapes, sizes};
use crate::error::ApiError;

/// The longest cluster name: Kubernetes operators append suffixes to it.
const LONGEST_NAME: usize = 53;

/// The longest key of a label or annotation: a DNS subdomain, a slash and a name.
const LONGEST_KEY: usize = 317;

/// The largest size of all labels or of all annotations, equal to the limit of Kubernetes for annotations.
const LARGEST_MARKS: usize = 256 << 10;

/// The most worker groups of a cluster.
const MOST_GROUPS: usize = 100;

/// A new cluster and its profile.
pub(super) struct New {
    pub(super) cluster: Cluster,
    pub(super) profile: Profile,
}

/// Returns the namespace of a cluster, from the path or the body; two different namespaces are refused.
pub(super) fn namespace(path: &str, body: &str) -> Result<String, ApiError> {
    let chosen = match (path, body) {
        ("", "") => return Err(ApiError::invalid("Namespace is empty. Please specify a valid value.")),
        ("", body) => body,
        (path, "") => path,
        (path, body) if path == body => path,
        (path, body) => {
            return Err(ApiError::invalid(format!(
                "the namespace of the request is '{path}' and that of its object '{body}': leave one out"
            )));
        }
    };
    check_label("namespace", chosen)?;
    Ok(chosen.to_owned())
}

/// Refuses control characters in texts that are stored as given, since lists and logs cannot show them.
pub(super) fn plain<'t>(what: &str, texts: impl IntoIterator<Item = &'t String>) -> Result<(), ApiError> {
    match texts.into_iter().find(|text| text.chars().any(char::is_control)) {
        Some(text) => Err(ApiError::invalid(format!("{what} {text:?} has control characters: remove them"))),
        None => Ok(()),
    }
}

/// Refuses labels or annotations that cannot be shown, or that exceed the limits of Kubernetes.
pub(super) fn check_marks(what: &str, marks: &BTreeMap<String, String>) -> Result<(), ApiError> {
    plain(what, marks.iter().flat_map(|(key, value)| [key, value]))?;
    if let Some(key) = marks.keys().find(|key| key.len() > LONGEST_KEY) {
        let begin: String = key.chars().take(40).collect();
        return Err(ApiError::invalid(format!(
            "the key of {what} '{begin}…' is longer than {LONGEST_KEY} bytes: give a shorter one"
        )));
    }
    let size: usize = marks.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > LARGEST_MARKS {
        return Err(ApiError::invalid(format!(
            "all {what}s together have {size} bytes: must have at most {LARGEST_MARKS}"
        )));
    }
    Ok(())
}

/// Refuses labels or annotations that only Muster writes: Muster would take them for its own.
pub(super) fn check_keys<'k>(what: &str, keys: impl IntoIterator<Item = &'k str>) -> Result<(), ApiError> {
    // A cluster with such a label would be deleted with the app that the label names.
    let is_of_app = |key: &str| what == "label" && APP_LABELS.contains(&key);
    match keys.into_iter().find(|key| is_own_key(key) || is_of_app(key)) {
        Some(key) if is_of_app(key) => Err(ApiError::invalid(format!(
            "label '{key}' is reserved for clusters of apps: use another key, or `app` and `ephemeral`"
        ))),
        Some(key) => Err(ApiError::invalid(format!(
            "{what} '{key}' is reserved, because only Muster writes keys of {OWN_DOMAIN}: use another key"
        ))),
        None => Ok(()),
    }
}

/// Refuses a cluster name that is not a DNS-1035 label, which Kubernetes demands of the names of Services.
pub(super) fn check_name(given: &str) -> Result<(), ApiError> {
    if given.starts_with(|first: char| first.is_ascii_lowercase())
        && is_dns_label(given)
        && given.len() <= LONGEST_NAME
    {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "cluster name is '{given}': must have lowercase letters, digits and hyphens, begin with a letter, not end with \
         a hyphen, and have at most {LONGEST_NAME} characters"
    )))
}

/// Refuses a name that is not a DNS-1123 label, as the names of namespaces.
fn check_label(what: &str, given: &str) -> Result<(), ApiError> {
    if is_dns_label(given) {
        return Ok(());
    }
    Err(ApiError::invalid(format!(
        "{what} is '{given}': must have lowercase letters, digits and hyphens, begin and end with a letter or digit, \
         and have at most {LONGEST_DNS_LABEL} characters"
    )))
}

impl CoreApi {
    /// Validates a request, and builds the cluster and its profile from it, without storing them.
    pub(super) fn new_cluster(
        &self,
        principal: &Principal,
        namespace: String,
        given: wire::Cluster,
    ) -> Result<New, ApiError> {
        if given.name.is_empty() {
            return Err(ApiError::invalid("Cluster name is empty. Please specify a valid value."));
        }
        check_name(&given.name)?;
        plain("user", [&given.user])?;
        check_marks("label", &given.labels)?;
        plain("version", [&given.version])?;
        recipe::check_variables(&given.envs)?;
        if let Some(head) = given.cluster_spec.as_ref().and_then(|spec| spec.head_group_spec.as_ref()) {
            recipe::check_node(&head.image, &head.environment)?;
        }
        check_marks("annotation", &given.annotations)?;
        check_keys("label", given.labels.keys().map(String::as_str))?;
        check_keys("annotation", given.annotations.keys().map(String::as_str))?;
        let (kind, framework) = profile_type(&given)?;
        recipe::check_start_parameters(given.cluster_spec.as_ref(), framework)?;
        recipe::check_image_templates(given.cluster_spec.as_ref(), framework)?;
        let instance = self.service.instance_for(&given.provider, &kind)?;
        machines::check_guests(&given, framework, &instance)?;
        let project = self.service.project_of(&namespace)?.to_owned();
        let properties = given.profile_properties.clone().map(Map::from).unwrap_or_default();
        let properties = recipe::properties(&given, properties, framework)?;
        self.service.check_recipe_namespace(principal, &properties)?;
        let groups = groups(given.cluster_spec.as_ref())?;
        if framework.is_some() && instance.provider() == LOCAL_PROVIDER {
            let recipe = ClusterRecipe::from_stored(&properties).map_err(ApiError::invalid)?;
            recipe::check_local(&recipe, &groups)?;
        }
        let now = self.service.now();
        let recipe = ProfileId::from_uuid(new_id());
        let profile = Profile {
            properties,
            ..Profile::implicit(recipe, &given.name, kind, &project, &principal.id, now)
        };
        let id = ClusterId::from_uuid(new_id());
        let new = Cluster::new(id, &given.name, project, instance, &profile, now);
        let cluster = Cluster {
            namespace,
            owner: principal.as_owner(),
            user: if given.user.is_empty() { principal.id.clone() } else { given.user.clone() },
            framework,
            flavor: optional(&given.flavor),
            groups,
            timeout: timeout(&given)?,
            limits: recipe::limits(&given, &profile.properties, framework)?,
            labels: given.labels.clone(),
            annotations: given.annotations.clone(),
            spec: kept(CLUSTER_SPEC, &without_rows(given)),
            ..new
        };
        Ok(New { cluster, profile })
    }
}

/// Returns the profile type that the request names or that its framework implies, with the framework of the type.
pub(super) fn profile_type(given: &wire::Cluster) -> Result<(ProfileType, Option<Framework>), ApiError> {
    let framework = optional_variant("framework", &given.framework)?;
    if given.profile.is_empty() {
        let framework = framework.unwrap_or(Framework::Ray);
        return Ok((cluster_type(framework), Some(framework)));
    }
    let kind: ProfileType = given.profile.parse().map_err(|error: InvalidProfileType| {
        ApiError::invalid(format!("profile: {error}, or the id or name of a stored profile"))
    })?;
    let of_kind = framework_of(&kind);
    match framework {
        Some(framework) if of_kind != Some(framework) => Err(ApiError::invalid(format!(
            "framework is '{framework}', and profile '{kind}' is not a type of that framework: leave one of them out"
        ))),
        _ => Ok((kind, of_kind)),
    }
}

/// Returns the timeout of the cluster's actions.
fn timeout(given: &wire::Cluster) -> Result<TimeSpan, ApiError> {
    given.timeout.map_or(Ok(DEFAULT_TIMEOUT), |given| limits::timeout(given).map(TimeSpan::from_secs))
}

/// Refuses more worker groups than a cluster can have, before any of them is read.
pub(super) fn check_group_count(given: &[wire::WorkerGroupSpec]) -> Result<(), ApiError> {
    let count = given.len();
    if count > MOST_GROUPS {
        return Err(ApiError::invalid(format!(
            "{count} worker groups are given: must be at most {MOST_GROUPS}"
        )));
    }
    Ok(())
}

fn groups(spec: Option<&wire::ClusterSpec>) -> Result<Vec<WorkerGroup>, ApiError> {
    let given = spec.map(|spec| spec.worker_group_spec.as_slice()).unwrap_or_default();
    if given.is_empty() {
        return Ok(vec![WorkerGroup {
            name: DEFAULT_GROUP.to_owned(),
            desired: 0,
            min: 0,
            max: None,
            shape: Shape::default(),
            spec: Map::new(),
        }]);
    }
    check_group_count(given)?;
    let mut names = HashSet::new();
    if let Some(double) = given.iter().find(|group| !names.insert(&group.group_name)) {
        return Err(ApiError::invalid(format!(
            "two worker groups are named '{}': give each a name of its own",
            double.group_name
        )));
    }
    given.iter().map(worker_group).collect()
}

/// Validates one group: its name, sizes, shape and node settings.
pub(super) fn worker_group(given: &wire::WorkerGroupSpec) -> Result<WorkerGroup, ApiError> {
    let name = &given.group_name;
    check_label("group_name", name)?;
    recipe::check_node(&given.image, &given.environment)?;
    let Sizes { size: desired, min, max } = sizes::of_new_group(given)?;
    let shape = shapes::read(given.shape.as_ref())
        .map_err(|why| ApiError::invalid(format!("shape of group '{name}': {why}")))?;
    let rest = wire::WorkerGroupSpec {
        group_name: String::new(),
        replicas: 0,
        min_replicas: None,
        max_replicas: None,
        shape: None,
        // These fields are stored in the recipe.
        image: String::new(),
        image_template: String::new(),
        environment: BTreeMap::new(),
        args: Vec::new(),
        ..given.clone()
    };
    let spec = kept(GROUP_SPEC, &rest).into_iter().chain(recipe::workers(given)?.into_spec()).collect();
    Ok(WorkerGroup { name: name.clone(), desired, min, max, shape, spec })
}

/// Returns the part of a request that is stored as JSON under a key, because the row has no columns for it.
fn kept<T: serde::Serialize + Default + PartialEq>(key: &str, given: &T) -> Map<String, Value> {
    if *given == T::default() {
        return Map::new();
    }
    serde_json::to_value(given).map(|value| Map::from_iter([(key.to_owned(), value)])).unwrap_or_default()
}

fn without_rows(given: wire::Cluster) -> wire::Cluster {
    wire::Cluster {
        version: given.version,
        environment: given.environment,
        cluster_spec: given
            .cluster_spec
            .map(|spec| wire::ClusterSpec { worker_group_spec: Vec::new(), ..spec })
            .filter(|spec| *spec != wire::ClusterSpec::default()),
        envs: given.envs,
        envs_from: given.envs_from,
        working_dir: given.working_dir,
        profile_properties: given.profile_properties,
        ..wire::Cluster::default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn marks(count: usize, key: usize, value: usize) -> BTreeMap<String, String> {
        (0..count).map(|number| (format!("{number:0>key$}"), "v".repeat(value))).collect()
    }

    #[rstest]
    #[case::plain(marks(2, 317, 100), None)]
    #[case::long_key(marks(1, 318, 1), Some("is longer than 317 bytes"))]
    #[case::too_much(
        marks(3, 10, 90_000),
        Some("all labels together have 270030 bytes: must have at most 262144")
    )]
    #[case::control(BTreeMap::from([("a".to_owned(), "\n".to_owned())]), Some("has control characters"))]
    fn labels_have_bounds(#[case] labels: BTreeMap<String, String>, #[case] refusal: Option<&str>) {
        let checked = check_marks("label", &labels).map_err(|error| error.message);
        match refusal {
            None => assert_eq!(checked, Ok(())),
            Some(refusal) => assert!(checked.as_ref().is_err_and(|why| why.contains(refusal)), "{checked:?}"),
        }
    }

    #[rstest]
    #[case("muster.dev/cluster", true)]
    #[case("machines.muster.dev/queue", true)]
    #[case("muster.dev", false)]
    #[case("mymuster.dev/cluster", false)]
    #[case("muster.dev.example.org/cluster", false)]
    #[case("team", false)]
    fn keys_of_muster_are_refused(#[case] key: &str, #[case] is_refused: bool) {
        let checked = check_keys("label", [key]).map_err(|refused| refused.message);
        let expected = format!(
            "label '{key}' is reserved, because only Muster writes keys of muster.dev: use another key"
        );
        assert_eq!(checked, if is_refused { Err(expected) } else { Ok(()) });
        let labels = BTreeMap::from([(key.to_owned(), String::new())]);
        let group =
            wire::WorkerGroupSpec { group_name: "g".to_owned(), labels, ..wire::WorkerGroupSpec::default() };
        assert_eq!(worker_group(&group).is_err(), is_refused, "labels of pods");
    }

    #[rstest]
    #[case::letter("team", true)]
    #[case::digit("2024-team", true)]
    #[case::one_digit("7", true)]
    #[case::longest(&"a".repeat(63), true)]
    #[case::too_long(&"a".repeat(64), false)]
    #[case::empty_part("-team", false)]
    #[case::hyphen("team-", false)]
    #[case::capital("Team", false)]
    #[case::dot("my.team", false)]
    fn namespaces_and_groups_are_labels_as_kubernetes_has_them(#[case] name: &str, #[case] valid: bool) {
        assert_eq!(namespace(name, "").is_ok(), valid);
        let group = wire::WorkerGroupSpec { group_name: name.to_owned(), ..wire::WorkerGroupSpec::default() };
        assert_eq!(worker_group(&group).is_ok(), valid);
    }

    #[rstest]
    #[case::letter("fred-2", true)]
    #[case::digit("2024-fred", false)]
    #[case::longest(&"a".repeat(53), true)]
    #[case::too_long(&"a".repeat(54), false)]
    fn a_cluster_name_begins_with_a_letter(#[case] name: &str, #[case] valid: bool) {
        assert_eq!(check_name(name).is_ok(), valid);
    }

    #[test]
    fn worker_groups_are_counted_before_they_are_read() {
        let spec = wire::ClusterSpec {
            worker_group_spec: vec![wire::WorkerGroupSpec::default(); MOST_GROUPS + 1],
            ..wire::ClusterSpec::default()
        };
        let refused = groups(Some(&spec)).unwrap_err().message;
        assert_eq!(refused, "101 worker groups are given: must be at most 100");
    }
}
