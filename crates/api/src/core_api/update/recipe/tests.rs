use std::collections::BTreeMap;

use muster_core::change::Change;
use muster_core::cluster::Framework;
use muster_core::profile::Profile;
use muster_core::recipe::ClusterRecipe;
use muster_core::sample;
use muster_service::sizes;
use rstest::rstest;
use serde_json::{Map, Value, json};

use super::super::update;
use super::*;

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn of_head(head: wire::HeadGroupSpec) -> wire::Cluster {
    let spec = wire::ClusterSpec { head_group_spec: Some(head), ..wire::ClusterSpec::default() };
    wire::Cluster { cluster_spec: Some(spec), ..wire::Cluster::default() }
}

/// A profile that a user created, or an implicit one from a create request.
fn profile(properties: Map<String, Value>, implicit: bool) -> Profile {
    Profile { properties, implicit, ..sample::profile() }
}

/// A cluster and its profile, as a create request stores them.
fn created(given: &wire::Cluster) -> (Cluster, Profile) {
    let own = given.profile_properties.clone().map(Map::from).unwrap_or_default();
    let properties = recipe::properties(given, own, Some(Framework::Ray)).expect("a recipe");
    let mut cluster = Cluster { framework: Some(Framework::Ray), ..sample::cluster(1, 0, None) };
    cluster.spec.insert(CLUSTER_SPEC.to_owned(), json!(given));
    (cluster, profile(properties, true))
}

fn ray() -> (Cluster, Profile) {
    let own = json!({"head": {"env": {"OWN": "1"}}, "worker": {"memory": "1Gi"}});
    let head = wire::HeadGroupSpec {
        image: "ray:1".to_owned(),
        environment: variables(&[("HEAD", "1")]),
        shape: Some(wire::Shape { cpu: "1".to_owned(), memory: "2Gi".to_owned(), ..wire::Shape::default() }),
        service_type: "NodePort".to_owned(),
        ..wire::HeadGroupSpec::default()
    };
    created(&wire::Cluster {
        envs: variables(&[("ALL", "1"), ("BOTH", "1")]),
        profile_properties: own.as_object().cloned().map(Into::into),
        ..of_head(head)
    })
}

fn mask(paths: &[&str]) -> FieldMask {
    FieldMask { paths: paths.iter().map(|path| (*path).to_owned()).collect() }
}

/// A cluster after an update.
fn after(cluster: &Cluster, given: &wire::Cluster, paths: &[&str]) -> Result<Cluster, ApiError> {
    let change = update(cluster, given, &mask(paths), None, 10)?;
    Ok(sizes::after(cluster, &Change::UpdateCluster(Box::new(change)), 10).expect("an update"))
}

/// The recipe after an update, and what the API shows of the cluster then.
fn updated(given: &wire::Cluster, paths: &[&str]) -> Result<(ClusterRecipe, wire::Cluster), ApiError> {
    let (cluster, profile) = ray();
    let cluster = after(&cluster, given, paths)?;
    let made = ClusterRecipe::of_cluster(&cluster, &profile).expect("a recipe");
    Ok((made, convert::cluster(cluster)))
}

#[test]
fn a_head_keeps_what_an_update_does_not_give() {
    let given = of_head(wire::HeadGroupSpec { image: "ray:2".to_owned(), ..wire::HeadGroupSpec::default() });
    let (made, shown) = updated(&given, &[HEAD]).unwrap();
    let (cluster, profile) = ray();
    let before = ClusterRecipe::of_cluster(&cluster, &profile).unwrap();
    assert_eq!(made.worker, before.worker);
    let expected = muster_core::recipe::NodeRecipe { image: Some("ray:2".to_owned()), ..before.head };
    assert_eq!(made.head, expected);
    let head = shown.cluster_spec.unwrap().head_group_spec.unwrap();
    assert_eq!((head.image.as_str(), head.service_type.as_str()), ("ray:2", "NodePort"));
    assert_eq!(head.environment, variables(&[("HEAD", "1")]));
}

#[test]
fn variables_of_all_nodes_are_replaced_as_a_whole_and_others_stay() {
    let given = wire::Cluster { envs: variables(&[("BOTH", "2"), ("NEW", "2")]), ..wire::Cluster::default() };
    let (made, shown) = updated(&given, &[ENVS]).unwrap();
    assert_eq!(made.head.env, variables(&[("OWN", "1"), ("HEAD", "1"), ("BOTH", "2"), ("NEW", "2")]));
    assert_eq!(made.worker.env, variables(&[("BOTH", "2"), ("NEW", "2")]));
    assert_eq!(shown.envs, given.envs);
    assert_eq!(shown.cluster_spec.unwrap().head_group_spec.unwrap().image, "ray:1");
    let (made, _) = updated(&wire::Cluster::default(), &[ENVS]).unwrap();
    assert_eq!((made.worker.env, made.head.env), (variables(&[]), variables(&[("OWN", "1"), ("HEAD", "1")])));
}

#[test]
fn a_field_that_is_named_is_taken_also_if_it_is_empty() {
    let (made, shown) = updated(
        &of_head(wire::HeadGroupSpec::default()),
        &["cluster_spec.head_group_spec.environment", "cluster_spec.head_group_spec.image"],
    )
    .unwrap();
    assert_eq!(made.head.env, variables(&[("OWN", "1"), ("ALL", "1"), ("BOTH", "1")]));
    assert_eq!((made.head.image, made.head.cpu), (None, "1".parse().ok()));
    assert_eq!(shown.cluster_spec.unwrap().head_group_spec.unwrap().environment, variables(&[]));
}

