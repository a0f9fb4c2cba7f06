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
    let object = rendered(Kind::Dask, 100, &cluster(), 2, &nodes);
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
fn lists_have_no_secrets() {
    let mut object = json!({"spec": {
        "kerberosKeytab": {"contents": "c2VjcmV0", "mountPath": "/x"},
        "envVars": [{"name": "A", "value": "secret"}, {"name": "B", "valueFrom": {"fieldRef": {}}}],
    }});
    blank_secrets(&mut object);
    let expected = json!({"spec": {
        "kerberosKeytab": {"contents": "", "mountPath": "/x"},
        "envVars": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fieldRef": {}}}],
    }});
    assert_eq!(object, expected);
    let mut without = json!({"spec": {}});
    blank_secrets(&mut without);
    assert_eq!(without, json!({"spec": {}}));
}
