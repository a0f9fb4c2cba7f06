//! The scaler API with clusters of the real Domino operator, for users of a Domino that the test simulates.

use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use muster_testkit::outside::Reply;
use muster_testkit::{FakeDomino, Operator, eventually};
use reqwest::{Method, Response};
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::server::{Server, TIMEOUT};

pub(crate) const GROUP: &str = "distributed-compute.dominodatalab.com";
pub(crate) const USER: &str = "dominodatalab.com/starting-user-id";
const TIER: &str = "dominodatalab.com/hardware-tier-id";
const POOL: &str = "dominodatalab.com/node-pool";

struct Scaler {
    harness: Harness,
    server: Server,
    domino: FakeDomino,
    plural: &'static str,
    objects: Api<DynamicObject>,
    resource: ApiResource,
    client: reqwest::Client,
}

impl Scaler {
    /// Starts a server for users of Domino, with clusters of a kind; `None` if the test is skipped.
    async fn open(kind: &'static str) -> Option<Self> {
        let harness = Harness::with(Some(Operator::Domino)).await?;
        let domino = FakeDomino::start().await;
        let server = harness
            .server(&[
                "--auth",
                "domino",
                "--domino-url",
                &domino.url(),
                "--compute-namespace",
                harness.namespace.name(),
            ])
            .await;
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1alpha1", kind));
        let objects = Api::namespaced_with(harness.kubernetes.client(), harness.namespace.name(), &resource);
        let plural = match kind {
            "RayCluster" => "rayclusters",
            "DaskCluster" => "daskclusters",
            _ => "sparkclusters",
        };
        let client = reqwest::Client::new();
        Some(Self { harness, server, domino, plural, objects, resource, client })
    }

    /// Creates a cluster for a user, as Domino does.
    async fn create(&self, name: &str, user: &str) {
        let node = json!({"resources": {"requests": {"cpu": "250m", "memory": "250Mi"}}});
        let mut spec = json!({
            "image": {"repository": "example/image", "tag": "1"},
            "autoscaling": {"minReplicas": 1, "maxReplicas": 5, "averageCPUUtilization": 80},
            "worker": node,
            "envVars": [{"name": "SECRET", "value": "abc"}],
        });
        spec["worker"]["replicas"] = 1.into();
        let head = match self.plural {
            "rayclusters" => "head",
            "daskclusters" => "scheduler",
            _ => "master",
        };
        spec[head] = node;
        if self.plural == "sparkclusters" {
            spec["workerMemoryLimit"] = "3Gi".into();
            spec["driver"] = json!({"selector": {"app.kubernetes.io/instance": "driver-pod"}});
        }
        let mut object = DynamicObject::new(name, &self.resource).data(json!({"spec": spec}));
        object.metadata.labels = Some([(USER.to_owned(), user.to_owned())].into());
        self.objects.create(&PostParams::default(), &object).await.expect("the operator accepts it");
        eventually("the cluster is discovered", TIMEOUT, async || {
            let answer = self.get("root", &format!("/cluster/{}/{name}", self.plural)).await;
            if answer.0 == 200 { Ok(()) } else { Err(answer.1) }
        })
        .await;
    }

