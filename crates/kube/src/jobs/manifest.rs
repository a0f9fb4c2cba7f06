//! The Job that runs the command of a job. Pure.

use std::collections::BTreeMap;

use muster_core::ids::JobId;
use muster_core::job::Job;
use muster_core::shape::Shape;
use muster_engine::ports::jobs::STOP_GRACE;
use muster_frameworks::kubernetes::{Manifest, resources};
use serde_json::{Map, Value, json};

use crate::apps;
use crate::operator_clusters::{ClientSource, TokenSource};
use crate::ownership;

/// The container that runs the command.
pub(super) const CONTAINER: &str = "job";

/// The annotation with the job's name.
const NAME: &str = "muster.dev/job-name";

/// The time for which Kubernetes keeps a Job that has ended: its log can be read, and a server that was down can
/// observe the end.
const TTL_SECONDS: u32 = 24 * 3600;

/// The fields of the head's pod that the pod of a job gets: where it may run, and as which account and user.
const POD_FIELDS: [&str; 8] = [
    "serviceAccountName",
    "automountServiceAccountToken",
    "imagePullSecrets",
    "nodeSelector",
    "tolerations",
    "securityContext",
    "priorityClassName",
    "runtimeClassName",
];

/// The fields of the head's main container that the container of a job gets.
const CONTAINER_FIELDS: [&str; 3] = ["image", "imagePullPolicy", "securityContext"];

/// The resources that the container of a job gets in the amounts of the head. Accelerators and other resources stay
/// with the cluster.
const AMOUNTS: [&str; 2] = ["cpu", "memory"];

/// Returns the name of the Job of a job. It has the id, so that a second Job of the same job is refused.
pub(super) fn object_name(job: JobId) -> String {
    format!("muster-job-{job}")
}

/// Returns the Job of a job: one pod, which is not retried, in the image of the head.
pub(super) fn job_manifest(
    job: &Job,
    source: &ClientSource,
    variables: BTreeMap<String, String>,
) -> Manifest {
    let ClientSource { head, token } = source;
    let main = &head["spec"]["containers"][0];
    let mut container = copied_fields(main, &CONTAINER_FIELDS);
    container.insert("name".to_owned(), CONTAINER.into());
    let command: Vec<String> = job.spec.words(None).iter().map(|word| literal(word)).collect();
    container.insert("command".to_owned(), command.into());
    container.insert("env".to_owned(), environment(job, variables, token.as_ref()));
    container.insert("resources".to_owned(), amounts(&main["resources"]));
    let mut pod = copied_fields(&head["spec"], &POD_FIELDS);
    pod.insert("restartPolicy".to_owned(), "Never".into());
    pod.insert("terminationGracePeriodSeconds".to_owned(), STOP_GRACE.as_secs().into());
    pod.insert("containers".to_owned(), json!([container]));
    let labels = json!({
        ownership::JOB: job.id.to_string(),
        ownership::CLUSTER: job.cluster_id.to_string(),
        "app.kubernetes.io/managed-by": "muster",
    });
    let body = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": object_name(job.id),
            "namespace": job.namespace,
            "labels": labels,
            "annotations": {NAME: job.name},
        },
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": TTL_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    });
    Manifest { kind: &apps::JOB, body, owned: false }
}

fn copied_fields(from: &Value, keys: &[&str]) -> Map<String, Value> {
    let given = |key: &&str| Some(((*key).to_owned(), from.get(*key)?.clone()));
    keys.iter().filter_map(given).collect()
}

/// Escapes a text, because Kubernetes replaces references to variables such as `$(HOME)`.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

/// Returns the variables of the cluster and those of the job, which take precedence. The token is a reference to its
/// Secret.
fn environment(job: &Job, mut variables: BTreeMap<String, String>, token: Option<&TokenSource>) -> Value {
    variables.extend(job.spec.environment.clone());
    let variable = |(name, value): (String, String)| match token.filter(|token| token.value == value) {
        Some(TokenSource { secret, key, .. }) => {
            json!({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}})
        }
        None => json!({"name": name, "value": literal(&value)}),
    };
    variables.into_iter().map(variable).collect()
}

