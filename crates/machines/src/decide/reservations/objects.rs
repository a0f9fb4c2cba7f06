//! The StatefulSet and the Service of a type.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use kube::Resource;
use serde_json::{Value, json};

use super::plan::ReservationSettings;
use crate::keys;
use crate::placement;
use crate::types::{Machine, MachineType};

/// The image of reservations: a program that does nothing, and exits at once on SIGTERM.
pub const RESERVATION_IMAGE: &str = "registry.k8s.io/pause:3.10";

/// The grace period of a reservation, in seconds. Not 0: the pod would disappear from the API server before its node
/// has released the devices.
const GRACE_SECONDS: i64 = 1;

/// The StatefulSet of a type's reservations.
pub fn wanted_set(
    machine: &Machine,
    group: &str,
    machine_type: &MachineType,
    settings: ReservationSettings,
    replicas: i32,
) -> StatefulSet {
    let name = keys::reservation_name(&machine_type.name, group);
    let labels = labels(group, &machine_type.name);
    let resources = placement::resources(&machine_type.spec);
    let set = json!({
        "metadata": metadata(machine, &name, settings.namespace, &labels),
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            // A reservation that cannot start must not keep others from starting or ending.
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": GRACE_SECONDS,
                    "enableServiceLinks": false,
                    "automountServiceAccountToken": false,
                    "tolerations": placement::tolerations(&machine_type.name, group),
                    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchExpressions": placement::requirements(&machine_type.name, group, &machine_type.spec)},
                    ]}}},
                    "containers": [{
                        "name": "sleeper",
                        "image": settings.image,
                        "resources": {"requests": resources, "limits": resources},
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "capabilities": {"drop": ["ALL"]},
                            "readOnlyRootFilesystem": true,
                            "runAsNonRoot": true,
                            "runAsUser": 65535,
                            "seccompProfile": {"type": "RuntimeDefault"},
                        },
                    }],
                },
            },
        },
    });
    serde_json::from_value(set).expect("fields of a StatefulSet")
}

/// The Service of a type's reservations.
pub fn wanted_service(machine: &Machine, group: &str, machine_type: &str, namespace: &str) -> Service {
    let name = keys::reservation_name(machine_type, group);
    let labels = labels(group, machine_type);
    let service = json!({
        "metadata": metadata(machine, &name, namespace, &labels),
        "spec": {
            "type": "ClusterIP",
            "selector": labels,
            "ports": [{"port": 80, "protocol": "TCP"}],
        },
    });
    serde_json::from_value(service).expect("fields of a Service")
}

fn labels(group: &str, machine_type: &str) -> Value {
    json!({
        keys::MACHINE_GROUP: group,
        keys::MACHINE_TYPE: machine_type,
        keys::POD_ROLE: keys::RESERVATION,
    })
}

fn metadata(machine: &Machine, name: &str, namespace: &str, labels: &Value) -> Value {
    let owners: Vec<_> = machine.controller_owner_ref(&()).into_iter().collect();
    json!({"name": name, "namespace": namespace, "labels": labels, "ownerReferences": owners})
}
