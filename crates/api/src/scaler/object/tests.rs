use muster_core::principal::Owner;
use muster_core::sample;

use super::*;

fn cluster() -> Cluster {
    let mut cluster = sample::cluster(2, 0, None);
    "team".clone_into(&mut cluster.project);
    cluster.owner = Owner::of_scheme("local", "ann");
    cluster.groups[0].shape = Shape { cpu: "500m".parse().ok(), ..Shape::default() };
    cluster
}

#[test]
fn a_cluster_of_another_provider_has_the_form_of_dominos_objects() {
    let nodes = ["dask-1-head".to_owned(), "dask-1-1".to_owned(), "dask-1-2".to_owned()];
    let object = rendered(ScalerKind::Dask, 100, &cluster(), &nodes);
    assert_eq!(object["kind"], "DaskCluster");
    assert_eq!(object["metadata"]["namespace"], "team");
    assert_eq!(object["metadata"]["labels"][STARTED_BY], "ann");
    assert_eq!(object["spec"]["autoscaling"], json!({"minReplicas": 2, "maxReplicas": 100}));
    assert_eq!(object["spec"]["worker"]["replicas"], 2);
    assert_eq!(object["spec"]["worker"]["resources"]["requests"], json!({"cpu": "500m"}));
    assert!(object["spec"]["scheduler"].is_object());
    // Clients count the nodes without the head.
    assert_eq!(object["status"]["nodes"].as_array().map(Vec::len), Some(3));
}

#[test]
fn the_resources_of_a_head_are_those_of_its_objects_pod() {
    let resources = json!({"requests": {"cpu": "1"}});
    let pod = json!({"spec": {"containers": [{"name": "ray-head", "resources": resources}]}});
    let object = json!({"spec": {"headGroupSpec": {"template": pod}}});
    let shown = json!({"requests": {"cpu": "1"}, "limits": {}});
    assert_eq!(head_resources(ScalerKind::Ray, &object), Some(shown));
    assert_eq!(head_resources(ScalerKind::Dask, &object), None);
}

#[test]
fn secrets_that_only_the_applied_configuration_has_are_not_in_lists() {
    let applied = json!({"spec": {"envVars": [{"name": "A", "value": "secret"}]}}).to_string();
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": applied, "team": "x"});
    let object = json!({"metadata": {"annotations": annotations}, "spec": {}});
    let expected = json!({"metadata": {"annotations": {"team": "x"}}, "spec": {}});
    assert_eq!(without_secrets(object.to_string()), expected.to_string());
}

#[test]
fn lists_have_no_secrets() {
    let applied = r#"{"spec":{"envVars":[{"name":"A","value":"secret"}]}}"#;
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": applied, "team": "x"});
    let mut object = json!({"metadata": {"annotations": annotations}, "spec": {
        "kerberosKeytab": {"contents": "c2VjcmV0", "mountPath": "/x"},
        "envVars": [{"name": "A", "value": "secret"}, {"name": "B", "valueFrom": {"fieldRef": {}}}],
    }});
    blank_secrets(&mut object);
    let expected = json!({"metadata": {"annotations": {"team": "x"}}, "spec": {
        "kerberosKeytab": {"contents": "", "mountPath": "/x"},
        "envVars": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fieldRef": {}}}],
    }});
    assert_eq!(object, expected);
    let mut without = json!({"spec": {}});
    blank_secrets(&mut without);
    assert_eq!(without, json!({"spec": {}}));
}
