use muster_proto::v1::{Capabilities, EnvValueFrom, SecurityContext, Volume};
use rstest::rstest;
use serde_json::json;

use super::*;

fn shown(object: &Value) -> Value {
    serde_json::to_value(cluster(object)).expect("JSON")
}

/// The example of the KubeRay API server's documentation.
fn golden() -> Value {
    let template = |container: Value| {
        json!({
            "metadata": {"annotations": {
                "ray.io/compute-image": "rayproject/ray:2.46.0", "ray.io/compute-template": "default-template",
            }},
            "spec": {"containers": [container]},
        })
    };
    let field =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster",
        "metadata": {
            "name": "test-cluster", "namespace": "ray-system", "creationTimestamp": "2023-09-25T10:48:35Z",
            "labels": {"ray.io/user": "3cpo", "ray.io/version": "2.46.0", "ray.io/environment": "DEV"},
            "annotations": {
                "ray.io/creation-timestamp": "2023-09-25 10:48:35.766443417 +0000 UTC", "muster.dev/fence": "f/1",
            },
        },
        "spec": {
            "headGroupSpec": {
                "serviceType": "NodePort",
                "rayStartParams": {"dashboard-host": "0.0.0.0", "metrics-export-port": "8080"},
                "template": template(json!({
                    "name": "ray-head", "imagePullPolicy": "IfNotPresent", "env": [field("MY_POD_IP", "status.podIP")],
                })),
            },
            "workerGroupSpecs": [{
                "groupName": "small-wg", "replicas": 1, "minReplicas": 1, "maxReplicas": 1,
                "rayStartParams": {"node-ip-address": "$MY_POD_IP"},
                "template": template(json!({
                    "name": "ray-worker",
                    "env": [{"name": "TYPE", "value": "worker"}, field("MY_POD_NAME", "metadata.name")],
                })),
            }],
        },
        "status": {"state": "ready", "endpoints": {"dashboard": "31476", "head": "31850"}},
    })
}

#[test]
fn the_example_of_the_documentation_is_shown_as_documented() {
    let expected = json!({
        "name": "test-cluster", "namespace": "ray-system", "user": "3cpo", "version": "2.46.0",
        "clusterSpec": {
            "headGroupSpec": {
                "computeTemplate": "default-template", "image": "rayproject/ray:2.46.0", "serviceType": "NodePort",
                "rayStartParams": {"dashboard-host": "0.0.0.0", "metrics-export-port": "8080"}, "environment": {},
            },
            "workerGroupSpec": [{
                "groupName": "small-wg", "computeTemplate": "default-template", "image": "rayproject/ray:2.46.0",
                "replicas": 1, "minReplicas": 1, "maxReplicas": 1,
                "rayStartParams": {"node-ip-address": "$MY_POD_IP"}, "environment": {},
            }],
        },
        "annotations": {"ray.io/creation-timestamp": "2023-09-25 10:48:35.766443417 +0000 UTC"},
        "createdAt": "2023-09-25T10:48:35Z", "clusterState": "ready",
        "serviceEndpoint": {"dashboard": "31476", "head": "31850"},
    });
    assert_eq!(shown(&golden()), expected);
}

fn head_of(spec: &Value) -> HeadGroupSpec {
    let object = json!({"spec": {"headGroupSpec": {"template": {"spec": spec}}}});
    cluster(&object).cluster_spec.and_then(|spec| spec.head_group_spec).expect("a head")
}

#[test]
fn variables_are_shown_by_where_their_values_are() {
    let env = json!([
        {"name": "A", "value": "1"},
        {"name": "EMPTY"},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "R", "valueFrom": {"resourceFieldRef": {"containerName": "ray-head", "resource": "limits.cpu"}}},
        {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "NEWER", "valueFrom": {"fileKeyRef": {"path": "p"}}},
        {"name": "RAY_PORT", "value": "6379"},
        {"value": "without a name"},
        7,
    ]);
    let shown = head_of(&json!({"containers": [{"env": env}]})).environment.expect("always there");
    let from = |source, name: &str, key: &str| EnvValueFrom { source, name: name.into(), key: key.into() };
    let expected = [
        ("C", from(0, "m", "k")),
        ("F", from(3, "", "metadata.name")),
        ("R", from(2, "ray-head", "limits.cpu")),
        ("S", from(1, "s", "k")),
    ];
    assert_eq!(shown.values_from, expected.map(|(name, value)| (name.to_owned(), value)).into());
    assert_eq!(shown.values.get("A").map(String::as_str), Some("1"));
    assert_eq!(shown.values.get("EMPTY").map(String::as_str), Some(""));
    assert!(!shown.values.contains_key("RAY_PORT") && !shown.values.contains_key("NEWER"), "{shown:?}");
}

