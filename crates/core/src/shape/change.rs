//! Changes of shapes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Shape, Toleration, UpperLimits};
use crate::limits::present;
use crate::quantity::{Cpu, Memory};

/// A change of a shape. An absent field stays as it is; null leaves an amount to the provider.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ShapeChange {
    /// Cpu.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub cpu: Option<Option<Cpu>>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub memory: Option<Option<Memory>>,
    /// Whole accelerators.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub gpu: Option<Option<u32>>,
    /// The limits of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<UpperLimits>,
    /// The resource name by which accelerators are requested.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub gpu_resource: Option<Option<String>>,
    /// Amounts of extended resources, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_resources: Option<BTreeMap<String, u32>>,
    /// Taints of machines that are tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,
    /// Labels that the machine of a node must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selectors: Option<BTreeMap<String, String>>,
}

impl ShapeChange {
    /// The change that makes any shape equal to this one.
    pub fn all(shape: Shape) -> Self {
        let Shape {
            cpu,
            memory,
            gpu,
            limits,
            gpu_resource,
            extended_resources,
            tolerations,
            selectors,
            unknown: _,
        } = shape;
        Self {
            cpu: Some(cpu),
            memory: Some(memory),
            gpu: Some(gpu),
            limits: Some(limits),
            gpu_resource: Some(gpu_resource),
            extended_resources: Some(extended_resources),
            tolerations: Some(tolerations),
            selectors: Some(selectors),
        }
    }

    /// Returns true if the change sets nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the change sets more than cpu, memory and accelerators.
    pub const fn is_beyond_amounts(&self) -> bool {
        let Self {
            cpu: _,
            memory: _,
            gpu: _,
            limits,
            gpu_resource,
            extended_resources,
            tolerations,
            selectors,
        } = self;
        limits.is_some()
            || gpu_resource.is_some()
            || extended_resources.is_some()
            || tolerations.is_some()
            || selectors.is_some()
    }

    /// Applies the change to a shape. A changed amount drops its limit, unless the change sets limits.
    pub fn apply(&self, shape: &mut Shape) {
        let Self { cpu, memory, gpu, limits, gpu_resource, extended_resources, tolerations, selectors } =
            self;
        if let Some(cpu) = *cpu {
            shape.cpu = cpu;
            shape.limits.cpu = None;
        }
        if let Some(memory) = *memory {
            shape.memory = memory;
            shape.limits.memory = None;
        }
        set(&mut shape.gpu, gpu.as_ref());
        set(&mut shape.limits, limits.as_ref());
        set(&mut shape.gpu_resource, gpu_resource.as_ref());
        set(&mut shape.extended_resources, extended_resources.as_ref());
        set(&mut shape.tolerations, tolerations.as_ref());
        set(&mut shape.selectors, selectors.as_ref());
    }
}

fn set<T: Clone>(field: &mut T, new: Option<&T>) {
    if let Some(new) = new {
        field.clone_from(new);
    }
}
