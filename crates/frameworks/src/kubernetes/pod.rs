//! The pod of a node, and its main container.

mod volume;

use muster_core::quantity::{Cpu, Memory};
use muster_core::recipe::{EnvSource, EnvSourceKind, NodeRecipe, SecurityContext};
use muster_core::shape::Shape;
use serde_json::{Map, Value, json};

pub(super) use volume::mount;

/// The default resources of a node: enough for each framework to start.
const CPU: Cpu = Cpu::from_millis(1000);
const MEMORY: Memory = Memory::from_bytes(2 << 30);

/// The main container of a node, with the additions of a flavor.
pub(super) struct Container<'a> {
    pub(super) name: &'a str,
    pub(super) image: &'a str,
    pub(super) node: &'a NodeRecipe,
    /// Variables that come before those of the recipe.
    pub(super) environment: Vec<Value>,
    pub(super) ports: Vec<Value>,
}

impl Container<'_> {
    pub(super) fn json(self) -> Value {
        let Self { name, image, node, environment, ports } = self;
        let mut container = json!({
            "name": name,
            "image": node.image.as_deref().unwrap_or(image),
            "imagePullPolicy": node.pod.image_pull_policy.as_deref().unwrap_or("IfNotPresent"),
            "resources": resources(&node.shape()),
        });
        let own = node.env.iter().map(|(name, value)| variable(name, value));
        let from = node.pod.env_from.iter().map(|(name, source)| variable_from(name, source));
        // A user's variable replaces that of the flavor with the same name.
        let is_given = |variable: &Value| {
            let name = variable["name"].as_str().unwrap_or_default();
            node.env.contains_key(name) || node.pod.env_from.contains_key(name)
        };
        let fixed = environment.into_iter().filter(|variable| !is_given(variable));
        let all: Vec<Value> = fixed.chain(own).chain(from).collect();
        for (key, list) in [("env", all), ("ports", ports)] {
            if !list.is_empty() {
                container[key] = Value::Array(list);
            }
        }
        if let Some(SecurityContext { privileged, add, drop }) = &node.pod.security_context {
            let mut capabilities = Map::new();
            for (key, names) in
                [("add", add), ("drop", drop)].into_iter().filter(|(_, names)| !names.is_empty())
            {
                capabilities.insert(key.to_owned(), json!(names));
            }
            container["securityContext"] = json!({"capabilities": capabilities});
            if let Some(privileged) = privileged {
                container["securityContext"]["privileged"] = (*privileged).into();
            }
        }
        container
    }
}

/// Returns the requests and limits of a container. They are equal unless the shape has other limits: Kubernetes evicts
/// pods with equal amounts last.
pub fn resources(shape: &Shape) -> Value {
    let cpu = shape.cpu.unwrap_or(CPU);
    let memory = memory(shape);
    let gpu = shape.gpu.map(|gpu| (shape.gpu_resource(), gpu));
    let extended = shape.extended_resources.iter().map(|(name, amount)| (name.as_str(), *amount));
    let others: Map<String, Value> = extended
        .chain(gpu)
        .filter(|(_, amount)| *amount > 0)
        .map(|(name, amount)| (name.to_owned(), amount.to_string().into()))
        .collect();
    let amounts = |cpu: Cpu, memory: Memory| {
        let mut amounts = others.clone();
        amounts.insert("cpu".to_owned(), cpu.to_string().into());
        amounts.insert("memory".to_owned(), memory.to_string().into());
        amounts
    };
    json!({
        "limits": amounts(shape.limits.cpu.unwrap_or(cpu).max(cpu), shape.limits.memory.unwrap_or(memory).max(memory)),
        "requests": amounts(cpu, memory),
    })
}

/// Returns the memory of a node, with the default.
pub(super) fn memory(shape: &Shape) -> Memory {
    shape.memory.unwrap_or(MEMORY)
}

/// Returns the cores of a node, rounded up.
pub(super) fn cores(shape: &Shape) -> u64 {
    shape.cpu.unwrap_or(CPU).millis().div_ceil(1000).max(1)
}

pub(super) fn variable(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

/// Returns a variable whose value is in another object.
fn variable_from(name: &str, EnvSource { kind, name: object, key }: &EnvSource) -> Value {
    match kind {
        EnvSourceKind::ConfigMap => {
            json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": object, "key": key}}})
        }
        EnvSourceKind::Secret => {
            json!({"name": name, "valueFrom": {"secretKeyRef": {"name": object, "key": key}}})
        }
        EnvSourceKind::Resource => amount(name, object, key),
        EnvSourceKind::Field => field(name, key),
    }
}

/// Returns all keys of a ConfigMap or Secret as variables; `None` for other sources.
pub(super) fn whole_source(EnvSource { kind, name, .. }: &EnvSource) -> Option<Value> {
    match kind {
        EnvSourceKind::ConfigMap => Some(json!({"configMapRef": {"name": name}})),
        EnvSourceKind::Secret => Some(json!({"secretRef": {"name": name}})),
        EnvSourceKind::Resource | EnvSourceKind::Field => None,
    }
}

/// Returns a variable with the value of a field of the pod.
pub(super) fn field(name: &str, path: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
}

/// Returns a variable with a resource amount of a container.
pub(super) fn amount(name: &str, container: &str, resource: &str) -> Value {
    json!({"name": name, "valueFrom": {"resourceFieldRef": {"containerName": container, "resource": resource}}})
}

pub(super) fn port(name: &str, number: u16) -> Value {
    json!({"name": name, "containerPort": number})
}

/// Adds the settings of a node's recipe to a pod spec: placement, service account, volumes, and image pull secret.
pub(super) fn with_pod_settings(mut spec: Value, node: &NodeRecipe) -> Value {
    let pod = &node.pod;
    if !node.selectors.is_empty() {
        spec["nodeSelector"] = json!(node.selectors);
    }
    if !node.tolerations.is_empty() {
        spec["tolerations"] = json!(node.tolerations);
    }
    if let Some(account) = &pod.service_account {
        spec["serviceAccountName"] = account.clone().into();
    }
    if let Some(secret) = &pod.image_pull_secret {
        spec["imagePullSecrets"] = json!([{"name": secret}]);
    }
    if !pod.volumes.is_empty() {
        spec["volumes"] = pod.volumes.iter().map(volume::volume).collect();
        spec["containers"][0]["volumeMounts"] = pod.volumes.iter().map(mount).collect();
    }
    spec
}

/// Returns the version of a package in a list of pinned packages; `latest` if the list does not have it.
pub(super) fn pinned(pins: &'static str, package: &str) -> &'static str {
    let version = |line: &'static str| line.strip_prefix(package)?.strip_prefix("==");
    pins.lines().find_map(version).unwrap_or("latest")
}

/// Returns a text as a label value: forbidden characters are replaced, and long texts are cut.
pub(super) fn label_safe(text: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    let cut: String = text.chars().take(63).map(plain).collect();
    cut.trim_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned()
}
