//! The common parts of reservations and guests of a type: resources, tolerations and node affinity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::amounts::{Amounts, CPU, MEMORY};
use crate::keys;
use crate::types::TypeAmounts;

/// The labels of nodes by which a GPU is selected; if a type gives several, the first one counts.
const GPU_LABELS: [&str; 3] = ["nvidia.com/gpu.family", "nvidia.com/gpu.product", "nvidia.com/gpu.machine"];

/// The value of the health label and taint of nodes that can be used.
pub const READY_NODE: &str = "ready";

/// The resources of a slot, as the requests and limits of a container.
pub fn resources(amounts: &TypeAmounts) -> BTreeMap<String, Quantity> {
    let mut resources =
        BTreeMap::from([(CPU.to_owned(), amounts.cpu.clone()), (MEMORY.to_owned(), amounts.memory.clone())]);
    if let Some(gpu) = &amounts.gpu
        && let Some(resource) = gpu.resource.as_ref().filter(|resource| !resource.is_empty())
    {
        let number = gpu.num.clone().unwrap_or_else(|| Quantity("0".to_owned()));
        resources.insert(resource.clone(), number);
    }
    resources
}

/// The resources of a slot, as numbers.
pub fn slot_amounts(amounts: &TypeAmounts) -> Amounts {
    Amounts::read(&resources(amounts))
}

/// The taints that a type's pods tolerate: the type's own, and that of nodes that can be used.
pub fn tolerations(machine_type: &str, group: &str) -> [Toleration; 2] {
    let tolerated = |key: String, value: &str| Toleration {
        key: Some(key),
        operator: Some("Equal".to_owned()),
        value: Some(value.to_owned()),
        effect: Some("NoSchedule".to_owned()),
        toleration_seconds: None,
    };
    [tolerated(keys::type_key(machine_type), group), tolerated(keys::NODE_POOL.to_owned(), READY_NODE)]
}

/// The labels that a node must have for pods of a type.
pub fn requirements(machine_type: &str, group: &str, amounts: &TypeAmounts) -> Vec<NodeSelectorRequirement> {
    let is = |key: &str, value: &str| NodeSelectorRequirement {
        key: key.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![value.to_owned()]),
    };
    let mut all = vec![is(&keys::type_key(machine_type), group), is(keys::NODE_POOL, READY_NODE)];
    all.extend(gpu_label(amounts).map(|(label, value)| is(label, value)));
    all
}

/// The label by which the nodes of a type's accelerators are selected.
pub fn gpu_label(amounts: &TypeAmounts) -> Option<(&'static str, &str)> {
    let gpu = amounts.gpu.as_ref()?;
    let values = [&gpu.family, &gpu.product, &gpu.machine];
    let mut given =
        GPU_LABELS.into_iter().zip(values).filter_map(|(label, value)| Some((label, value.as_deref()?)));
    given.find(|(_, value)| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, from_value, json};

    use super::*;

    #[rstest]
    #[case::none(json!(null), None, None)]
    #[case::family(json!({"type": "nvidia.com/gpu", "num": 2, "family": "f"}), Some("2"), Some(("nvidia.com/gpu.family", "f")))]
    #[case::product(json!({"type": "nvidia.com/gpu", "num": 1, "family": "", "product": "p"}), Some("1"), Some(("nvidia.com/gpu.product", "p")))]
    #[case::machine(json!({"type": "nvidia.com/gpu", "machine": "m"}), Some("0"), Some(("nvidia.com/gpu.machine", "m")))]
    fn accelerators_are_requested_and_selected(
        #[case] gpu: Value,
        #[case] number: Option<&str>,
        #[case] selected: Option<(&str, &str)>,
    ) {
        let amounts: TypeAmounts = from_value(json!({"cpu": 1, "memory": "1Gi", "gpu": gpu})).unwrap();
        let requested = resources(&amounts).get("nvidia.com/gpu").map(|Quantity(number)| number.clone());
        assert_eq!(requested.as_deref(), number);
        let requirements = requirements("t", "g", &amounts);
        let found = requirements
            .get(2)
            .map(|found| (found.key.as_str(), found.values.as_deref().unwrap()[0].as_str()));
        assert_eq!(found, selected);
    }
}
