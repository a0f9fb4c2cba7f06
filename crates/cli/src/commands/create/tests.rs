use super::*;

fn request(arguments: &[&str]) -> CreateClusterRequest {
    let spec = Spec::try_parse_from([&["create"], arguments].concat()).unwrap();
    spec.check().unwrap();
    spec.request("fred".to_owned(), None)
}

#[test]
fn values_that_are_not_given_are_left_to_the_server() {
    let CreateClusterRequest { cluster, config, stored_config, .. } = request(&[]);
    let (cluster, config) = (cluster.unwrap(), config.unwrap());
    assert_eq!((config.workers, config.masters, stored_config.as_str()), (None, None, ""));
    assert_eq!(cluster.framework, config.default_framework, "no set can change it");
    assert_eq!(cluster.cluster_spec.unwrap().worker_group_spec[0].replicas, 0);
    let named = request(&["--storedconfig", "big"]);
    assert_eq!((named.cluster.unwrap().framework.as_str(), named.stored_config.as_str()), ("", "big"));
}

#[test]
fn a_framework_is_named_by_flag_or_variable_only() {
    let named = |arguments: &[&str]| {
        let spec = Spec::try_parse_from([&["create"], arguments].concat()).unwrap();
        (spec.named_framework().map(str::to_owned), spec.framework().map(str::to_owned))
    };
    let [dask, ray] = ["dask", "ray"].map(|name| Some(name.to_owned()));
    assert_eq!(named(&["--default-framework", ""]), (None, dask.clone()));
    assert_eq!(named(&["--default-framework", "ray"]), (ray.clone(), ray.clone()));
    assert_eq!(named(&["--default-framework", "ray", "--framework", "dask"]), (dask.clone(), dask));
    assert_eq!(named(&["--default-framework", "ray", "--storedconfig", "big"]), (None, None));
    assert_eq!(named(&["--default-framework", "ray", "--profile", "local.process-1.0"]), (None, ray));
}

#[test]
fn flags_take_precedence_over_a_stored_configuration() {
    let given = ["--framework", "spark", "--workers", "0", "--storedconfig", "big", "--metrics", "jolokia"];
    let CreateClusterRequest { cluster, config, stored_config, .. } = request(&given);
    let (cluster, config) = (cluster.unwrap(), config.unwrap());
    assert_eq!((cluster.framework.as_str(), stored_config.as_str()), ("spark", "big"));
    assert_eq!((config.workers, config.metrics.as_str()), (Some(0), "jolokia"));
}

#[test]
fn each_group_has_its_own_number_of_workers() {
    let one = request(&["--group", "name=a,workers=0"]);
    assert_eq!(one.config.unwrap().workers, Some(0));
    let two = request(&["--group", "name=a,workers=2", "--group", "name=b"]);
    assert_eq!(two.config.unwrap().workers, None);
    let sizes: Vec<i32> =
        two.cluster.unwrap().cluster_spec.unwrap().worker_group_spec.iter().map(|g| g.replicas).collect();
    assert_eq!(sizes, [2, 1]);
}

#[test]
fn profiles_without_a_framework_take_no_configuration() {
    let plain = request(&["--profile", "local.process-1.0"]);
    assert_eq!(plain.config, None);
    assert_eq!(plain.cluster.unwrap().cluster_spec.unwrap().worker_group_spec[0].replicas, 1);
    let flags = ["create", "--profile", "local.process-1.0", "--storedconfig", "big"];
    let failure = Spec::try_parse_from(flags).unwrap().check().unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    assert!(failure.what.starts_with("--storedconfig is for clusters of a framework"), "{failure}");
}

#[test]
fn properties_are_an_object_inline_or_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.yaml");
    let read = |text: &str| {
        std::fs::write(&file, text).unwrap();
        parse_properties(file.to_str().unwrap())
    };
    let expected = parse_properties(r#" {"metadata": {"simulated_wait_time": 1}}"#).unwrap();
    assert_eq!(read("metadata:\n  simulated_wait_time: 1\n").unwrap(), expected);
    assert_eq!(read(r#"{"metadata": {"simulated_wait_time": 1}}"#).unwrap(), expected);
    for (given, why) in [
        (parse_properties("{"), "not a JSON object"),
        (parse_properties("/no/such/file"), "cannot read /no/such/file"),
        (read("- 1\n"), "must be an object"),
        (read("a: b: c"), "neither JSON nor YAML"),
    ] {
        let failure = given.unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.to_string().contains(why), "{failure}");
    }
}
