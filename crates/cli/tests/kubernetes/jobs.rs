//! Jobs on Kubernetes. No kubelet runs here, so the tests write the status of pods.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{LimitRange, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use muster_testkit::{Side, eventually};
use reqwest::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::harness::Harness;
use crate::server::{Server, TIMEOUT};

const LABEL: &str = "muster.dev/job";

/// A finalizer on a pod that was deleted, for the time in which a kubelet would end its containers.
const KUBELET: &str = "muster.test/kubelet";

/// A resource that no machine has: pods that request it are not scheduled.
const NOWHERE: &str = "example.test/none";

fn ray(name: &str) -> Value {
    let group = json!({"group_name": "default", "replicas": 0});
    json!({
        "name": name, "framework": "ray", "provider": "kubernetes", "cluster_spec": {"worker_group_spec": [group]},
    })
}

/// Starts a server with a running cluster 'fred', after which no new pod is scheduled; `None` if the test is skipped.
async fn with_cluster() -> Option<(Harness, Server)> {
    let harness = Harness::open().await?;
    let server = harness.server(&[]).await;
    server.post(&format!("{}?wait_for=reached", harness.clusters()), ray("fred")).await;
    hold_pods(&harness).await;
    Some((harness, server))
}

/// Makes every new container request a resource that no machine has.
async fn hold_pods(harness: &Harness) {
    let amounts: BTreeMap<&str, &str> = [(NOWHERE, "1")].into();
    let limit = json!({"type": "Container", "default": amounts, "defaultRequest": amounts});
    let range = json!({"metadata": {"name": "nowhere"}, "spec": {"limits": [limit]}});
    let ranges: Api<LimitRange> = harness.namespace.api();
    let range = serde_json::from_value(range).expect("a LimitRange");
    ranges.create(&PostParams::default(), &range).await.expect("it is created");
    let pods: Api<Pod> = harness.namespace.api();
    let container = json!({"name": "c", "image": "i"});
    let pod = json!({"metadata": {"name": "probe"}, "spec": {"containers": [container]}});
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    eventually("limits that the API server applies", TIMEOUT, async || {
        let parameters = PostParams { dry_run: true, ..PostParams::default() };
        let pod = serde_json::to_value(pods.create(&parameters, &pod).await.expect("a pod")).expect("JSON");
        let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
        if requests[NOWHERE] == "1" { Ok(()) } else { Err(pod) }
    })
    .await;
}

fn jobs_path(harness: &Harness) -> String {
    format!("/namespaces/{}/jobs", harness.namespace.name())
}

async fn submit(harness: &Harness, server: &Server, name: &str) {
    let job = json!({"name": name, "cluster": "fred", "command": ["python", "train.py"]});
    server.post(&jobs_path(harness), json!({"job": job})).await;
}

async fn wait_for_state(harness: &Harness, server: &Server, name: &str, state: &str) -> Value {
    let path = format!("{}/{name}", jobs_path(harness));
    eventually(&format!("the state {state}"), TIMEOUT, async || {
        let job = server.get(&path).await;
        if job["state"] == state { Ok(job) } else { Err(job) }
    })
    .await
}

async fn job_pods(harness: &Harness) -> Vec<Pod> {
    let pods: Api<Pod> = harness.namespace.api();
    pods.list(&ListParams::default().labels(LABEL)).await.expect("a list").items
}

async fn count_job_objects(harness: &Harness) -> usize {
    let jobs: Api<Job> = harness.namespace.api();
    jobs.list(&ListParams::default().labels(LABEL)).await.expect("a list").items.len()
}

/// Waits for the only pod of a job.
async fn job_pod(harness: &Harness) -> Pod {
    eventually("the pod of a job", TIMEOUT, async || {
        let mut pods = job_pods(harness).await;
        match (pods.pop(), pods.len()) {
            (Some(pod), 0) => Ok(pod),
            (_, more) => Err(format!("{more} more")),
        }
    })
    .await
}

/// Writes the state of the command's container, as a kubelet does.
async fn report(harness: &Harness, pod: &Pod, phase: &str, state: Value) {
    let container = json!({
        "name": "job", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
    });
    let status = json!({"status": {"phase": phase, "containerStatuses": [container]}});
    let (pods, name): (Api<Pod>, _) =
        (harness.namespace.api(), pod.metadata.name.as_deref().expect("a name"));
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.expect("a status");
}

async fn report_running(harness: &Harness) -> Pod {
    let pod = job_pod(harness).await;
    report(harness, &pod, "Running", json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})).await;
    pod
}

async fn report_end(harness: &Harness, pod: &Pod, code: i32) {
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    report(harness, pod, phase, json!({"terminated": {"exitCode": code}})).await;
}

async fn set_finalizers(harness: &Harness, pod: &Pod, finalizers: Value) {
    let (pods, name): (Api<Pod>, _) =
        (harness.namespace.api(), pod.metadata.name.as_deref().expect("a name"));
    let patch = json!({"metadata": {"finalizers": finalizers}});
    pods.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.expect("it is written");
}

