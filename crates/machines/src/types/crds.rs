//! The definitions of the custom resources, for `muster machines crds`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use super::{Machine, MachineNodePool};

/// The definitions, in the order in which they are applied.
pub fn crds() -> [CustomResourceDefinition; 2] {
    [Machine::crd(), MachineNodePool::crd()]
}

#[cfg(test)]
mod tests;
