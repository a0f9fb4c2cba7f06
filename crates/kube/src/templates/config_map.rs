//! The `ConfigMap`s of compute templates, in the format of the KubeRay API server.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ObjectMeta;
use muster_core::compute_template::{ComputeTemplate, DEFAULT_MEMORY_UNIT, TemplateSpec};
use muster_core::ids::InstanceId;
use muster_core::shape::Toleration;
use muster_core::time::Timestamp;
use muster_core::unknown_fields::UnknownFields;
use serde_json::{Value, json};

/// The label that distinguishes the `ConfigMap` of a template from others.
const TYPE_LABEL: (&str, &str) = ("ray.io/config-type", "compute-template");

/// The label with a template's name.
const NAME_LABEL: &str = "ray.io/compute-template";

/// The label selector of the `ConfigMap`s of templates.
pub(super) const SELECTOR: &str = "ray.io/config-type=compute-template";

/// Returns true if a `ConfigMap` has the label of templates.
pub(super) fn is_template(map: &ConfigMap) -> bool {
    let labels = map.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(TYPE_LABEL.0)).is_some_and(|kind| kind == TYPE_LABEL.1)
}

/// Returns the `ConfigMap` of a template.
pub(super) fn write_template(template: &ComputeTemplate) -> ConfigMap {
    let ComputeTemplate { namespace, name, spec, .. } = template;
    let text = |value: &Value| value.to_string();
    let mut data = BTreeMap::from([
        ("name", name.clone()),
        ("namespace", namespace.clone()),
        ("cpu", spec.cpu.to_string()),
        ("memory", spec.memory.to_string()),
        ("memory_unit", spec.unit().to_owned()),
        ("gpu", spec.gpu.to_string()),
        ("gpu_accelerator", spec.gpu_accelerator.clone()),
        ("extended_resources", text(&json!(spec.extended_resources))),
    ]);
    if !spec.tolerations.is_empty() {
        let all: Vec<Value> = spec.tolerations.iter().map(toleration).collect();
        data.insert("tolerations", text(&all.into()));
    }
    let label = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            labels: Some([TYPE_LABEL, (NAME_LABEL, name)].into_iter().map(label).collect()),
            ..ObjectMeta::default()
        },
        data: Some(data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ..ConfigMap::default()
    }
}

fn toleration(Toleration { key, operator, value, effect, .. }: &Toleration) -> Value {
    json!({"key": key, "operator": operator, "value": value, "effect": effect})
}

/// Reads the template of a `ConfigMap`. A field that cannot be read counts as absent, as in the KubeRay API server.
pub(super) fn read_template(map: ConfigMap, instance: &InstanceId) -> ComputeTemplate {
    let data = map.data.unwrap_or_default();
    let text = |key: &str| data.get(key).cloned().unwrap_or_default();
    let number = |key: &str| data.get(key).and_then(|given| given.trim().parse().ok()).unwrap_or(0);
    let document = |key: &str| data.get(key).map_or(Value::Null, |given| parsed(given));
    let metadata = map.metadata;
    let created = metadata.creation_timestamp.map(|time| time.0.as_microsecond());
    let unit = text("memory_unit");
    ComputeTemplate {
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
        project: String::new(),
        instance: Some(instance.clone()),
        uid: metadata.uid.unwrap_or_default(),
        spec: TemplateSpec {
            cpu: number("cpu"),
            memory: number("memory"),
            // Templates of older KubeRay API servers have no unit.
            memory_unit: if unit.is_empty() { DEFAULT_MEMORY_UNIT.to_owned() } else { unit },
            gpu: number("gpu"),
            gpu_accelerator: text("gpu_accelerator"),
            tolerations: serde_json::from_value(document("tolerations")).unwrap_or_default(),
            extended_resources: serde_json::from_value(document("extended_resources")).unwrap_or_default(),
            unknown: UnknownFields::default(),
        },
        created_at: Timestamp::from_micros(created.unwrap_or_default()),
    }
}

fn parsed(given: &str) -> Value {
    serde_json::from_str(given).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance() -> InstanceId {
        InstanceId::new("kubernetes", "k")
    }

    #[test]
    fn a_template_is_read_as_it_was_written() {
        let spec = TemplateSpec {
            cpu: 2,
            memory: 4,
            memory_unit: "Gi".to_owned(),
            gpu: 1,
            gpu_accelerator: "amd.com/gpu".to_owned(),
            tolerations: vec![Toleration {
                key: "k".to_owned(),
                operator: "Exists".to_owned(),
                effect: "NoExecute".to_owned(),
                ..Toleration::default()
            }],
            extended_resources: [("vpc.amazonaws.com/efa".to_owned(), 2)].into(),
            unknown: UnknownFields::default(),
        };
        let template = ComputeTemplate {
            namespace: "n".to_owned(),
            name: "big".to_owned(),
            project: String::new(),
            instance: Some(instance()),
            uid: String::new(),
            spec,
            created_at: Timestamp::from_micros(0),
        };
        let map = write_template(&template);
        assert!(is_template(&map));
        assert_eq!(read_template(map, &instance()), template);
    }

    #[test]
    fn unreadable_fields_of_a_template_count_as_absent() {
        let map = json!({
            "metadata": {"name": "old", "namespace": "n", "uid": "u", "creationTimestamp": "1970-01-01T00:00:01Z",
                         "labels": {"ray.io/config-type": "compute-template"}},
            "data": {"cpu": "2", "memory": "much", "extended_resources": "null", "tolerations": "["},
        });
        let map: ConfigMap = serde_json::from_value(map).unwrap();
        assert!(is_template(&map));
        let ComputeTemplate { name, uid, spec, created_at, .. } = read_template(map, &instance());
        assert_eq!((name.as_str(), uid.as_str(), created_at.micros()), ("old", "u", 1_000_000));
        let expected = TemplateSpec { cpu: 2, memory_unit: "Gi".to_owned(), ..TemplateSpec::default() };
        assert_eq!(spec, expected);
        assert!(!is_template(&ConfigMap::default()));
    }
}
