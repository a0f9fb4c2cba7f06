use std::collections::BTreeMap;

use rstest::rstest;

use super::*;
use crate::recipe::Metrics;

fn set(name: &str, data: &[(&str, &str)]) -> Result<ConfigValues, String> {
    let data: BTreeMap<String, String> =
        data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    ConfigValues::of_set(name, &data).map_err(|error| error.to_string())
}

fn named(name: &str, data: &[(&str, &str)]) -> NamedSet {
    NamedSet { name: name.to_owned(), values: set(name, data).unwrap() }
}

fn refusal(layers: ConfigLayers, framework: Framework) -> String {
    layers.merge(framework).unwrap_err().to_string()
}

#[rstest]
#[case::workers(("workercount", "many"), "'big.workercount', expected integer, got 'many'")]
#[case::fraction(("workercount", "1.5"), "'big.workercount', expected integer, got '1.5'")]
#[case::nothing(("workercount", ""), "'big.workercount', expected integer, got ''")]
#[case::masters(("mastercount", "one"), "'big.mastercount', expected integer, got 'one'")]
#[case::unknown(("colour", "red"), "'big.colour', unrecognized configuration field")]
#[case::capitals(("WorkerCount", "1"), "'big.WorkerCount', unrecognized configuration field")]
#[case::metrics(("metrics", "statsd"), "'big', expected 'jolokia' or 'prometheus', got 'statsd'")]
#[case::expose(("exposeui", "maybe"), "strconv.ParseBool: parsing \"maybe\": invalid syntax")]
#[case::no_expose(("exposeui", ""), "strconv.ParseBool: parsing \"\": invalid syntax")]
#[case::framework(("framework", "hadoop"), "'big.framework', expected ray, dask, spark, got 'hadoop'")]
#[case::shape(
    ("shape", "cpu=2,disk=1"),
    "'big.shape', expected a name or amounts such as cpu=2,memory=4Gi,gpu=1, got 'cpu=2,disk=1': 'disk=1' is not an amount"
)]
fn a_bad_value_of_a_set_is_refused(#[case] pair: (&str, &str), #[case] message: &str) {
    assert_eq!(set("big", &[pair]), Err(format!("invalid cluster configuration, error: {message}")));
}

#[test]
fn keys_and_values_are_read_without_the_line_ends_around_them() {
    let values = set("big", &[("\nworkercount\n", "3\n"), ("sparkimage", "\nmine:1\n")]).unwrap();
    assert_eq!((values.workers, values.spark_image.as_deref()), (Some(3), Some("mine:1")));
    let blank = set("big", &[("workercount", " 3")]);
    assert!(blank.unwrap_err().ends_with("expected integer, got ' 3'"));
}

#[rstest]
#[case("+3", Some(3))]
#[case("0", Some(0))]
#[case::ignored("-1", None)]
#[case::ignored("-7", None)]
fn a_negative_count_of_a_set_counts_as_not_given(#[case] value: &str, #[case] count: Option<i64>) {
    let values = set("big", &[("workercount", value), ("mastercount", value)]).unwrap();
    assert_eq!((values.workers, values.masters), (count, count));
}

#[rstest]
#[case("", None)]
#[case("true", Some(Metrics::On))]
#[case("T", Some(Metrics::On))]
#[case("0", Some(Metrics::Off))]
#[case("False", Some(Metrics::Off))]
#[case("jolokia", Some(Metrics::Jolokia))]
#[case("prometheus", Some(Metrics::Prometheus))]
fn metrics_are_a_boolean_or_the_name_of_an_agent(#[case] value: &str, #[case] metrics: Option<Metrics>) {
    assert_eq!(set("big", &[("metrics", value)]).unwrap().spark.metrics, metrics);
    assert_eq!(metrics_flag(value), Ok(metrics));
}

#[rstest]
#[case("1", Some(true))]
#[case("TRUE", Some(true))]
#[case("f", Some(false))]
#[case("False", Some(false))]
#[case::not_of_go("yes", None)]
#[case::not_of_go("tRUE", None)]
fn booleans_are_spelt_as_in_go(#[case] value: &str, #[case] expected: Option<bool>) {
    assert_eq!(set("big", &[("exposeui", value)]).ok().and_then(|values| values.spark.expose_ui), expected);
    assert_eq!(expose_ui_flag(value).ok().flatten(), expected);
}