#[tokio::test]
async fn a_job_is_one_pod_whose_reasons_and_exit_status_are_passed_on() {
    let Some((harness, server)) = with_cluster().await else { return };
    let submit =
        ["job", "submit", "fred", "-n", harness.namespace.name(), "--name", "report", "--env", "A=$(B)"];
    let submitted = server.muster(&[&submit[..], &["--", "sh", "-c", "echo $(A)"]].concat());
    assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));
    assert_eq!(submitted.stdout, b"report\n");
    let pod = job_pod(&harness).await;
    let object = serde_json::to_value(&pod).expect("JSON");
    let container = &object["spec"]["containers"][0];
    let head = harness.ray_clusters().get("fred").await.expect("its object");
    let head = &head.data["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], head["image"]);
    assert_eq!(container["command"], json!(["sh", "-c", "echo $$(A)"]));
    let variables = container["env"].as_array().expect("variables");
    let value = |name: &str| variables.iter().find(|each| each["name"] == name).map(|each| &each["value"]);
    assert_eq!((value("A"), value("MUSTER_JOB")), (Some(&json!("$$(B)")), Some(&json!("report"))));
    assert!(
        value("RAY_ADDRESS").and_then(Value::as_str).is_some_and(|at| at.contains("fred")),
        "{container}"
    );

    let path = format!("{}/report", jobs_path(&harness));
    eventually("the reason of the scheduler", TIMEOUT, async || {
        let job = server.get(&path).await;
        let reason = job["statusReason"].as_str().unwrap_or_default();
        let is_shown = job["state"] == "PENDING" && reason.contains("Insufficient example.test/none");
        if is_shown { Ok(()) } else { Err(job) }
    })
    .await;
    report(&harness, &pod, "Pending", json!({"waiting": {"reason": "ImagePullBackOff", "message": "none"}}))
        .await;
    eventually("the reason of the kubelet", TIMEOUT, async || {
        let job = server.get(&path).await;
        let is_shown = job["statusReason"] == "Its pod waits: ImagePullBackOff: none";
        if is_shown { Ok(()) } else { Err(job) }
    })
    .await;
    report_running(&harness).await;
    let running = wait_for_state(&harness, &server, "report", "RUNNING").await;
    assert_eq!(running["startedAt"], "2026-01-01T00:00:00Z", "{running}");
    report_end(&harness, &pod, 7).await;
    let waited = harness.muster(&server, &["job", "wait", "report"]);
    let message = String::from_utf8_lossy(&waited.stderr);
    assert_eq!(waited.status.code(), Some(7), "{message}");
    assert!(message.contains("job 'report' FAILED: Its command exited with code 7."), "{message}");
    assert_eq!(count_job_objects(&harness).await, 1, "its log can still be read");
}