    async fn send(&self, key: &str, method: Method, path: &str, body: Option<Value>) -> Response {
        let mut request =
            self.client.request(method, format!("{}/ddl_cluster_scaler{path}", self.server.rest));
        if !key.is_empty() {
            request = request.header("X-Domino-Api-Key", key);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        request.send().await.expect("the server answers")
    }

    async fn call(&self, key: &str, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let response = self.send(key, method, path, body).await;
        assert_eq!(response.headers()["cache-control"], "no-store", "{path}");
        let status = response.status().as_u16();
        let text = response.text().await.expect("a body");
        let body: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(text, format!("{body}\n"), "sorted keys and a line end");
        (status, body)
    }

    async fn get(&self, key: &str, path: &str) -> (u16, Value) {
        self.call(key, Method::GET, path, None).await
    }

    async fn patch(&self, key: &str, path: &str, body: Value) -> (u16, Value) {
        self.call(key, Method::PATCH, path, Some(body)).await
    }

    async fn scale(&self, body: Value) -> (u16, Value) {
        self.patch("ann", &format!("/scale/{}/mine", self.plural), body).await
    }

    /// Reads the object from Kubernetes.
    async fn object(&self) -> Value {
        self.objects.get("mine").await.expect("it exists").data
    }
}

/// Returns status and code of an error.
pub(crate) fn refused((status, body): &(u16, Value)) -> (u16, &str) {
    (*status, body["error"].as_str().unwrap_or_default())
}

#[rstest]
#[case("RayCluster", "head")]
#[case("DaskCluster", "scheduler")]
#[case("SparkCluster", "master")]
#[tokio::test]
async fn an_owner_scales_a_cluster_of_domino_and_assigns_tiers(
    #[case] kind: &'static str,
    #[case] head: &str,
) {
    let Some(scaler) = Scaler::open(kind).await else { return };
    scaler.create("mine", "id-ann").await;
    let plural = scaler.plural;

    let (status, body) = scaler.scale(json!({"replicas": 3})).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(
        (&body["requested_replicas"], &body["effective_replicas"], &body["maxReplicas"], &body["capped"]),
        (&json!(3), &json!(3), &json!(5), &json!(false))
    );
    assert_eq!(body["object"]["spec"]["worker"]["replicas"], 3);
    assert_eq!(body["object"]["spec"]["autoscaling"]["minReplicas"], 3);
    assert!(body.get("worker_hw_tier_id").is_none() && body["restarted_ts"].is_string(), "{body}");
    let (_, shown) = scaler.get("ann", &format!("/cluster/{plural}/mine")).await;
    assert_eq!(shown["spec"]["worker"]["replicas"], 3, "a read after the answer shows the write");
    assert!(shown["metadata"].get("managedFields").is_none());

    let (_, body) = scaler.scale(json!({"replicas": 99})).await;
    assert_eq!((&body["effective_replicas"], &body["capped"]), (&json!(5), &json!(true)));
    assert_eq!(scaler.object().await["spec"]["autoscaling"]["maxReplicas"], 5);
    let (_, body) = scaler.scale(json!({"replicas": 0})).await;
    assert_eq!(body["object"]["spec"]["worker"]["replicas"], 0, "{body}");
    assert_eq!(body["object"]["spec"]["autoscaling"]["minReplicas"], 1);

    let (status, body) = scaler.scale(json!({"replicas": 1, "worker_hw_tier_name": "GPU"})).await;
    assert_eq!((status, &body["worker_hw_tier_id"]["id"]), (200, &json!("gpu-k8s")), "{body}");
    let worker = scaler.object().await["spec"]["worker"].clone();
    assert_eq!((&worker["labels"][TIER], &worker["nodeSelector"][POOL]), (&json!("gpu-k8s"), &json!("gpus")));
    assert_eq!(worker["resources"]["requests"]["nvidia.com/gpu"], "1");
    assert_eq!(worker["resources"]["limits"]["nvidia.com/gpu"], "1");
    assert_eq!(worker["resources"]["requests"]["cpu"], "2");
    let (status, body) = scaler.scale(json!({"replicas": "2", "worker_hw_tier": "Small"})).await;
    assert_eq!((status, &body["worker_hw_tier_id"]["id"]), (200, &json!("small-k8s")), "{body}");
    let worker = scaler.object().await["spec"]["worker"].clone();
    assert_eq!(
        (&worker["labels"][TIER], &worker["nodeSelector"][POOL]),
        (&json!("small-k8s"), &json!("default"))
    );
    assert_eq!(
        worker["resources"],
        json!({
            "requests": {"cpu": "1", "memory": "4Gi"}, "limits": {"memory": "4Gi"},
        })
    );
    assert_eq!(worker["replicas"], 2);

    let path = format!("/head-hw-tier/{plural}/mine");
    let (status, body) = scaler.patch("ann", &path, json!({"head_hw_tier_name": "Medium"})).await;
    assert_eq!((status, &body["head_hw_tier_name"]), (200, &json!("Medium")), "{body}");
    let object = scaler.object().await;
    assert_eq!(object["spec"][head]["labels"][TIER], "medium-k8s");
    assert_eq!(object["spec"][head]["resources"]["requests"], json!({"cpu": "2", "memory": "8Gi"}));
    assert_eq!(object["spec"]["worker"], worker, "the workers stay as they are");

    let by_others = json!({"spec": {
        "worker": {"labels": {TIER: "other"}, "nodeSelector": {POOL: null}, "resources": {"limits": {"memory": "8Gi"}}},
        head: {"resources": {"requests": {"cpu": "1500m"}}},
    }});
    scaler.objects.patch("mine", &PatchParams::default(), &Patch::Merge(&by_others)).await.expect("accepted");
    let same = json!({"replicas": 2, "worker_hw_tier_name": "Small", "head_hw_tier_name": "Medium"});
    assert_eq!(scaler.scale(same.clone()).await.0, 200);
    let restored = scaler.objects.get("mine").await.expect("it exists");
    assert_eq!(restored.data["spec"], object["spec"]);
    assert_eq!(scaler.scale(same).await.0, 200);
    let again = scaler.objects.get("mine").await.expect("it exists").metadata;
    assert_eq!(again.annotations, restored.metadata.annotations, "nothing differs, so nothing is written");
}

#[tokio::test]
async fn invalid_changes_are_refused_and_change_nothing() {
    let Some(scaler) = Scaler::open("RayCluster").await else { return };
    scaler.create("mine", "id-ann").await;
    let before = scaler.objects.get("mine").await.expect("it exists").metadata.generation;
    let scale = "/scale/rayclusters/mine";
    for body in [
        json!({}),
        json!({"replicas": null}),
        json!({"replicas": -1}),
        json!({"replicas": 2.5}),
        json!({"replicas": true}),
        json!({"replicas": "many"}),
        json!({"replicas": 9_223_372_036_854_775_808_u64}),
        json!([3]),
        json!(3),
        json!({"replicas": 1, "worker_hw_tier_name": ""}),
        json!({"replicas": 1, "worker_hw_tier_name": 7}),
        json!({"replicas": 1, "head_hw_tier_name": []}),
    ] {
        let answer = scaler.patch("ann", scale, body.clone()).await;
        assert_eq!(refused(&answer), (400, "bad_request"), "{body}: {answer:?}");
    }
    let without_body = scaler.call("ann", Method::PATCH, scale, None).await;
    assert_eq!(refused(&without_body), (400, "bad_request"));
    for (key, path, body, expected) in [
        ("", scale, json!({"replicas": 1}), (401, "unauthenticated")),
        ("mallory", scale, json!({"replicas": 1}), (401, "unauthenticated")),
        ("bob", scale, json!({"replicas": 1}), (403, "unauthorized")),
        ("bob", "/scale/rayclusters/other", json!({"replicas": 1}), (404, "not_found")),
        ("bob", "/scale/rayclusters/mine", json!({"replicas": -1}), (400, "bad_request")),
        ("bob", "/scale/mpiclusters/mine", json!({"replicas": -1}), (400, "invalid_kind")),
        ("", "/scale/mpiclusters/mine", json!({}), (401, "unauthenticated")),
        ("ann", "/scale/daskclusters/mine", json!({"replicas": 1}), (404, "not_found")),
        ("ann", scale, json!({"replicas": 1, "worker_hw_tier_name": "Huge"}), (400, "invalid_hw_tier")),
        ("ann", scale, json!({"replicas": 1, "worker_hw_tier_name": "MPI"}), (400, "invalid_hw_tier")),
        ("bob", scale, json!({"replicas": 1, "worker_hw_tier_name": "Huge"}), (403, "unauthorized")),
        (
            "bob",
            "/head-hw-tier/rayclusters/mine",
            json!({"head_hw_tier_name": "Small"}),
            (403, "unauthorized"),
        ),
        ("ann", "/head-hw-tier/rayclusters/mine", json!({}), (400, "bad_request")),
        ("bob", "/restart_head/rayclusters/mine", json!({}), (403, "unauthorized")),
        ("ann", "/restart_head/rayclusters/other", json!({}), (404, "not_found")),
        ("ann", "/unknown/rayclusters/mine", json!({}), (404, "not_found")),
    ] {
        let answer = scaler.patch(key, path, body.clone()).await;
        assert_eq!(refused(&answer), expected, "{key} {path} {body}: {answer:?}");
        assert!(answer.1["message"].is_string());
    }
    let posted = scaler.call("ann", Method::POST, scale, Some(json!({"replicas": 1}))).await;
    assert_eq!(refused(&posted), (405, "method_not_allowed"));
    let restricted = scaler.patch("ann", scale, json!({"replicas": 1, "worker_hw_tier_name": "MPI"})).await;
    assert_eq!(restricted.1["message"], "Hardware tier 'MPI' is restricted to ['mpicluster']");
    let after = scaler.objects.get("mine").await.expect("it exists").metadata.generation;
    assert_eq!(before, after, "nothing was written");

    // An unknown name in a key of existing clients never fails a request.
    let (status, body) = scaler.scale(json!({"replicas": 2, "worker_hw_tier_id": "Huge"})).await;
    assert_eq!((status, &body["ignored_hw_tier"]["name"]), (200, &json!("Huge")), "{body}");
    assert!(body.get("worker_hw_tier_id").is_none(), "{body}");
}

#[tokio::test]
async fn owners_see_their_own_clusters_here_and_none_in_other_apis() {
    let Some(scaler) = Scaler::open("RayCluster").await else { return };
    scaler.create("mine", "id-ann").await;
    scaler.create("theirs", "id-bob").await;
    let names = async |key: &str| {
        let (status, body) = scaler.get(key, "/list/rayclusters").await;
        assert_eq!(status, 200, "{body}");
        let clusters = body["clusters"].as_array().expect("a list").clone();
        assert_eq!(body["count"], clusters.len());
        let name = |cluster: &Value| cluster["metadata"]["name"].as_str().expect("a name").to_owned();
        clusters.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names("ann").await, ["mine"]);
    assert_eq!(names("bob").await, ["theirs"]);
    assert_eq!(names("root").await, ["mine", "theirs"]);
    let (_, list) = scaler.get("ann", "/list/rayclusters").await;
    assert_eq!(list["clusters"][0]["spec"]["envVars"][0], json!({"name": "SECRET", "value": ""}));
    let (_, one) = scaler.get("ann", "/cluster/rayclusters/mine").await;
    assert_eq!(one["spec"]["envVars"][0]["value"], "abc");
    assert_eq!(refused(&scaler.get("ann", "/cluster/rayclusters/theirs").await), (403, "unauthorized"));
    let own = scaler.harness.clusters();
    let elsewhere = async |path: &str| {
        let url = format!("{}{path}", scaler.server.rest);
        let request = scaler.client.get(url).header("X-Domino-Api-Key", "ann");
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(elsewhere("/apis/v1alpha2/clusters").await, 403);
    assert_eq!(elsewhere(&format!("/apis/v1alpha2{own}/theirs")).await, 404);
    assert_eq!(elsewhere(&format!("/apis/v1alpha2{own}/mine")).await, 404);
    assert_eq!(elsewhere("/clustering/v1/clusters").await, 403);
}

#[rstest]
#[case("RayCluster")]
#[case("DaskCluster")]
#[case("SparkCluster")]
#[tokio::test]
async fn a_head_is_restarted_and_its_status_is_followed(#[case] kind: &'static str) {
    let Some(scaler) = Scaler::open(kind).await else { return };
    scaler.create("mine", "id-ann").await;
    let plural = scaler.plural;
    let head_status = async |started_at: &str| {
        let path = format!("/restart_head_status/{plural}/mine?started_at={started_at}");
        scaler.get("ann", &path).await
    };
    eventually("the head is ready", TIMEOUT, async || {
        let answer = head_status("2020-01-01").await;
        if answer.1["status"] == "restarted_and_ready" { Ok(()) } else { Err(answer.1) }
    })
    .await;
    let (status, body) = head_status("2099-12-31T00:00:00Z").await;
    assert_eq!(
        (status, &body["status"], &body["ok"]),
        (200, &json!("not_restarted"), &json!(false)),
        "{body}"
    );
    assert_eq!(refused(&head_status("").await), (400, "bad_request"));
    assert_eq!(refused(&head_status("1756827600").await), (400, "bad_request"));

    let (status, restarted) =
        scaler.call("ann", Method::PATCH, &format!("/restart_head/{plural}/mine?started_at=x"), None).await;
    assert_eq!(status, 202, "{restarted}");
    assert_eq!((&restarted["ok"], &restarted["grace_period_seconds"]), (&json!(true), &json!(20)));
    assert_eq!(restarted["namespace"], scaler.harness.namespace.name());
    let uid = restarted["k8s_response"]["details"]["uid"].as_str().expect("a UID").to_owned();
    let started_at = restarted["started_at"].as_str().expect("a time").to_owned();
    eventually("the next head is ready", TIMEOUT, async || {
        let (status, body) = head_status(&started_at).await;
        assert_eq!(status, 200, "{body}");
        let is_ready = body["status"] == "restarted_and_ready" && body["pod"] == restarted["pod"];
        if is_ready { Ok(()) } else { Err(body) }
    })
    .await;
    let pods = scaler.harness.pods().await;
    assert!(!pods.contains(&uid), "the old pod is gone");
    // The simulated kubelet deletes by name, so that the next head can be replaced once more.
    eventually("the next head is counted", TIMEOUT, async || {
        let path = format!("/restart_status/{plural}/mine/head?started_at={started_at}");
        let (_, body) = scaler.get("ann", &path).await;
        if body["status"] == "restarted_and_ready_counts_ok" { Ok(()) } else { Err(body) }
    })
    .await;
    let workers =
        scaler.get("ann", &format!("/restart_status/{plural}/mine/worker?started_at=2099-01-01")).await;
    assert_eq!(workers.1["status"], "not_restarted", "{workers:?}");
    let other =
        scaler.get("ann", &format!("/restart_status/{plural}/mine/other?started_at={started_at}")).await;
    assert_eq!(refused(&other), (400, "bad_request"));
    let unknown =
        scaler.get("ann", &format!("/restart_head_status/{plural}/other?started_at={started_at}")).await;
    assert_eq!(refused(&unknown), (404, "head_pod_not_found"));
    assert_eq!((&unknown.1["status"], &unknown.1["ok"]), (&json!("head_pod_not_found"), &json!(false)));
}

#[tokio::test]
async fn the_error_says_if_domino_does_not_answer() {
    let Some(mut scaler) = Scaler::open("RayCluster").await else { return };
    scaler.create("mine", "id-ann").await;
    let with_token = async |scaler: &Scaler, token: &str| {
        let url = format!("{}/ddl_cluster_scaler/list/rayclusters", scaler.server.rest);
        scaler.client.get(url).header("Authorization", token).send().await.expect("an answer")
    };
    for reply in [
        Reply::Now(500, "{}".to_owned()),
        Reply::Now(200, "<html>".to_owned()),
        Reply::Now(200, "{}".to_owned()),
        Reply::Now(302, String::new()),
        Reply::Closed,
    ] {
        scaler.domino.fails(reply.clone());
        let response = with_token(&scaler, "Bearer ann-token").await;
        assert_eq!(response.status(), 502, "{reply:?}");
        assert!(response.headers().contains_key("retry-after"));
        let body: Value = response.json().await.expect("JSON");
        assert_eq!(body["error"], "identity_unavailable");
    }
    scaler.domino.recovers();
    assert_eq!(with_token(&scaler, "Bearer ann-token").await.status(), 200);
    scaler.domino.fails_for_tiers(Reply::Now(503, String::new()));
    let answer = scaler.scale(json!({"replicas": 1, "worker_hw_tier_name": "Small"})).await;
    assert_eq!(refused(&answer), (502, "tiers_unavailable"));
    let (status, body) = scaler.scale(json!({"replicas": 2, "worker_hw_tier": "Small"})).await;
    assert_eq!((status, &body["ignored_hw_tier"]["name"]), (200, &json!("Small")), "{body}");
    // With both credentials, only the API key is forwarded. Muster's own tokens never are.
    scaler.domino.recovers();
    drop(scaler.domino.received());
    let url = format!("{}/ddl_cluster_scaler/list/rayclusters", scaler.server.rest);
    let both = scaler.client.get(&url).header("Authorization", "Bearer bob-token");
    let both = both.header("X-Domino-Api-Key", "bob").send().await.expect("an answer");
    assert_eq!(both.status(), 200);
    let received = scaler.domino.received();
    assert_eq!(received.iter().map(|call| call.header("authorization")).collect::<Vec<_>>(), [""]);
    assert_eq!(with_token(&scaler, "Bearer mst_0123").await.status(), 401);
    assert_eq!(scaler.domino.received(), []);
}

#[tokio::test]
async fn a_restart_waits_neither_for_the_first_observation_nor_for_pods_of_earlier_changes() {
    let Some(scaler) = Scaler::open("RayCluster").await else { return };
    scaler.create("mine", "id-ann").await;
    let restart = async || {
        let (status, body) = scaler.call("ann", Method::PATCH, "/restart_head/rayclusters/mine", None).await;
        assert_eq!(status, 202, "{body}");
        let uid = body["k8s_response"]["details"]["uid"].as_str().expect("a UID").to_owned();
        let started_at = body["started_at"].as_str().expect("a time").to_owned();
        eventually("the pod is replaced", TIMEOUT, async || {
            let pods = scaler.harness.pods().await;
            if pods.contains(&uid) { Err(format!("{uid} is still there")) } else { Ok(()) }
        })
        .await;
        (uid, started_at)
    };
    // Right after its discovery.
    let (first, _) = restart().await;
    // No node has this pool, so that its workers never start.
    let (status, body) = scaler.scale(json!({"replicas": 2, "worker_hw_tier_name": "Lost"})).await;
    assert_eq!(status, 200, "{body}");
    eventually("the next head is there", TIMEOUT, async || {
        let answer = scaler.get("ann", "/restart_status/rayclusters/mine/head?started_at=2020-01-01").await;
        if answer.1["running_pods"] == 1 { Ok(()) } else { Err(answer.1) }
    })
    .await;
    let (second, _) = restart().await;
    assert_ne!(first, second);
}

#[tokio::test]
async fn a_cluster_of_domino_takes_precedence_over_one_of_kuberay_with_its_name() {
    let Some(scaler) = Scaler::open("RayCluster").await else { return };
    let Some(_) = scaler.harness.kubernetes.operator(Operator::KubeRay).await else { return };
    let template = json!({"spec": {"containers": [{"name": "ray-head", "image": "rayproject/ray:2.46.0"}]}});
    let spec = json!({"headGroupSpec": {"rayStartParams": {}, "template": template}});
    let theirs = DynamicObject::new(
        "mine",
        &ApiResource::from_gvk(&GroupVersionKind::gvk("ray.io", "v1", "RayCluster")),
    )
    .data(json!({"spec": spec}));
    scaler.harness.ray_clusters().create(&PostParams::default(), &theirs).await.expect("it is accepted");
    eventually("the cluster of KubeRay is discovered", TIMEOUT, async || {
        let answer = scaler.get("root", "/list/rayclusters").await;
        if answer.1["count"] == 1 { Ok(()) } else { Err(answer.1) }
    })
    .await;
    scaler.create("mine", "id-ann").await;
    eventually("both are listed", TIMEOUT, async || {
        let answer = scaler.get("root", "/list/rayclusters").await;
        if answer.1["count"] == 2 { Ok(()) } else { Err(answer.1) }
    })
    .await;
    let (status, shown) = scaler.get("ann", "/cluster/rayclusters/mine").await;
    assert_eq!((status, &shown["spec"]["envVars"][0]["value"]), (200, &json!("abc")), "{shown}");
}

#[tokio::test]
async fn a_cluster_that_is_deleted_during_a_change_is_not_found() {
    let Some(scaler) = Scaler::open("RayCluster").await else { return };
    for pause in [0, 2, 5, 8, 12, 18, 25, 35] {
        scaler.create("mine", "id-ann").await;
        let delete = async {
            tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
            scaler.objects.delete("mine", &DeleteParams::default()).await.expect("it is deleted");
        };
        let (answer, ()) = tokio::join!(scaler.scale(json!({"replicas": 2})), delete);
        assert!(matches!(refused(&answer), (200, "") | (404, "not_found")), "after {pause} ms: {answer:?}");
        eventually("it is gone", TIMEOUT, async || {
            match scaler.objects.get_opt("mine").await.expect("the API server answers") {
                None => Ok(()),
                Some(object) => Err(format!("{:?}", object.metadata.deletion_timestamp)),
            }
        })
        .await;
    }
}
