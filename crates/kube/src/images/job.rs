//! The Job that builds an image, and the state of the build by its pod. Pure.

use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::Pod;
use muster_core::ids::TaskId;
use muster_engine::ports::images::{BUILD_LIMIT, ImageBuild};
use muster_frameworks::kubernetes::resources;
use serde_json::{Value, json};

use super::{ImageOptions, dockerfile};
use crate::containers::{self, ContainerProgress};

/// The label of Jobs and pods that build images, with the task.
pub(super) const TASK: &str = "muster.dev/image-build";

/// The name of the container that builds.
pub(super) const CONTAINER: &str = "build";

/// The time for which a Job that ended is kept for inspection.
const KEPT_SECONDS: u32 = 3600;

/// The length limit of a termination message.
const MAX_MESSAGE_LENGTH: u32 = 2000;

/// Returns the script of the builder. It writes the digest of the image, or else the line with the error, as the
/// termination message of its container.
fn script() -> String {
    format!(
        "mkdir /tmp/build && printf %s \"$DOCKERFILE\" > /tmp/build/Dockerfile\n\
         if buildctl-daemonless.sh build --frontend dockerfile.v0 --local context=/tmp/build --local dockerfile=/tmp/build \
         --output \"type=image,name=$IMAGE,push=true\" --metadata-file /tmp/metadata.json --progress plain 2> /tmp/log; then\n\
         cat /tmp/log\n\
         sed -n 's/.*\"containerimage.digest\": *\"\\([^\"]*\\)\".*/\\1/p' /tmp/metadata.json > /dev/termination-log\n\
         else\n\
         cat /tmp/log\n\
         (grep -i error /tmp/log || cat /tmp/log) | tail -n 1 | cut -c 1-{MAX_MESSAGE_LENGTH} > /dev/termination-log\n\
         exit 1\n\
         fi\n"
    )
}

/// Returns the name of the Job of a task.
pub(super) fn job_name(task: TaskId) -> String {
    format!("muster-image-{task}")
}

/// Returns the Job of a build. It has the name of the task, so that a repeated creation finds it.
pub(super) fn manifest(task: TaskId, build: &ImageBuild, options: &ImageOptions) -> Value {
    let labels = json!({TASK: task.to_string(), "app.kubernetes.io/managed-by": "muster"});
    let mut container = json!({
        "name": CONTAINER,
        "image": options.builder,
        "command": ["sh", "-c", script()],
        "env": [
            {"name": "IMAGE", "value": build.image},
            // Kubernetes expands $(NAME) in values; "$$" prevents that.
            {"name": "DOCKERFILE", "value": dockerfile::render(&build.spec).replace('$', "$$")},
            {"name": "BUILDKITD_FLAGS", "value": "--oci-worker-no-process-sandbox"},
        ],
        "resources": resources(&build.shape),
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "seccompProfile": {"type": "Unconfined"}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    let mut spec = json!({"restartPolicy": "Never", "automountServiceAccountToken": false});
    if let Some(secret) = &options.push_secret {
        let items = json!([{"key": ".dockerconfigjson", "path": "config.json"}]);
        spec["volumes"] = json!([{"name": "push", "secret": {"secretName": secret, "items": items}}]);
        let mount = json!({"name": "push", "mountPath": "/home/user/.docker", "readOnly": true});
        container["volumeMounts"] = json!([mount]);
    }
    if !build.shape.tolerations.is_empty() {
        spec["tolerations"] = json!(build.shape.tolerations);
    }
    if !build.shape.selectors.is_empty() {
        spec["nodeSelector"] = json!(build.shape.selectors);
    }
    spec["containers"] = json!([container]);
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(task),
            "namespace": build.namespace,
            "labels": labels,
            "annotations": {"muster.dev/image-template": build.name},
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": BUILD_LIMIT.secs(),
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}

/// The state of a build, by its pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BuildState {
    /// The build has not begun, for this reason.
    Waiting(String),
    /// The builder runs.
    Running,
    /// The image was pushed, and has this digest.
    Succeeded(String),
    /// The build failed, for this reason.
    Failed(String),
}

/// Returns why a Job has ended, of whose pod nothing is left that has the result; none while it has not ended.
pub(super) fn end_without_pod(job: &Job) -> Option<String> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let ended = |condition: &&JobCondition| {
        condition.status == "True" && matches!(condition.type_.as_str(), "Failed" | "Complete")
    };
    let end = conditions.iter().find(ended)?;
    let (reason, message) = (end.reason.as_deref(), end.message.as_deref());
    let details: Vec<&str> =
        [reason, message].into_iter().flatten().filter(|text| !text.is_empty()).collect();
    let details = if details.is_empty() { end.type_.clone() } else { details.join(": ") };
    Some(format!("its pod is gone, and its Job has ended without a result: {details}"))
}

