//! The custom resource `MachineNodePool`: the nodes of a Machine, from which nodes are labelled and tainted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NodePoolEntry, TypeName};
use crate::keys;

/// The nodes of a Machine.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[kube(
    group = "imperator.tenzen-y.io",
    version = "v1alpha1",
    kind = "MachineNodePool",
    plural = "machinenodepools",
    status = "MachineNodePoolStatus",
    derive = "PartialEq",
    doc = "The nodes of a Machine, written by its controller.",
    printcolumn = r#"{"name": "Group", "type": "string", "jsonPath": ".spec.machineGroup"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MachineNodePoolSpec {
    /// The group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_group: Option<String>,
    /// The group, as the published operator spells the field. Only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_group_name: Option<String>,
    /// The nodes, copied from the Machine.
    pub node_pool: Vec<NodePoolEntry>,
    /// The names of the Machine's types.
    pub machine_type_stock: Vec<TypeName>,
}

/// The observed state of the nodes of a pool.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Default)]
#[serde(rename_all = "camelCase")]
pub struct MachineNodePoolStatus {
    /// Ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The condition of each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_pool: Vec<PoolNodeStatus>,
}

/// The condition of a node.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct PoolNodeStatus {
    /// The name of the node.
    pub name: String,
    /// The condition of the node.
    pub condition: NodeCondition,
}

/// The condition of a node.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeCondition {
    /// The node can be used.
    Ready,
    /// The spec excludes the node from use.
    Maintenance,
    /// The node cannot be used.
    NotReady,
    /// `Ready`, as the published operator spells it. Only read.
    Healthy,
    /// `NotReady`, as the published operator spells it. Only read.
    Unhealthy,
}

impl NodeCondition {
    /// The value in Muster's spelling.
    #[must_use]
    pub const fn normalized(self) -> Self {
        match self {
            Self::Ready | Self::Healthy => Self::Ready,
            Self::Maintenance => Self::Maintenance,
            Self::NotReady | Self::Unhealthy => Self::NotReady,
        }
    }
}

impl MachineNodePool {
    /// The group, from either spelling of the field, or from the label.
    pub fn group(&self) -> Option<&str> {
        let fields = [self.spec.machine_group.as_deref(), self.spec.machine_group_name.as_deref()];
        let label = self.labels().get(keys::MACHINE_GROUP).map(String::as_str);
        fields.into_iter().chain([label]).flatten().find(|group| !group.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json, to_value};

    use super::*;

    fn pool(spec: &Value) -> MachineNodePool {
        from_value(json!({"apiVersion": "imperator.tenzen-y.io/v1alpha1", "kind": "MachineNodePool",
            "metadata": {"name": "p"}, "spec": spec}))
        .unwrap()
    }

    #[test]
    fn both_spellings_of_the_group_are_read() {
        let rest = json!({"nodePool": [], "machineTypeStock": []});
        for field in ["machineGroup", "machineGroupName"] {
            let mut spec = rest.clone();
            spec[field] = "g".into();
            assert_eq!(pool(&spec).group(), Some("g"), "{field}");
        }
        assert_eq!(pool(&rest).group(), None);
    }

    #[test]
    fn all_five_conditions_are_read() {
        let normalized = ["Ready", "Healthy", "Maintenance", "NotReady", "Unhealthy"]
            .map(|text| from_value::<NodeCondition>(json!(text)).unwrap().normalized())
            .map(|condition| to_value(condition).unwrap());
        assert_eq!(
            normalized,
            ["Ready", "Ready", "Maintenance", "NotReady", "NotReady"].map(|text| json!(text))
        );
    }
}
