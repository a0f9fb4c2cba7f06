//! The definitions of the custom resources, for `muster machines crds`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::{Machine, MachineNodePool};

/// The definitions, in the order in which they are applied.
pub fn crds() -> [CustomResourceDefinition; 2] {
    [Machine::crd(), MachineNodePool::crd()]
}

/// Returns true if a definition on the API server has every field of Muster's. The API server drops unknown fields
/// without an error.
pub fn stores_all_fields(found: &CustomResourceDefinition, ours: &CustomResourceDefinition) -> bool {
    ours.spec.versions.iter().all(|wanted| {
        let mut served = found.spec.versions.iter().filter(|version| version.served);
        served.find(|version| version.name == wanted.name).is_some_and(|version| {
            let has_status = version.subresources.as_ref().is_some_and(|of| of.status.is_some());
            has_status && has_fields(&json!(version.schema), &json!(wanted.schema))
        })
    })
}

/// Returns true if a schema has all fields of another one, at any depth.
fn has_fields(found: &Value, wanted: &Value) -> bool {
    if found["x-kubernetes-preserve-unknown-fields"] == true {
        return true;
    }
    let has_field = |(name, wanted): (&String, &Value)| match name.as_str() {
        "openAPIV3Schema" | "items" => found.get(name).is_some_and(|found| has_fields(found, wanted)),
        "properties" => wanted
            .as_object()
            .into_iter()
            .flatten()
            .all(|(field, wanted)| found[name].get(field).is_some_and(|found| has_fields(found, wanted))),
        _ => true,
    };
    wanted.as_object().into_iter().flatten().all(has_field)
}

#[cfg(test)]
mod tests;
