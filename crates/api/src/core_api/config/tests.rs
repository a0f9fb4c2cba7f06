use muster_core::recipe::Metrics;
use rstest::rstest;
use serde_json::json;

use super::*;

fn cluster(groups: Vec<wire::WorkerGroupSpec>, properties: Value) -> wire::Cluster {
    let Value::Object(properties) = properties else { panic!("an object") };
    wire::Cluster {
        cluster_spec: Some(wire::ClusterSpec { worker_group_spec: groups, ..wire::ClusterSpec::default() }),
        profile_properties: (!properties.is_empty()).then(|| properties.into()),
        ..wire::Cluster::default()
    }
}

fn group(name: &str, replicas: i32) -> wire::WorkerGroupSpec {
    wire::WorkerGroupSpec { group_name: name.to_owned(), replicas, ..wire::WorkerGroupSpec::default() }
}

fn config(framework: Framework) -> ClusterConfig {
    ClusterConfig { framework, workers: 3, image: None, shape: None, spark: SparkRecipe::default() }
}

fn applied(config: ClusterConfig, mut cluster: wire::Cluster) -> wire::Cluster {
    apply(config, &wire::ClusterConfig::default(), &mut cluster).unwrap();
    cluster
}

#[test]
fn a_cluster_without_groups_gets_one_with_the_configured_workers() {
    let completed = applied(config(Framework::Dask), wire::Cluster::default());
    assert_eq!(completed.framework, "dask");
    assert_eq!(groups(&completed), [group("default", 3)]);
    assert_eq!(completed.profile_properties, None);
}

#[rstest]
#[case::absent(None, 0, None)]
#[case::of_the_group(None, 2, Some(2))]
#[case::zero(Some(0), 2, Some(0))]
#[case::more(Some(5), 0, Some(5))]
fn an_explicit_number_of_workers_is_that_of_the_request(
    #[case] workers: Option<i32>,
    #[case] replicas: i32,
    #[case] expected: Option<i64>,
) {
    let given = wire::ClusterConfig { workers, ..wire::ClusterConfig::default() };
    let values = explicit(&given, &cluster(vec![group("default", replicas)], json!({}))).unwrap();
    assert_eq!(values.workers, expected);
}

#[test]
fn several_groups_keep_their_own_sizes() {
    let two = || cluster(vec![group("a", 0), group("b", 2)], json!({}));
    assert_eq!(groups(&applied(config(Framework::Ray), two())), groups(&two()));
    let given = wire::ClusterConfig { workers: Some(1), ..wire::ClusterConfig::default() };
    let refused = apply(config(Framework::Ray), &given, &mut two()).unwrap_err().message;
    assert_eq!(refused, "workers is given with 2 worker groups: give each its replicas instead");
}

#[test]
fn an_image_is_given_to_the_nodes_that_have_none() {
    let own = wire::WorkerGroupSpec { image: "own:1".to_owned(), ..group("a", 1) };
    let built = wire::WorkerGroupSpec { image_template: "mine".to_owned(), ..group("b", 1) };
    let config = || ClusterConfig { image: Some("set:1".to_owned()), ..config(Framework::Ray) };
    let completed = applied(config(), cluster(vec![own, built, group("c", 1)], json!({})));
    let images: Vec<&str> = groups(&completed).iter().map(|group| group.image.as_str()).collect();
    assert_eq!(images, ["own:1", "", "set:1"]);
    let head = completed.cluster_spec.and_then(|spec| spec.head_group_spec).unwrap();
    assert_eq!(head.image, "set:1");
    for properties in [json!({"image": "own:1"}), json!({"worker": {"image_template": "mine"}})] {
        let completed = applied(config(), cluster(vec![group("a", 1)], properties));
        assert_eq!(groups(&completed)[0].image, "");
    }
}

#[test]
fn the_default_image_counts_only_where_no_set_has_one() {
    let given = wire::ClusterConfig { default_image: "python3".to_owned(), ..wire::ClusterConfig::default() };
    let image = |of_set: Option<&str>| {
        let mut cluster = cluster(vec![group("a", 1)], json!({}));
        let config = ClusterConfig { image: of_set.map(str::to_owned), ..config(Framework::Dask) };
        apply(config, &given, &mut cluster).unwrap();
        groups(&cluster)[0].image.clone()
    };
    assert_eq!((image(None).as_str(), image(Some("set:1")).as_str()), ("python3", "set:1"));
}

#[test]
fn a_shape_is_given_to_the_groups_that_have_none() {
    let own = wire::Shape { cpu: "1".to_owned(), ..wire::Shape::default() };
    let given = wire::WorkerGroupSpec { shape: Some(own.clone()), ..group("a", 1) };
    let template = wire::WorkerGroupSpec { compute_template: "t".to_owned(), ..group("b", 1) };
    let shape = Some(ConfiguredShape::Named("small".to_owned()));
    let config = || ClusterConfig { shape: shape.clone(), ..config(Framework::Ray) };
    let completed = applied(config(), cluster(vec![given, template, group("c", 1)], json!({})));
    let shapes: Vec<_> = groups(&completed).iter().map(|group| group.shape.clone()).collect();
    let named = wire::Shape { name: "small".to_owned(), ..wire::Shape::default() };
    assert_eq!(shapes, [Some(own), None, Some(named)]);
    let worker = json!({"worker": {"memory": "1Gi"}});
    assert_eq!(groups(&applied(config(), cluster(vec![group("a", 1)], worker)))[0].shape, None);
}

#[test]
fn what_only_spark_has_is_a_property_of_its_profile() {
    let spark = SparkRecipe { metrics: Some(Metrics::Jolokia), ..SparkRecipe::default() };
    let config = ClusterConfig { spark, ..config(Framework::Spark) };
    let completed = applied(config, cluster(vec![], json!({"version": "4"})));
    let expected = json!({"version": "4", "spark": {"metrics": "jolokia"}});
    assert_eq!(Value::Object(properties(&completed)), expected);
}

#[test]
fn values_of_the_request_go_before_its_properties() {
    let given = wire::ClusterConfig {
        masters: Some(1),
        spark_master_config: "m".to_owned(),
        expose_ui: "F".to_owned(),
        ..wire::ClusterConfig::default()
    };
    let spark =
        json!({"spark": {"master_config": "below", "metrics": "prometheus", "config_name": "forged"}});
    let values = explicit(&given, &cluster(vec![], spark)).unwrap();
    let expected = SparkRecipe {
        config_name: None,
        master_config: Some("m".to_owned()),
        worker_config: None,
        metrics: Some(Metrics::Prometheus),
        expose_ui: Some(false),
    };
    assert_eq!((values.spark, values.masters, values.framework), (expected, Some(1), None));
}

#[rstest]
#[case(wire::ClusterConfig { metrics: "statsd".into(), ..Default::default() }, "", "Value for 'metrics' must be 'true', 'false', 'jolokia', or 'prometheus'")]
#[case(wire::ClusterConfig { expose_ui: "maybe".into(), ..Default::default() }, "", "Value for 'exposeui' must be a boolean")]
#[case(
    wire::ClusterConfig::default(),
    "local.process-1.0",
    "profile is 'local.process-1.0', and stored_config and config are for clusters of a framework: leave them out"
)]
fn bad_values_are_refused(#[case] given: wire::ClusterConfig, #[case] profile: &str, #[case] message: &str) {
    let cluster = wire::Cluster { profile: profile.to_owned(), ..wire::Cluster::default() };
    assert_eq!(explicit(&given, &cluster).unwrap_err().message, message);
}