#[test]
fn a_bad_explicit_value_is_refused() {
    let expose = expose_ui_flag("maybe").unwrap_err().to_string();
    assert_eq!(expose, "Value for 'exposeui' must be a boolean");
    let metrics = metrics_flag("statsd").unwrap_err().to_string();
    assert_eq!(metrics, "Value for 'metrics' must be 'true', 'false', 'jolokia', or 'prometheus'");
    assert_eq!((expose_ui_flag(""), metrics_flag("")), (Ok(None), Ok(None)));
}

#[test]
fn a_shape_is_a_name_or_amounts() {
    let named = set("big", &[("shape", "small")]).unwrap().shape;
    assert_eq!(named, Some(ConfiguredShape::Named("small".to_owned())));
    let amounts = set("big", &[("shape", "cpu=2,memory=4Gi,gpu=1")]).unwrap().shape;
    let (cpu, memory) = ("2".parse().ok(), "4Gi".parse().ok());
    let shape = Shape { cpu, memory, gpu: Some(1), ..Shape::default() };
    assert_eq!(amounts, Some(ConfiguredShape::Amounts(Box::new(shape))));
}

#[test]
fn without_values_the_built_in_defaults_apply() {
    let config = ConfigLayers::default().merge(Framework::Spark).unwrap();
    let expected = ClusterConfig {
        framework: Framework::Spark,
        workers: 1,
        image: None,
        shape: None,
        spark: SparkRecipe::default(),
    };
    assert_eq!(config, expected);
}

#[test]
fn a_request_goes_before_the_set_that_it_names_and_that_before_the_default_set() {
    let layers = ConfigLayers {
        explicit: ConfigValues { workers: Some(0), ..ConfigValues::default() },
        named: Some(named("big", &[("workercount", "3"), ("metrics", "jolokia"), ("sparkmasterconfig", "")])),
        default_set: Some(
            set(
                DEFAULT_SET,
                &[
                    ("workercount", "5"),
                    ("metrics", "prometheus"),
                    ("exposeui", "false"),
                    ("sparkmasterconfig", "m"),
                    ("sparkworkerconfig", "w"),
                    ("sparkimage", "default:1"),
                ],
            )
            .unwrap(),
        ),
    };
    let config = layers.merge(Framework::Spark).unwrap();
    assert_eq!((config.workers, config.image.as_deref()), (0, Some("default:1")));
    let spark = SparkRecipe {
        config_name: Some("big".to_owned()),
        // An empty value of a set clears that of lower layers.
        master_config: None,
        worker_config: Some("w".to_owned()),
        metrics: Some(Metrics::Jolokia),
        expose_ui: Some(false),
    };
    assert_eq!(config.spark, spark);
}

#[test]
fn the_image_of_a_higher_layer_wins_whichever_key_has_it() {
    let layers = |named_key: &str| ConfigLayers {
        named: Some(named("big", &[(named_key, "named:1")])),
        default_set: Some(set(DEFAULT_SET, &[("sparkimage", "below:1"), ("image", "below:2")]).unwrap()),
        ..ConfigLayers::default()
    };
    for key in ["image", "sparkimage"] {
        let image = layers(key).merge(Framework::Spark).unwrap().image;
        assert_eq!(image.as_deref(), Some("named:1"), "{key}");
    }
    let both = ConfigLayers { named: None, ..layers("image") };
    assert_eq!(both.merge(Framework::Spark).unwrap().image.as_deref(), Some("below:1"));
}

#[rstest]
#[case::neither(None, None, None)]
#[case::default_set(None, Some("1"), Some(DEFAULT_SET))]
#[case::named(Some("big"), Some("1"), Some("big"))]
#[case::only_named(Some("big"), None, Some("big"))]
fn the_name_of_the_set_that_was_read_is_recorded(
    #[case] name: Option<&str>,
    #[case] default_workers: Option<&str>,
    #[case] recorded: Option<&str>,
) {
    let layers = ConfigLayers {
        named: name.map(|name| named(name, &[])),
        default_set: default_workers.map(|count| set(DEFAULT_SET, &[("workercount", count)]).unwrap()),
        ..ConfigLayers::default()
    };
    assert_eq!(layers.merge(Framework::Spark).unwrap().spark.config_name.as_deref(), recorded);
}

