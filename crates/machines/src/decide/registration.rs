//! The webhook configurations, and the cluster-wide objects that belong to them.
//!
//! Of pods, only guests are sent to the webhook: no other pod depends on Muster.

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};

use crate::keys;

/// The name of the webhook configurations and of the policy.
pub const REGISTRATION: &str = "muster-machines";

/// The path of the injector; the same as in the published operator.
pub const INJECT_PATH: &str = "/mutate-core-v1-pod";

/// The path of the check of updated pods.
pub const UPDATE_PATH: &str = "/validate-core-v1-pod";

/// The path of the check of Machines; the same as in the published operator.
pub const MACHINE_PATH: &str = "/validate-imperator-tenzen-y-io-v1alpha1-machine";

/// The time-out of the webhook, in seconds.
const TIMEOUT_SECONDS: i32 = 5;

/// The address at which the API server calls the webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookTarget {
    /// Outside the cluster, by an address such as `https://10.0.0.7:9443`.
    Url(String),
    /// Inside the cluster, by a Service.
    Service {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// The port.
        port: u16,
    },
}

impl WebhookTarget {
    fn client(&self, path: &str, ca_bundle: &[u8]) -> Value {
        let bundle = ByteString(ca_bundle.to_vec());
        match self {
            Self::Url(url) => {
                json!({"url": format!("{}{path}", url.trim_end_matches('/')), "caBundle": bundle})
            }
            Self::Service { namespace, name, port } => json!({
                "service": {"namespace": namespace, "name": name, "port": port, "path": path},
                "caBundle": bundle,
            }),
        }
    }
}

/// The configuration of the injector: one entry for each spelling of the namespaces' label.
pub fn mutating_webhook(target: &WebhookTarget, ca_bundle: &[u8]) -> MutatingWebhookConfiguration {
    let entries = keys::NAMESPACE_LABELS.map(|label| {
        let domain = label.split('/').next().unwrap_or(keys::DOMAIN);
        let mut entry = guest_entry("inject", domain, "CREATE", &target.client(INJECT_PATH, ca_bundle));
        entry["namespaceSelector"] =
            json!({"matchExpressions": [{"key": label, "operator": "In", "values": [keys::ENABLED]}]});
        entry["reinvocationPolicy"] = "IfNeeded".into();
        entry
    });
    read(json!({"metadata": {"name": REGISTRATION}, "webhooks": entries}))
}

/// The configuration of the checks of updated guests, and of Machines. No user is exempt: the server may run as the
/// user who changes a guest, and the ledger decides which gates may be removed. No namespace is exempt either: in a
/// namespace that lost its label, users could otherwise change guests, which would hold more slots than are booked once
/// the label is back.
pub fn validating_webhook(target: &WebhookTarget, ca_bundle: &[u8]) -> ValidatingWebhookConfiguration {
    let mut guests = guest_entry("update", keys::DOMAIN, "UPDATE", &target.client(UPDATE_PATH, ca_bundle));
    guests["matchConditions"] =
        json!([{"name": "labels-amounts-or-gate-changed", "expression": labels_amounts_or_gate_changed()}]);
    // Labels can be changed together with the status, amounts only by a resize.
    guests["rules"][0]["resources"] = json!(["pods", "pods/status", "pods/resize"]);
    let machines = json!({
        "name": format!("machines.{}", keys::DOMAIN),
        "clientConfig": target.client(MACHINE_PATH, ca_bundle),
        "rules": [{"apiGroups": [keys::DOMAIN], "apiVersions": ["v1alpha1"], "operations": ["CREATE", "UPDATE"],
            "resources": ["machines"], "scope": "Cluster"}],
        "failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS, "admissionReviewVersions": ["v1"],
    });
    read(json!({"metadata": {"name": REGISTRATION}, "webhooks": [guests, machines]}))
}

fn guest_entry(verb: &str, domain: &str, operation: &str, client: &Value) -> Value {
    json!({
        "name": format!("{verb}.guests.{domain}"),
        "clientConfig": client,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": ["pods"],
            "scope": "Namespaced"}],
        "objectSelector": {"matchLabels": {keys::POD_ROLE: keys::GUEST}},
        "failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS, "admissionReviewVersions": ["v1"],
    })
}

/// The condition under which an update is sent to the webhook. Other updates of guests do not depend on Muster, so that
/// a Job completes while Muster is down.
fn labels_amounts_or_gate_changed() -> String {
    let label = |object: &str| {
        format!(
            "(has({object}.metadata.labels) && k in {object}.metadata.labels ? {object}.metadata.labels[k] : '')"
        )
    };
    let gate = |object: &str| {
        let gates = format!("{object}.spec.schedulingGates");
        format!("(has({gates}) && {gates}.exists(g, g.name == {}))", quoted(keys::GATE))
    };
    let labels = keys::GUEST_LABELS.map(quoted).join(", ");
    format!(
        "(has(request.subResource) && request.subResource == 'resize') || [{labels}].exists(k, {} != {}) || ({} && !{})",
        label("object"),
        label("oldObject"),
        gate("oldObject"),
        gate("object")
    )
}

/// A text as a string literal of CEL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A policy that denies new reservations outside Muster's namespace. Existing ones may be changed, so that they can
/// end. An annotation names the namespace, so that a server with another namespace detects this Muster.
pub fn reservation_policy(namespace: &str) -> (ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding) {
    let role = quoted(keys::POD_ROLE);
    let was = format!(
        "oldObject != null && has(oldObject.metadata.labels) && {role} in oldObject.metadata.labels && \
         oldObject.metadata.labels[{role}] == {}",
        quoted(keys::RESERVATION)
    );
    let policy = read(json!({
        "metadata": {"name": REGISTRATION, "annotations": {keys::MACHINES_NAMESPACE: namespace}},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                    "resources": ["pods"], "scope": "Namespaced"}],
                "objectSelector": {"matchLabels": {keys::POD_ROLE: keys::RESERVATION}},
            },
            "validations": [{
                "expression": format!("request.namespace == {} || ({was})", quoted(namespace)),
                "message": format!(
                    "label {}: {} is for pods of namespace {namespace} only: remove it",
                    keys::POD_ROLE, keys::RESERVATION
                ),
                "reason": "Forbidden",
            }],
        },
    }));
    let binding = read(json!({
        "metadata": {"name": REGISTRATION},
        "spec": {"policyName": REGISTRATION, "validationActions": ["Deny"]},
    }));
    (policy, binding)
}

/// The priority class of guests that are created without one. An existing class is not changed.
pub fn priority_class() -> PriorityClass {
    read(json!({
        "metadata": {"name": keys::GUEST_PRIORITY_CLASS},
        "value": keys::GUEST_PRIORITY,
        "preemptionPolicy": "PreemptLowerPriority",
        "description": "Guests of machine types: above reservations, which have the default priority.",
    }))
}

/// The namespace of reservations, Lease and certificate.
pub fn machines_namespace(name: &str) -> Namespace {
    read(json!({"metadata": {"name": name}}))
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("fields of the type")
}

#[cfg(test)]
mod tests;
