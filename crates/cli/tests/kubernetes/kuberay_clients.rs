//! Existing KubeRay clients: clusters that they create through Muster, and clusters that the KubeRay API server created.

use kube::api::{DeleteParams, DynamicObject, PostParams};
use muster_testkit::eventually;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::server::{Server, TIMEOUT};

/// The path of the namespace in the API of existing clients.
fn namespace(harness: &Harness) -> String {
    format!("/apis/v1/namespaces/{}", harness.namespace.name())
}

async fn call_successfully(server: &Server, method: Method, path: &str, body: Option<Value>) -> Value {
    let response = server.call_at(method, path, body).await;
    let (status, text) = (response.status(), response.text().await.expect("a body"));
    assert_eq!(status, StatusCode::OK, "{path}: {text}");
    serde_json::from_str(&text).expect("JSON")
}

async fn refused(server: &Server, method: Method, path: &str) -> (u16, Value) {
    let response = server.call_at(method, path, None).await;
    (response.status().as_u16(), response.json().await.expect("a refusal is JSON"))
}

/// The request in the KubeRay API server's documentation.
fn golden(namespace: &str) -> Value {
    json!({
        "name": "test-cluster", "namespace": namespace, "user": "3cpo", "version": "2.46.0", "environment": "DEV",
        "clusterSpec": {
            "headGroupSpec": {
                "computeTemplate": "default-template", "image": "rayproject/ray:2.46.0", "serviceType": "NodePort",
                "rayStartParams": {"dashboard-host": "0.0.0.0", "metrics-export-port": "8080"}, "volumes": [],
            },
            "workerGroupSpec": [{
                "groupName": "small-wg", "computeTemplate": "default-template", "image": "rayproject/ray:2.46.0",
                "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "rayStartParams": {"node-ip-address": "$MY_POD_IP"},
            }],
        },
    })
}

/// The object that it creates from it, without the fields that Kubernetes and Muster add.
fn golden_object(namespace: &str) -> Value {
    let amounts = json!({"cpu": "2", "memory": "4Gi"});
    let metadata = json!({"annotations": {
        "ray.io/compute-image": "rayproject/ray:2.46.0", "ray.io/compute-template": "default-template",
    }});
    let resources = json!({"limits": amounts, "requests": amounts});
    let field =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let amount = |name: &str, resource: &str| {
        let of = json!({"containerName": "ray-worker", "resource": resource});
        json!({"name": name, "valueFrom": {"resourceFieldRef": of}})
    };
    let port = |name: &str, port: u16| json!({"name": name, "containerPort": port});
    json!({
        "metadata": {
            "name": "test-cluster", "namespace": namespace,
            "labels": {
                "app.kubernetes.io/managed-by": "kuberay-apiserver", "app.kubernetes.io/name": "kuberay",
                "ray.io/cluster-name": "test-cluster", "ray.io/environment": "DEV", "ray.io/user": "3cpo",
                "ray.io/version": "2.46.0",
            },
        },
        "spec": {
            "rayVersion": "2.46.0",
            "headGroupSpec": {
                "serviceType": "NodePort",
                "rayStartParams": {"dashboard-host": "0.0.0.0", "metrics-export-port": "8080"},
                "template": {"metadata": metadata, "spec": {"containers": [{
                    "name": "ray-head", "image": "rayproject/ray:2.46.0", "imagePullPolicy": "IfNotPresent",
                    "env": [field("MY_POD_IP", "status.podIP")],
                    "ports": [
                        port("redis", 6379), port("head", 10001), port("dashboard", 8265), port("metrics", 8080),
                    ],
                    "resources": resources,
                }]}},
            },
            "workerGroupSpecs": [{
                "groupName": "small-wg", "replicas": 1, "minReplicas": 1, "maxReplicas": 1,
                "rayStartParams": {"node-ip-address": "$MY_POD_IP"},
                "template": {"metadata": metadata, "spec": {"containers": [{
                    "name": "ray-worker", "image": "rayproject/ray:2.46.0", "imagePullPolicy": "IfNotPresent",
                    "env": [
                        {"name": "RAY_DISABLE_DOCKER_CPU_WARNING", "value": "1"}, {"name": "TYPE", "value": "worker"},
                        amount("CPU_REQUEST", "requests.cpu"), amount("CPU_LIMITS", "limits.cpu"),
                        amount("MEMORY_REQUESTS", "requests.memory"), amount("MEMORY_LIMITS", "limits.memory"),
                        field("MY_POD_NAME", "metadata.name"), field("MY_POD_IP", "status.podIP"),
                    ],
                    "ports": [{"containerPort": 80}],
                    "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", "ray stop"]}}},
                    "resources": resources,
                }]}},
            }],
        },
    })
}