#[tokio::test]
async fn a_job_that_is_stopped_ends_by_a_signal_and_leaves_nothing() {
    let Some((harness, server)) = with_cluster().await else { return };
    submit(&harness, &server, "long").await;
    let pod = report_running(&harness).await;
    wait_for_state(&harness, &server, "long", "RUNNING").await;
    let mut finalizers = pod.metadata.finalizers.clone().unwrap_or_default();
    finalizers.push(KUBELET.to_owned());
    set_finalizers(&harness, &pod, json!(finalizers)).await;
    assert!(harness.muster(&server, &["job", "stop", "long", "--no-wait"]).status.success());
    eventually("the deletion of the pod", TIMEOUT, async || {
        let pod = job_pod(&harness).await;
        if pod.metadata.deletion_timestamp.is_some() { Ok(()) } else { Err("it is not deleted") }
    })
    .await;
    report_end(&harness, &pod, 143).await;
    set_finalizers(&harness, &pod, json!(null)).await;
    let stopped = wait_for_state(&harness, &server, "long", "STOPPED").await;
    assert_eq!(stopped["exitCode"], 143, "{stopped}");
    let reason = stopped["statusReason"].as_str().unwrap_or_default();
    assert!(reason.ends_with("its command was ended by signal 15 (SIGTERM)."), "{reason}");
    eventually("the end of its objects", TIMEOUT, async || {
        let left = (count_job_objects(&harness).await, job_pods(&harness).await.len());
        if left == (0, 0) { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_job_that_waits_for_its_pod_is_stopped_without_a_command() {
    let Some((harness, server)) = with_cluster().await else { return };
    submit(&harness, &server, "early").await;
    job_pod(&harness).await;
    let stopped = harness.muster(&server, &["job", "stop", "early"]);
    assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
    let job = wait_for_state(&harness, &server, "early", "STOPPED").await;
    let reason = job["statusReason"].as_str().unwrap_or_default();
    assert!(reason.contains("its command was not started"), "{reason}");
    assert!(job["exitCode"].is_null() && job["startedAt"].is_null(), "{job}");
}

#[tokio::test]
async fn a_job_fails_with_its_cluster() {
    let Some((harness, server)) = with_cluster().await else { return };
    submit(&harness, &server, "left").await;
    report_running(&harness).await;
    wait_for_state(&harness, &server, "left", "RUNNING").await;
    let deleted = harness.muster(&server, &["delete", "fred"]);
    assert!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
    let job = wait_for_state(&harness, &server, "left", "FAILED").await;
    let reason = job["statusReason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("Its cluster 'fred' was deleted: its command "), "{reason}");
    eventually("the end of its pod", TIMEOUT, async || {
        let left = job_pods(&harness).await.len();
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
}

#[rstest]
#[case::before_its_creation(Side::Before)]
#[case::after_its_creation(Side::After)]
#[tokio::test]
async fn a_server_that_is_killed_around_the_creation_of_a_job_starts_it_once(#[case] side: Side) {
    let Some(harness) = Harness::open().await else { return };
    let gate = harness.kubernetes.gate().await;
    let server = harness.server_through(&gate.kubeconfig(), &[]).await;
    server.post(&format!("{}?wait_for=reached", harness.clusters()), ray("fred")).await;
    hold_pods(&harness).await;
    gate.open(Some((1, side)));
    submit(&harness, &server, "once").await;
    gate.closed().await;
    let server = server.killed().await;
    gate.open_again();
    let server = server.start_again().await;
    let pod = report_running(&harness).await;
    wait_for_state(&harness, &server, "once", "RUNNING").await;
    // The next server follows the command that runs.
    let server = server.kill_and_start_again().await;
    wait_for_state(&harness, &server, "once", "RUNNING").await;
    report_end(&harness, &pod, 0).await;
    let job = wait_for_state(&harness, &server, "once", "SUCCEEDED").await;
    assert_eq!(job["exitCode"], 0, "{job}");
    let created =
        gate.written().into_iter().filter(|written| written.path.contains("/jobs/")).map(|it| it.method);
    let created = created.filter(|method| method == "POST").count();
    assert!((1..=2).contains(&created), "{created} creations");
    assert_eq!((count_job_objects(&harness).await, job_pods(&harness).await.len()), (1, 1));
}

#[tokio::test]
async fn an_end_that_no_server_observed_is_recorded_by_the_next_one() {
    let Some((harness, server)) = with_cluster().await else { return };
    submit(&harness, &server, "alone").await;
    let pod = report_running(&harness).await;
    wait_for_state(&harness, &server, "alone", "RUNNING").await;
    let server = server.killed().await;
    report_end(&harness, &pod, 5).await;
    let server = server.start_again().await;
    let job = wait_for_state(&harness, &server, "alone", "FAILED").await;
    assert_eq!(job["exitCode"], 5, "{job}");
}

/// The simulated kubelet (kwok) ends the pods of Jobs with exit status 0.
#[tokio::test]
async fn a_cluster_of_a_jobs_own_goes_with_it() {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    let job = json!({"name": "own", "command": ["true"]});
    server.post(&jobs_path(&harness), json!({"job": job, "new_cluster": {"cluster": ray("")}})).await;
    let job = wait_for_state(&harness, &server, "own", "SUCCEEDED").await;
    assert_eq!((&job["cluster"], &job["exitCode"]), (&json!("own"), &json!(0)), "{job}");
    eventually("the end of its cluster", TIMEOUT, async || {
        let object = harness.ray_clusters().get_opt("own").await.expect("an answer");
        let stays = object.filter(|object| object.metadata.deletion_timestamp.is_none());
        if stays.is_none() { Ok(()) } else { Err("it is there") }
    })
    .await;
}

#[rstest]
#[case::folder(ray("fred"), "/src", "working_dir is only for local processes: add the files to the image")]
#[case::single_pods(
    json!({
        "name": "fred", "provider": "kubernetes", "profile": "kubernetes.pod-1.0",
        "profile_properties": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "cluster_spec": {"worker_group_spec": [{"group_name": "default", "replicas": 0}]},
    }),
    "",
    "a job runs in the image of its cluster's head, and clusters of single pods have none"
)]
#[tokio::test]
async fn a_job_that_cannot_run_in_a_pod_is_refused(
    #[case] cluster: Value,
    #[case] folder: &str,
    #[case] expected: &str,
) {
    let Some(harness) = Harness::open().await else { return };
    let server = harness.server(&[]).await;
    server.post(&format!("{}?wait_for=reached", harness.clusters()), cluster).await;
    let job = json!({"cluster": "fred", "command": ["true"], "working_dir": folder});
    let (status, code, message) =
        server.refusal(Method::POST, &jobs_path(&harness), Some(json!({"job": job}))).await;
    assert_eq!((status, code.as_str()), (400, "InvalidJob"), "{message}");
    assert!(message.starts_with(expected), "{message}");
}
