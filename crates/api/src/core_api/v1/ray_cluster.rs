//! Converts a `RayCluster` object of any creator to the messages of KubeRay clients. Fields that are absent, or
//! have an unexpected form, are shown as empty.

mod pod;

use std::collections::BTreeMap;

use muster_proto::v1::cluster::Environment;
use muster_proto::v1::{
    AutoscalerOptions, Cluster, ClusterSpec, EnvironmentVariables, HeadGroupSpec, WorkerGroupSpec,
};
use muster_proto::wkt::Timestamp;
use serde_json::Value;

use super::cluster::{HEAD_PARAMETER, WORKER_PARAMETER, start_parameters};
use pod::Pod;

/// The prefix of annotations and labels that only Muster writes.
const OURS: &str = "muster.dev/";

/// The annotation with the name of the user, for names that are not valid as a label.
const USER: &str = "muster.dev/user";

/// Converts a `RayCluster` object.
pub(super) fn cluster(object: &Value) -> Cluster {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    let label = |name: &str| text(&metadata["labels"][name]);
    let user = Some(text(&metadata["annotations"][USER])).filter(|user| !user.is_empty());
    let mut annotations = texts(&metadata["annotations"]);
    annotations.retain(|name, _| !name.starts_with(OURS));
    let environment = Environment::from_str_name(&label("ray.io/environment"));
    Cluster {
        name: text(&metadata["name"]),
        namespace: text(&metadata["namespace"]),
        user: user.unwrap_or_else(|| label("ray.io/user")),
        version: label("ray.io/version"),
        environment: environment.unwrap_or(Environment::Dev).into(),
        cluster_spec: Some(ClusterSpec {
            head_group_spec: Some(head(&spec["headGroupSpec"])),
            worker_group_spec: list(&spec["workerGroupSpecs"]).iter().map(workers).collect(),
            enable_in_tree_autoscaling: flag(&spec["enableInTreeAutoscaling"]),
            autoscaler_options: spec["autoscalerOptions"].is_object().then(|| autoscaler(spec)),
            head_service_annotations: texts(&spec["headServiceAnnotations"]),
        }),
        annotations,
        envs: None,
        created_at: moment(&metadata["creationTimestamp"]),
        deleted_at: None,
        cluster_state: text(&status["state"]),
        events: Vec::new(),
        service_endpoint: texts(&status["endpoints"]),
    }
}

fn head(group: &Value) -> HeadGroupSpec {
    const RESERVED: &[&str] =
        &["MY_POD_IP", "RAY_CLUSTER_NAME", "RAY_PORT", "RAY_ADDRESS", "RAY_USAGE_STATS_KUBERAY_IN_USE"];
    let pod = Pod::of(&group["template"]);
    HeadGroupSpec {
        compute_template: pod.compute_template(),
        image: pod.image(),
        service_type: text(&group["serviceType"]),
        enable_ingress: flag(&group["enableIngress"]),
        ray_start_params: start_parameters(texts(&group["rayStartParams"]), HEAD_PARAMETER),
        volumes: pod.volumes(),
        service_account: pod.service_account(),
        image_pull_secret: pod.image_pull_secret(),
        environment: Some(pod.environment(RESERVED)),
        annotations: pod.annotations(),
        labels: pod.labels(),
        image_pull_policy: pod.image_pull_policy(),
        security_context: pod.security_context(),
    }
}

fn workers(group: &Value) -> WorkerGroupSpec {
    const RESERVED: &[&str] = &[
        "MY_POD_IP",
        "RAY_CLUSTER_NAME",
        "RAY_PORT",
        "RAY_ADDRESS",
        "RAY_USAGE_STATS_KUBERAY_IN_USE",
        "RAY_DISABLE_DOCKER_CPU_WARNING",
        "TYPE",
        "CPU_REQUEST",
        "CPU_LIMITS",
        "MEMORY_REQUESTS",
        "MEMORY_LIMITS",
        "MY_POD_NAME",
        "FQ_RAY_IP",
        "RAY_IP",
        "REDIS_PASSWORD",
    ];
    let pod = Pod::of(&group["template"]);
    WorkerGroupSpec {
        group_name: text(&group["groupName"]),
        compute_template: pod.compute_template(),
        image: pod.image(),
        replicas: number(&group["replicas"]),
        min_replicas: number(&group["minReplicas"]),
        max_replicas: number(&group["maxReplicas"]),
        ray_start_params: start_parameters(texts(&group["rayStartParams"]), WORKER_PARAMETER),
        volumes: pod.volumes(),
        service_account: pod.service_account(),
        image_pull_secret: pod.image_pull_secret(),
        environment: Some(pod.environment(RESERVED)),
        annotations: pod.annotations(),
        labels: pod.labels(),
        image_pull_policy: pod.image_pull_policy(),
        security_context: pod.security_context(),
    }
}

fn autoscaler(spec: &Value) -> AutoscalerOptions {
    let options = &spec["autoscalerOptions"];
    let amounts = &options["resources"]["limits"];
    let amount = |name: &str| match &amounts[name] {
        Value::Number(number) => number.to_string(),
        value => text(value),
    };
    let envs = EnvironmentVariables {
        values: pod::values(&options["env"], &[]),
        values_from: pod::whole_sources(&options["envFrom"]),
    };
    let policy = text(&options["imagePullPolicy"]);
    let head = Pod::of(&spec["headGroupSpec"]["template"]);
    AutoscalerOptions {
        idle_timeout_seconds: number(&options["idleTimeoutSeconds"]),
        upscaling_mode: text(&options["upscalingMode"]),
        image: text(&options["image"]),
        image_pull_policy: if policy == "Always" { policy } else { String::new() },
        cpu: amount("cpu"),
        memory: amount("memory"),
        envs: (envs != EnvironmentVariables::default()).then_some(envs),
        volumes: head.mounted(list(&options["volumeMounts"])),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn flag(value: &Value) -> bool {
    value.as_bool().unwrap_or_default()
}

fn number(value: &Value) -> i32 {
    let number = value.as_i64().unwrap_or_default();
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    value.as_object().into_iter().flatten().filter_map(pair).collect()
}

fn moment(value: &Value) -> Option<Timestamp> {
    let moment: jiff::Timestamp = value.as_str()?.parse().ok()?;
    Some(Timestamp::from_micros(moment.as_microsecond()))
}

#[cfg(test)]
mod tests;