/// Removes the defaults that the Kubernetes API server fills in.
fn without_defaults(spec: &mut Value) {
    fn each(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for key in ["numOfHosts", "protocol", "scaleStrategy"] {
                    fields.remove(key);
                }
                fields.values_mut().for_each(each);
            }
            Value::Array(items) => items.iter_mut().for_each(each),
            _ => {}
        }
    }
    each(spec);
}

#[tokio::test]
async fn the_documented_example_creates_the_documented_object_and_answer() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    let (at, name) = (namespace(&harness), harness.namespace.name());
    let template = json!({"name": "default-template", "namespace": name, "cpu": 2, "memory": 4});
    let made =
        call_successfully(&server, Method::POST, &format!("{at}/compute_templates"), Some(template)).await;
    let expected =
        json!({"name": "default-template", "namespace": name, "cpu": 2, "memory": 4, "memoryUnit": "Gi"});
    assert_eq!(made, expected);

    let clusters = format!("{at}/clusters");
    let mut created = call_successfully(&server, Method::POST, &clusters, Some(golden(name))).await;
    let mut object = harness.ray_clusters().get("test-cluster").await.expect("its object");
    let annotations = object.metadata.annotations.take().expect("annotations");
    let stamp = annotations["ray.io/creation-timestamp"].clone();
    assert!(stamp.ends_with(" +0000 UTC"), "{stamp}");
    let mut labels = object.metadata.labels.take().expect("labels");
    assert!(labels.remove("muster.dev/cluster").is_some());
    let mut spec = object.data["spec"].take();
    without_defaults(&mut spec);
    let expected = golden_object(name);
    let metadata =
        json!({"name": object.metadata.name, "namespace": object.metadata.namespace, "labels": labels});
    assert_eq!(json!({"metadata": metadata, "spec": spec}), expected);

    // The answer is the request with the added fields.
    let mut answer = golden(name);
    let fields = answer.as_object_mut().expect("an object");
    fields.remove("environment");
    fields.insert("annotations".to_owned(), json!({"ray.io/creation-timestamp": stamp}));
    answer["clusterSpec"]["headGroupSpec"].as_object_mut().expect("a head").remove("volumes");
    answer["clusterSpec"]["headGroupSpec"]["environment"] = json!({});
    answer["clusterSpec"]["workerGroupSpec"][0]["environment"] = json!({});
    let moment = created["createdAt"].take();
    let seconds = object.metadata.creation_timestamp.expect("a moment").0.to_string();
    assert_eq!(moment.as_str(), Some(seconds.as_str()));
    created.as_object_mut().expect("a cluster").retain(|key, _| key != "createdAt" && key != "events");
    assert_eq!(created, answer);

    // It becomes ready, with ports by purpose and its events.
    let one = format!("{clusters}/test-cluster");
    let ready = eventually("ready", TIMEOUT, async || {
        let cluster = call_successfully(&server, Method::GET, &one, None).await;
        if cluster["clusterState"] == "ready" { Ok(cluster) } else { Err(cluster) }
    })
    .await;
    let ports =
        harness.ray_clusters().get("test-cluster").await.expect("its object").data["status"]["endpoints"]
            .clone();
    assert_eq!(ready["serviceEndpoint"], ports);
    assert!(ports["head"].is_string() && ports["dashboard"].is_string(), "{ports}");
    let events = ready["events"].as_array().expect("events");
    assert!(
        events.iter().all(|event| event["reason"].is_string() && event["type"].is_string()),
        "{events:?}"
    );
    let all = call_successfully(&server, Method::GET, &clusters, None).await;
    assert_eq!(all["clusters"][0]["name"], "test-cluster");
    assert!(all["clusters"][0]["events"].as_array().is_some_and(|events| !events.is_empty()), "{all}");

    // Another image is shown as given, and the users' variables take precedence over those of the server.
    let spec = json!({"headGroupSpec": {"image": "i:2", "environment": {"MY_POD_IP": "1.2.3.4"}}});
    let path = format!("{}/test-cluster", harness.clusters());
    let patched = server.call(Method::PATCH, &path, Some(json!({"clusterSpec": spec}))).await;
    assert_eq!(patched.status(), StatusCode::OK, "{}", patched.text().await.unwrap_or_default());
    let shown = call_successfully(&server, Method::GET, &one, None).await;
    assert_eq!(shown["clusterSpec"]["headGroupSpec"]["image"], "i:2", "{shown}");
    let after = harness.ray_clusters().get("test-cluster").await.expect("its object").data["spec"].clone();
    let container = &after["headGroupSpec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["env"], json!([{"name": "MY_POD_IP", "value": "1.2.3.4"}]));

    // A repeated creation is a conflict, with a body that strict clients decode.
    let response = server.call_at(Method::POST, &clusters, Some(golden(name))).await;
    let (status, body) = (response.status().as_u16(), response.json::<Value>().await.expect("JSON"));
    assert_eq!((status, &body["code"]), (409, &json!(6)), "{body}");
    assert!(
        body.as_object().is_some_and(|body| body.keys().all(|key| key == "code" || key == "message")),
        "{body}"
    );

    assert_eq!(call_successfully(&server, Method::DELETE, &one, None).await, json!({}));
    eventually("gone", TIMEOUT, async || {
        let (status, body) = refused(&server, Method::GET, &one).await;
        if status == 404 { Ok(body) } else { Err(body) }
    })
    .await;
}