#[test]
fn volumes_are_shown_with_their_mounts_and_unknown_kinds_are_left_out() {
    let volumes = json!([
        {"name": "s", "secret": {"secretName": "sec", "items": [{"key": "k", "path": "p"}]}},
        {"name": "e", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "h", "hostPath": {"path": "/srv", "type": "File"}},
        {"name": "p", "persistentVolumeClaim": {"claimName": "pvc", "readOnly": true}},
        {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "fast",
            "resources": {"requests": {"storage": "5Gi"}},
        }}}},
        {"name": "n", "nfs": {"server": "x"}},
    ]);
    let mounts = json!([
        {"name": "s", "mountPath": "/s", "readOnly": true},
        {"name": "h", "mountPath": "/h", "mountPropagation": "Bidirectional"},
    ]);
    let shown = head_of(&json!({"volumes": volumes, "containers": [{"volumeMounts": mounts}]})).volumes;
    let volume =
        |name: &str, volume_type: i32| Volume { name: name.into(), volume_type, ..Volume::default() };
    let items = [("k".to_owned(), "p".to_owned())].into();
    let (source, mount_path) = ("sec".to_owned(), "/s".to_owned());
    let secret = Volume { source, mount_path, read_only: true, items, ..volume("s", 4) };
    let folder = Volume { storage: "1Gi".to_owned(), ..volume("e", 5) };
    let (source, mount_path) = ("/srv".to_owned(), "/h".to_owned());
    let host = Volume { source, mount_path, host_path_type: 1, mount_propagation_mode: 2, ..volume("h", 1) };
    let claim = Volume { source: "pvc".to_owned(), read_only: true, ..volume("p", 0) };
    let (storage, storage_class_name) = ("5Gi".to_owned(), "fast".to_owned());
    let ephemeral = Volume { storage, storage_class_name, access_mode: 2, ..volume("d", 2) };
    assert_eq!(shown, [secret, folder, host, claim, ephemeral]);
}

#[test]
fn the_rest_of_a_pod_is_shown_too() {
    let object = json!({"spec": {
        "enableInTreeAutoscaling": true,
        "autoscalerOptions": {
            "idleTimeoutSeconds": 30, "upscalingMode": "Aggressive", "imagePullPolicy": "Always",
            "resources": {"limits": {"cpu": "1", "memory": "512Mi"}},
            "env": [{"name": "A", "value": "1"}], "envFrom": [{"secretRef": {"name": "s"}}],
            "volumeMounts": [{"name": "e", "mountPath": "/e"}],
        },
        "headServiceAnnotations": {"a": "b"},
        "headGroupSpec": {"enableIngress": true, "template": {
            "metadata": {
                "annotations": {"mine": "1", "openshift.io/scc": "x", "cni.projectcalico.org/podIP": "y"},
                "labels": {"mine": "1", "ray.io/group": "x"},
            },
            "spec": {
                "serviceAccountName": "sa", "imagePullSecrets": [{"name": "ips"}], "volumes": [{"name": "e", "emptyDir": {}}],
                "containers": [{
                    "imagePullPolicy": "Always",
                    "securityContext": {"privileged": true, "capabilities": {"add": ["SYS_PTRACE"]}},
                }],
            },
        }},
    }});
    let spec = cluster(&object).cluster_spec.expect("a spec");
    let head = spec.head_group_spec.expect("a head");
    let mine = BTreeMap::from([("mine".to_owned(), "1".to_owned())]);
    assert_eq!((&head.annotations, &head.labels), (&mine, &mine));
    assert_eq!((head.service_account.as_str(), head.image_pull_secret.as_str()), ("sa", "ips"));
    assert_eq!((head.image_pull_policy.as_str(), head.enable_ingress), ("Always", true));
    let capabilities = Some(Capabilities { add: vec!["SYS_PTRACE".to_owned()], drop: Vec::new() });
    assert_eq!(head.security_context, Some(SecurityContext { capabilities, privileged: Some(true) }));
    let options = spec.autoscaler_options.expect("options");
    assert_eq!((options.idle_timeout_seconds, options.upscaling_mode.as_str()), (30, "Aggressive"));
    assert_eq!((options.cpu.as_str(), options.memory.as_str()), ("1", "512Mi"));
    assert_eq!(options.envs.expect("variables").values_from.len(), 1);
    assert_eq!(options.volumes[0].mount_path, "/e");
    assert_eq!(spec.head_service_annotations.len(), 1);
}

#[rstest]
#[case::nothing(json!({}))]
#[case::no_object(json!(7))]
#[case::other_forms(json!({
    "metadata": {"labels": [], "annotations": "x", "creationTimestamp": "yesterday", "name": 1},
    "spec": {"headGroupSpec": [], "workerGroupSpecs": {"a": 1}, "autoscalerOptions": {"env": 1, "volumeMounts": [{}]}},
    "status": [],
}))]
#[case::odd_groups(json!({"spec": {"workerGroupSpecs": [null, {"replicas": 99_999_999_999_i64, "template": {"spec": {
    "containers": [], "volumes": [{}, null, {"name": "x", "secret": null}],
}}}]}}))]
fn odd_objects_are_shown_as_far_as_they_go(#[case] object: Value) {
    let shown = cluster(&object);
    assert!(
        shown
            .cluster_spec
            .and_then(|spec| spec.head_group_spec)
            .is_some_and(|head| head.environment.is_some())
    );
}