#[rstest]
#[case::whole("cluster_spec.head_group_spec.shape", Some("4"), None)]
#[case::one_amount("cluster_spec.head_group_spec.shape.cpu", Some("4"), Some("2Gi"))]
#[case::by_name("cluster_spec.head_group_spec.shape.name", Some("4"), None)]
fn a_shape_is_replaced_as_a_whole_or_by_amount(
    #[case] path: &str,
    #[case] cpu: Option<&str>,
    #[case] memory: Option<&str>,
) {
    let shape = Some(wire::Shape { cpu: "4".to_owned(), ..wire::Shape::default() });
    let given = of_head(wire::HeadGroupSpec { shape, ..wire::HeadGroupSpec::default() });
    let (made, _) = updated(&given, &[path]).unwrap();
    let parsed = (cpu.and_then(|cpu| cpu.parse().ok()), memory.and_then(|memory| memory.parse().ok()));
    assert_eq!((made.head.cpu, made.head.memory), parsed);
}

#[rstest]
#[case::pod("cluster_spec.head_group_spec", wire::HeadGroupSpec { service_type: "ClusterIP".to_owned(), ..wire::HeadGroupSpec::default() }, "of the pod of head_group_spec only shape, image, image_template, environment and args can be changed")]
#[case::by_name(
    "cluster_spec.head_group_spec.volumes",
    wire::HeadGroupSpec::default(),
    "update_mask has 'cluster_spec.head_group_spec.volumes', which cannot be changed"
)]
#[case::variable("cluster_spec.head_group_spec", wire::HeadGroupSpec { environment: variables(&[("A=B", "")]), ..wire::HeadGroupSpec::default() }, "environment variable is \"A=B\": must be a name without")]
fn what_cannot_be_changed_of_a_head_is_refused(
    #[case] path: &str,
    #[case] head: wire::HeadGroupSpec,
    #[case] why: &str,
) {
    let refused = updated(&of_head(head), &[path]).unwrap_err();
    assert!(refused.message.starts_with(why), "{refused}");
}

#[test]
fn a_cluster_that_another_api_made_keeps_what_its_profile_says() {
    let properties = json!({"image": "all:1", "head": {"env": {"OWN": "1"}}, "worker": {"args": ["--x"]}});
    let profile = profile(properties.as_object().cloned().unwrap(), false);
    let mut cluster = Cluster { framework: Some(Framework::Dask), ..sample::cluster(1, 0, None) };
    for number in ["1", "2"] {
        let given = wire::Cluster { envs: variables(&[("A", number)]), ..wire::Cluster::default() };
        cluster = after(&cluster, &given, &[ENVS]).unwrap();
        let made = ClusterRecipe::of_cluster(&cluster, &profile).unwrap();
        assert_eq!(made.head().env, variables(&[("OWN", "1"), ("A", number)]));
        assert_eq!((made.worker.args.len(), made.head().image.as_deref()), (1, Some("all:1")));
    }
}

#[test]
fn types_whose_nodes_are_made_from_their_profile_alone_are_refused() {
    let (cluster, _) = ray();
    let plain = Cluster { framework: None, ..cluster };
    let refused = after(&plain, &wire::Cluster::default(), &[ENVS]).unwrap_err();
    assert!(refused.message.contains("are created from their profile"), "{refused}");
}

#[test]
fn what_a_profile_says_applies_again_where_an_update_removes_what_came_over_it() {
    let properties = json!({"head": {"image": "own:1", "env": {"A": "profile"}}});
    let profile = profile(properties.as_object().cloned().unwrap(), false);
    let mut cluster = Cluster { framework: Some(Framework::Dask), ..sample::cluster(1, 0, None) };
    let mine = wire::HeadGroupSpec {
        image: "mine:1".to_owned(),
        environment: variables(&[("A", "mine")]),
        ..wire::HeadGroupSpec::default()
    };
    let paths = ["cluster_spec.head_group_spec.image", "cluster_spec.head_group_spec.environment"];
    let steps = [(mine, ("mine:1", "mine")), (wire::HeadGroupSpec::default(), ("own:1", "profile"))];
    for (head, (image, value)) in steps {
        cluster = after(&cluster, &of_head(head), &paths).unwrap();
        let made = ClusterRecipe::of_cluster(&cluster, &profile).unwrap();
        assert_eq!((made.head.image.as_deref(), made.head.env), (Some(image), variables(&[("A", value)])));
    }
}

#[test]
fn what_a_newer_version_shows_is_kept() {
    let (mut cluster, _) = ray();
    cluster.spec[CLUSTER_SPEC]["newer"] = json!(1);
    cluster.spec[CLUSTER_SPEC]["clusterSpec"]["headGroupSpec"]["newer"] = json!(2);
    let head = wire::HeadGroupSpec { image: "ray:2".to_owned(), ..wire::HeadGroupSpec::default() };
    let after = after(&cluster, &of_head(head), &[HEAD]).unwrap();
    let shown = &after.spec[CLUSTER_SPEC];
    let head = &shown["clusterSpec"]["headGroupSpec"];
    assert_eq!((&shown["newer"], &head["newer"], &head["image"]), (&json!(1), &json!(2), &json!("ray:2")));
}