fn foreign_cluster(name: &str, labels: &Value) -> DynamicObject {
    let mut labels = labels.clone();
    labels["ray.io/user"] = "bob".into();
    let container = |name: &str, env: Value| {
        json!({
            "name": name, "image": "rayproject/ray:2.46.0", "env": env,
            "volumeMounts": [{"name": "s", "mountPath": "/s", "readOnly": true}],
        })
    };
    let template = |container: Value| {
        let annotations = json!({"ray.io/compute-template": "theirs", "ray.io/compute-image": ""});
        let volumes =
            json!([{"name": "s", "secret": {"secretName": "sec", "items": [{"key": "k", "path": "p"}]}}]);
        json!({"metadata": {"annotations": annotations}, "spec": {"containers": [container], "volumes": volumes}})
    };
    let env = json!([{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "k"}}}, {"name": "A", "value": "1"}]);
    serde_json::from_value(json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name, "labels": labels},
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": template(container("ray-head", env))},
            "workerGroupSpecs": [{
                "groupName": "g", "replicas": 0, "minReplicas": 0, "maxReplicas": 2, "rayStartParams": {},
                "template": template(container("ray-worker", json!([]))),
            }],
        },
    }))
    .expect("an object")
}

#[tokio::test]
async fn clusters_of_the_existing_server_are_listed_and_deleted_and_others_are_unknown() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    let (at, objects) = (namespace(&harness), harness.ray_clusters());
    let managed =
        json!({"app.kubernetes.io/managed-by": "kuberay-apiserver", "ray.io/environment": "STAGING"});
    for (name, labels) in [("b", &managed), ("a", &managed), ("c", &managed), ("other", &json!({}))] {
        objects.create(&PostParams::default(), &foreign_cluster(name, labels)).await.expect("an object");
    }
    let clusters = format!("{at}/clusters");
    let names = async |query: &str| {
        let list = call_successfully(&server, Method::GET, &format!("{clusters}{query}"), None).await;
        let all = list["clusters"].as_array().expect("a list has its array");
        let names: Vec<String> =
            all.iter().map(|cluster| cluster["name"].as_str().expect("a name").to_owned()).collect();
        (names, list["continue"].as_str().unwrap_or_default().to_owned())
    };
    eventually("all three", TIMEOUT, async || {
        let (found, _) = names("").await;
        if found == ["a", "b", "c"] { Ok(()) } else { Err(found.join(", ")) }
    })
    .await;

    // Pages are ordered by name.
    let mut token = String::new();
    for expected in ["a", "b", "c"] {
        let (found, next) = names(&format!("?limit=1&continue={token}")).await;
        assert_eq!(found, [expected]);
        token = next;
    }
    assert_eq!(token, "");
    assert_eq!(refused(&server, Method::GET, &format!("{clusters}?continue=forged")).await.0, 400);
    assert_eq!(refused(&server, Method::GET, &format!("{clusters}?limit=-1")).await.0, 400);

    let shown = call_successfully(&server, Method::GET, &format!("{clusters}/a"), None).await;
    assert_eq!((&shown["user"], &shown["environment"]), (&json!("bob"), &json!(2)), "{shown}");
    let head = &shown["clusterSpec"]["headGroupSpec"];
    let environment =
        json!({"values": {"A": "1"}, "valuesFrom": {"TOKEN": {"source": 1, "name": "sec", "key": "k"}}});
    assert_eq!((&head["environment"], &head["computeTemplate"]), (&environment, &json!("theirs")), "{shown}");
    let volume = json!({
        "mountPath": "/s", "volumeType": 4, "name": "s", "source": "sec", "readOnly": true, "items": {"k": "p"},
    });
    assert_eq!(head["volumes"], json!([volume]));

    // A template that they use is in use, although they were not created here.
    let templates = format!("/namespaces/{}/compute_templates", harness.namespace.name());
    server.post(&templates, json!({"name": "theirs", "cpu": 1, "memory": 1})).await;
    let (status, _, why) = server.refusal(Method::DELETE, &format!("{templates}/theirs"), None).await;
    assert_eq!(status, 409, "{why}");
    assert!(why.contains("is used by clusters a, b, c"), "{why}");

    // A user's labels do not replace those of other programs.
    let labels = json!({"labels": {"team": "red"}});
    let path = format!("{}/b?wait_for=reached", harness.clusters());
    assert_eq!(server.call(Method::PATCH, &path, Some(labels)).await.status(), StatusCode::OK);
    let kept = objects.get("b").await.expect("an object").metadata.labels.expect("labels");
    assert_eq!((kept["team"].as_str(), kept["ray.io/user"].as_str()), ("red", "bob"));
    assert_eq!(names("").await.0, ["a", "b", "c"]);

    // An object without labels is visible in the newer API only.
    let other = format!("{clusters}/other");
    assert_eq!(refused(&server, Method::GET, &other).await.0, 404);
    assert_eq!(refused(&server, Method::DELETE, &other).await.0, 404);
    assert_eq!(server.get(&format!("{}/other", harness.clusters())).await["name"], "other");
    assert!(objects.get_opt("other").await.expect("an answer").is_some());

    assert_eq!(call_successfully(&server, Method::DELETE, &format!("{clusters}/a"), None).await, json!({}));
    eventually("a is gone", TIMEOUT, async || {
        if objects.get_opt("a").await.expect("an answer").is_none() { Ok(()) } else { Err("it is there") }
    })
    .await;
    for name in ["b", "c", "other"] {
        objects.delete(name, &DeleteParams::default()).await.expect("deleted");
    }
}