/// Reads the state of a build from its pod.
pub(super) fn build_state(pod: &Pod) -> BuildState {
    match containers::container_progress(pod, CONTAINER) {
        ContainerProgress::Waiting(why) => BuildState::Waiting(why),
        ContainerProgress::Running(_) => BuildState::Running,
        ContainerProgress::PodFailed(why) => BuildState::Failed(why),
        ContainerProgress::Ended(ended) => {
            let message = ended.message.as_deref().unwrap_or_default().trim().to_owned();
            match (ended.exit_code, message.starts_with("sha256:")) {
                (0, true) => BuildState::Succeeded(message),
                (0, false) => BuildState::Failed("the builder ended without a digest".to_owned()),
                (code, _) if message.is_empty() => {
                    BuildState::Failed(format!("the builder ended with exit code {code}"))
                }
                _ => BuildState::Failed(message),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_core::image_template::ImageSpec;
    use muster_core::shape::Shape;
    use rstest::rstest;

    use super::*;

    fn task() -> TaskId {
        "0190f3a2-7b1c-7d4e-8f00-1234567890ab".parse().expect("an id")
    }

    #[test]
    fn a_build_is_one_job_with_its_dockerfile_and_image() {
        let build = ImageBuild {
            namespace: "demo".to_owned(),
            name: "mine".to_owned(),
            image: "registry.test/demo/mine:1".to_owned(),
            spec: ImageSpec {
                base_image: "a:1".to_owned(),
                environment_variables: [("P".to_owned(), "$(IMAGE)".to_owned())].into(),
                ..ImageSpec::default()
            },
            shape: Shape { cpu: "2".parse().ok(), ..Shape::default() },
        };
        let options = ImageOptions {
            registry: Some("registry.test".to_owned()),
            builder: "builder:1".to_owned(),
            push_secret: Some("push".to_owned()),
        };
        let job = manifest(task(), &build, &options);
        assert_eq!(job["metadata"]["name"], "muster-image-0190f3a2-7b1c-7d4e-8f00-1234567890ab");
        assert_eq!(job["spec"]["backoffLimit"], 0);
        let pod = &job["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!((&container["image"], &pod["restartPolicy"]), (&json!("builder:1"), &json!("Never")));
        assert_eq!(container["env"][0], json!({"name": "IMAGE", "value": "registry.test/demo/mine:1"}));
        assert_eq!(
            container["env"][1],
            json!({"name": "DOCKERFILE", "value": "FROM a:1\nENV P=\"\\$$(IMAGE)\"\n"})
        );
        assert_eq!(container["resources"]["requests"]["cpu"], "2");
        assert_eq!(container["volumeMounts"][0]["mountPath"], "/home/user/.docker");
        assert_eq!(pod["volumes"][0]["secret"]["secretName"], "push");
        let parsed: Result<Job, _> = serde_json::from_value(job);
        assert!(parsed.is_ok(), "{parsed:?}");
    }

    fn ended(code: i32, message: &str) -> Value {
        let state = json!({"terminated": {"exitCode": code, "message": message}});
        json!({"phase": "Running", "containerStatuses": [{
            "name": CONTAINER, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        }]})
    }

    #[rstest]
    #[case::open(json!({"active": 1}), None)]
    #[case::its_pod_was_deleted(
        json!({"conditions": [
            {"type": "FailureTarget", "status": "True"},
            {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}]}),
        Some("its pod is gone, and its Job has ended without a result: BackoffLimitExceeded: too often")
    )]
    #[case::its_pod_was_collected(
        json!({"conditions": [{"type": "Complete", "status": "True"}]}),
        Some("its pod is gone, and its Job has ended without a result: Complete")
    )]
    fn a_job_that_has_ended_without_a_pod_has_failed(#[case] status: Value, #[case] expected: Option<&str>) {
        let job = serde_json::from_value(json!({"metadata": {}, "status": status})).expect("a Job");
        assert_eq!(end_without_pod(&job).as_deref(), expected);
    }

    #[rstest]
    #[case::new(json!({}), BuildState::Waiting(String::new()))]
    #[case::unscheduled(
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "no gpu"}]}),
        BuildState::Waiting("no gpu".to_owned()),
    )]
    #[case::runs(json!({"phase": "Running"}), BuildState::Running)]
    #[case::pushed(ended(0, "sha256:ab\n"), BuildState::Succeeded("sha256:ab".to_owned()))]
    #[case::silent(ended(0, ""), BuildState::Failed("the builder ended without a digest".to_owned()))]
    #[case::failed(ended(1, "ERROR: no such package"), BuildState::Failed("ERROR: no such package".to_owned()))]
    #[case::killed(ended(137, ""), BuildState::Failed("the builder ended with exit code 137".to_owned()))]
    #[case::evicted(json!({"phase": "Failed", "message": "no disk"}), BuildState::Failed("no disk".to_owned()))]
    fn the_state_of_a_build_is_that_of_its_pod(#[case] status: Value, #[case] expected: BuildState) {
        let pod = serde_json::from_value(json!({"metadata": {}, "status": status})).expect("a pod");
        assert_eq!(build_state(&pod), expected);
    }
}