/// Returns the CPU and memory of the head, or those of the default shape.
fn amounts(head: &Value) -> Value {
    let amounts_of = |side: &str| copied_fields(&head[side], &AMOUNTS);
    let (requests, limits) = (amounts_of("requests"), amounts_of("limits"));
    if requests.is_empty() && limits.is_empty() {
        return resources(&Shape::default());
    }
    json!({"requests": requests, "limits": limits})
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use rstest::rstest;

    use super::*;

    fn head() -> Value {
        json!({"spec": {
            "nodeName": "node-1",
            "serviceAccountName": "ann",
            "imagePullSecrets": [{"name": "pull"}],
            "nodeSelector": {"pool": "default"},
            "volumes": [{"name": "kube-api-access-x"}],
            "containers": [
                {
                    "name": "ray-head", "image": "rayproject/ray:2.46.0", "imagePullPolicy": "IfNotPresent",
                    "resources": {
                        "requests": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"},
                        "limits": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"},
                    },
                },
                {"name": "autoscaler", "image": "other:1"},
            ],
        }})
    }

    fn job(command: &[&str]) -> Job {
        let mut job = sample::job();
        job.spec.command = command.iter().map(|&word| word.to_owned()).collect();
        job
    }

    fn rendered(job: &Job, head: Value, token: Option<TokenSource>) -> Value {
        let variables = [("RAY_ADDRESS", "ray://a:1"), ("RAY_AUTH_TOKEN", "s3cret"), ("LEVEL", "info")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        job_manifest(job, &ClientSource { head, token }, variables).body
    }

    #[test]
    fn a_job_is_one_pod_with_the_image_and_the_place_of_its_head() {
        let job = job(&["python", "train.py"]);
        let body = rendered(&job, head(), None);
        assert_eq!(body["metadata"]["name"], format!("muster-job-{}", job.id));
        assert_eq!(body["metadata"]["labels"], body["spec"]["template"]["metadata"]["labels"]);
        assert_eq!(body["metadata"]["labels"]["muster.dev/job"], job.id.to_string());
        assert_eq!(body["metadata"]["labels"]["muster.dev/cluster"], job.cluster_id.to_string());
        assert_eq!(body["spec"]["backoffLimit"], 0);
        let pod = &body["spec"]["template"]["spec"];
        assert_eq!(
            (&pod["restartPolicy"], &pod["terminationGracePeriodSeconds"]),
            (&json!("Never"), &json!(10))
        );
        assert_eq!(pod["serviceAccountName"], "ann");
        assert_eq!(pod["nodeSelector"], json!({"pool": "default"}));
        assert!(pod.get("nodeName").is_none() && pod.get("volumes").is_none(), "{pod}");
        let [container] = &pod["containers"].as_array().expect("containers")[..] else { panic!("{pod}") };
        assert_eq!(container["image"], "rayproject/ray:2.46.0");
        assert_eq!(container["command"], json!(["python", "train.py"]));
        let amounts = json!({"cpu": "2", "memory": "4Gi"});
        assert_eq!(container["resources"], json!({"requests": amounts, "limits": amounts}));
        let parsed: Result<k8s_openapi::api::batch::v1::Job, _> = serde_json::from_value(body);
        assert!(parsed.is_ok(), "{parsed:?}");
    }

    #[test]
    fn a_head_without_amounts_gives_its_job_a_small_shape() {
        let mut head = head();
        head["spec"]["containers"][0]["resources"] = json!({});
        let body = rendered(&job(&["true"]), head, None);
        let resources = &body["spec"]["template"]["spec"]["containers"][0]["resources"];
        assert_eq!(resources["requests"], json!({"cpu": "1", "memory": "2Gi"}));
    }

    #[rstest]
    #[case::text(&["sh", "-c", "echo $(HOME) $X"], json!(["sh", "-c", "echo $$(HOME) $$X"]))]
    #[case::python_file(&["train.py", "-v"], json!(["python3", "train.py", "-v"]))]
    fn kubernetes_leaves_a_command_as_it_is(#[case] command: &[&str], #[case] expected: Value) {
        let body = rendered(&job(command), head(), None);
        assert_eq!(body["spec"]["template"]["spec"]["containers"][0]["command"], expected);
    }

    #[test]
    fn own_variables_take_precedence_and_the_token_stays_in_its_secret() {
        let mut job = job(&["true"]);
        job.spec.environment = [("LEVEL".to_owned(), "$debug".to_owned())].into();
        let token = TokenSource { secret: "fred".to_owned(), key: "auth_token", value: "s3cret".to_owned() };
        let body = rendered(&job, head(), Some(token));
        let expected = json!([
            {"name": "LEVEL", "value": "$$debug"},
            {"name": "RAY_ADDRESS", "value": "ray://a:1"},
            {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": "fred", "key": "auth_token"}}},
        ]);
        assert_eq!(body["spec"]["template"]["spec"]["containers"][0]["env"], expected);
        assert!(!body.to_string().contains("s3cret"), "{body}");
    }
}