#[tokio::test]
async fn all_fields_of_a_request_reach_the_object_and_are_returned() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    let (at, name) = (namespace(&harness), harness.namespace.name());
    let template = json!({"name": "t", "namespace": name, "cpu": 1, "memory": 1});
    call_successfully(&server, Method::POST, &format!("{at}/compute_templates"), Some(template)).await;
    let volume = json!({"mountPath": "/tmp/ray", "volumeType": 5, "name": "logs", "storage": "1Gi"});
    let environment = json!({
        "values": {"A": "1"},
        "valuesFrom": {
            "C": {"name": "map", "key": "k"}, "F": {"source": 3, "key": "metadata.name"},
            "R": {"source": 2, "name": "ray-head", "key": "limits.cpu"}, "S": {"source": 1, "name": "sec", "key": "k"},
        },
    });
    let options = json!({
        "idleTimeoutSeconds": 60, "upscalingMode": "Default", "image": "a:1", "imagePullPolicy": "Always",
        "cpu": "500m", "memory": "512Mi", "envs": {"values": {"B": "2"}, "valuesFrom": {"s": {"source": 1, "name": "s"}}},
        "volumes": [volume],
    });
    let given = json!({
        "name": "whole", "namespace": name, "user": "ada@example.org", "version": "2.46.0", "environment": 3,
        "annotations": {"note": "n", "ray.io/enable-serve-service": "true"},
        "envs": {"values": {"ALL": "1"}},
        "clusterSpec": {
            "headGroupSpec": {
                "computeTemplate": "t", "image": "i:1", "enableIngress": true, "rayStartParams": {"num-cpus": "0"},
                "volumes": [volume], "serviceAccount": "sa", "imagePullSecret": "ips", "environment": environment,
                "annotations": {"a": "1"}, "labels": {"l": "1"}, "imagePullPolicy": "Always",
                "securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}, "privileged": false},
            },
            "workerGroupSpec": [{
                "groupName": "g", "computeTemplate": "t", "replicas": 0, "maxReplicas": 3, "minReplicas": 1,
                "rayStartParams": {}, "imagePullPolicy": "Always",
            }],
            "enableInTreeAutoscaling": true, "autoscalerOptions": options, "headServiceAnnotations": {"h": "1"},
        },
    });
    let clusters = format!("{at}/clusters");
    let mut created = call_successfully(&server, Method::POST, &clusters, Some(given.clone())).await;
    // A size below the minimum becomes the minimum.
    let mut given = given;
    given["clusterSpec"]["workerGroupSpec"][0]["replicas"] = 1.into();
    let object = harness.ray_clusters().get("whole").await.expect("its object");
    let labels = object.metadata.labels.expect("labels");
    assert_eq!(
        (labels["ray.io/user"].as_str(), labels["ray.io/environment"].as_str()),
        ("ada-example.org", "PRODUCTION")
    );
    let spec = &object.data["spec"];
    let container = &spec["headGroupSpec"]["template"]["spec"]["containers"][0];
    let ports: Vec<&Value> =
        container["ports"].as_array().expect("ports").iter().map(|port| &port["name"]).collect();
    assert_eq!(ports, ["redis", "head", "dashboard", "metrics", "dashboard-agent", "serve"]);
    assert_eq!(
        (&container["imagePullPolicy"], &container["securityContext"]["privileged"]),
        (&json!("Always"), &json!(false))
    );
    assert_eq!(spec["autoscalerOptions"]["envFrom"], json!([{"secretRef": {"name": "s"}}]));

    // The answer is the request, except for fields that are shown elsewhere.
    let moments = ["createdAt", "events"];
    created.as_object_mut().expect("a cluster").retain(|key, _| !moments.contains(&key.as_str()));
    created["annotations"].as_object_mut().expect("annotations").remove("ray.io/creation-timestamp");
    given.as_object_mut().expect("a cluster").remove("envs");
    let head = &mut given["clusterSpec"]["headGroupSpec"];
    head["environment"]["values"]["ALL"] = "1".into();
    let group = &mut given["clusterSpec"]["workerGroupSpec"][0];
    group["environment"] = json!({"values": {"ALL": "1"}});
    group["rayStartParams"] = json!({"node-ip-address": "$MY_POD_IP"});
    assert_eq!(created, given);

    // A creation that Kubernetes refuses leaves nothing.
    let mut twice = given.clone();
    twice["name"] = "twice".into();
    twice["clusterSpec"]["headGroupSpec"]["volumes"] = json!([volume, volume]);
    for _ in 0..2 {
        let refused = server.call_at(Method::POST, &clusters, Some(twice.clone())).await;
        let (status, body) = (refused.status().as_u16(), refused.text().await.expect("a body"));
        assert_eq!(status, 400, "{body}");
    }
    assert_eq!(refused(&server, Method::GET, &format!("{clusters}/twice")).await.0, 404);

    // The newer API shows it too.
    let newer = server.get(&format!("{}/whole", harness.clusters())).await;
    let head = &newer["clusterSpec"]["headGroupSpec"];
    assert_eq!(
        (&head["enableIngress"], &head["imagePullPolicy"]),
        (&json!(true), &json!("Always")),
        "{newer}"
    );
    assert_eq!(head["environmentFrom"]["S"], json!({"source": 1, "name": "sec", "key": "k"}), "{newer}");
    assert_eq!(newer["clusterSpec"]["autoscalerOptions"]["cpu"], "500m", "{newer}");
    call_successfully(&server, Method::DELETE, &format!("{clusters}/whole"), None).await;
}