#[rstest]
#[case::two(Some(2))]
#[case::none(Some(0))]
fn a_cluster_has_one_master(#[case] masters: Option<i64>) {
    let layers = ConfigLayers {
        explicit: ConfigValues { masters, ..ConfigValues::default() },
        ..ConfigLayers::default()
    };
    let message =
        "invalid cluster configuration, error: cluster configuration must have a master count of 0 or 1";
    assert_eq!(refusal(layers, Framework::Spark), message);
}

#[test]
fn an_explicit_number_of_masters_repairs_that_of_a_set() {
    let layers =
        ConfigLayers { named: Some(named("big", &[("mastercount", "2")])), ..ConfigLayers::default() };
    assert!(refusal(layers.clone(), Framework::Spark).ends_with("a master count of 0 or 1"));
    let explicit = ConfigValues { masters: Some(1), ..ConfigValues::default() };
    assert!(ConfigLayers { explicit, ..layers }.merge(Framework::Spark).is_ok());
}

#[test]
fn there_are_no_fewer_than_no_workers() {
    let explicit = ConfigValues { workers: Some(-1), ..ConfigValues::default() };
    let message =
        "invalid cluster configuration, error: cluster configuration may not have a worker count less than 0";
    assert_eq!(refusal(ConfigLayers { explicit, ..ConfigLayers::default() }, Framework::Dask), message);
}

#[test]
fn a_set_that_does_not_exist_is_named() {
    let message = InvalidConfig(ConfigFault::NoSuchSet("big".to_owned())).to_string();
    assert_eq!(message, "invalid cluster configuration, error: named config 'big' does not exist");
}

#[rstest]
#[case("sparkmasterconfig", "m")]
#[case("sparkworkerconfig", "w")]
#[case("sparkimage", "mine:1")]
#[case("exposeui", "true")]
#[case("metrics", "false")]
fn what_only_spark_has_is_refused_for_others(#[case] key: &str, #[case] value: &str) {
    let layers = ConfigLayers { named: Some(named("big", &[(key, value)])), ..ConfigLayers::default() };
    assert!(layers.clone().merge(Framework::Spark).is_ok());
    let message = format!(
        "invalid cluster configuration, error: 'big.{key}' is for Spark alone, and this cluster runs dask: leave it out"
    );
    assert_eq!(refusal(layers, Framework::Dask), message);
}

#[test]
fn every_framework_takes_the_other_keys() {
    let data = [("framework", "dask"), ("image", "mine:1"), ("workercount", "2"), ("mastercount", "1")];
    let layers = ConfigLayers { named: Some(named("big", &data)), ..ConfigLayers::default() };
    assert_eq!(layers.framework(), Some(Framework::Dask));
    let config = layers.clone().merge(Framework::Dask).unwrap();
    assert_eq!((config.workers, config.image.as_deref()), (2, Some("mine:1")));
    assert_eq!(config.spark, SparkRecipe::default(), "only a Spark cluster records the set");
    let explicit = ConfigValues { framework: Some(Framework::Ray), ..ConfigValues::default() };
    assert_eq!(ConfigLayers { explicit, ..layers }.framework(), Some(Framework::Ray));
}

#[rstest]
#[case("big", true)]
#[case("default-oshinko-cluster-config", true)]
#[case("team.big-1", true)]
#[case::empty("", false)]
#[case::above("..", false)]
#[case::folder("a/b", false)]
#[case::hidden(".big", false)]
#[case::capitals("Big", false)]
#[case::hyphen("big-", false)]
#[case::blank("a b", false)]
#[case::null("a\0", false)]
fn a_set_has_the_name_of_a_config_map(#[case] name: &str, #[case] possible: bool) {
    assert_eq!(is_possible_name(name), possible);
    assert!(!is_possible_name(&"a".repeat(254)));
}
