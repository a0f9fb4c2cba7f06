//! Validation rules in CEL, which the API server checks without the webhook. The messages are those of the published
//! operator's webhook.
//!
//! The API server estimates the cost of a rule for the longest possible lists, and rejects definitions that cost too
//! much. Rules that compare each node with each type are too expensive, so that the webhook checks them. Limits on the
//! lengths of texts keep the other rules cheap.

use serde_json::{Value, json};

/// The most types of a group: the API server multiplies the cost of a type's rules by it.
pub(super) const MOST_TYPES: usize = 1000;

/// Rules of a node of a group.
pub(super) fn node_pool_entry() -> Value {
    json!([{
        "rule": "self.machineType.size() == 1",
        "messageExpression": "self.name + '; can not set multiple machineType in nodePool.machineType'",
    }])
}

/// Rules of the accelerators of a type.
pub(super) fn gpu() -> Value {
    let given = |field: &str| format!("has(self.{field}) && self.{field} != ''");
    let [family, product, machine] = ["family", "product", "machine"].map(given);
    json!([
        {"rule": given("type"), "message": "gpu.type must be set value"},
        {
            "rule": format!("!({}) || self.type.startsWith('nvidia.com/')", given("type")),
            "message": "gpu.type must begin with nvidia.com/",
        },
        {
            "rule": "!has(self.num) || (type(self.num) == int ? self.num >= 0 : isQuantity(self.num) && \
                     !quantity(self.num).isLessThan(quantity('0')))",
            "message": "gpu.num must be set 0 or more value",
        },
        {
            "rule": format!("({family}) || ({product}) || ({machine})"),
            "message": "you must set a value for either gpu.family, gpu.product or gpu.machine",
        },
        {
            "rule": format!("[{family}, {product}, {machine}].filter(given, given).size() <= 1"),
            "message": "only one GPU family, product or machine cane be set",
        },
    ])
}
