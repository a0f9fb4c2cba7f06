//! Clusters as Kubernetes objects: manifests to create, objects to project, and writes that change them.
//!
//! A [`Flavor`] is one way to represent a cluster: the custom resources of an operator, or plain objects.
//! `muster-kube` creates, watches and patches these objects without knowing any operator.

mod dask_operator;
mod domino;
mod flavor;
mod kuberay;
mod metadata;
mod native;
mod object;
mod patch;
mod pod;
mod pod_change;
mod projection;
#[cfg(test)]
mod sample;

use muster_core::cluster::Framework;

pub use flavor::{
    Abilities, DesiredCluster, Flavor, GroupResize, ObjectWrite, PodMembership, Victim, WriteOperation,
};
pub use metadata::USER;
pub use object::{DEPLOYMENT, Manifest, ObjectRole, POD, ResourceKind, WatchedKind};
pub use pod::resources;
pub use pod_change::PodChange;
pub use projection::{
    GroupProjection, NodeSettings, ObjectProjection, ObservedAutoscaler, PodTemplate, merge_groups,
};

/// Returns every flavor, the default one of each framework first.
pub fn flavors() -> &'static [&'static dyn Flavor] {
    &[
        &kuberay::KubeRay,
        &dask_operator::DaskOperator,
        &native::Native,
        &domino::RAY,
        &domino::DASK,
        &domino::SPARK,
    ]
}

/// Returns the flavors of a framework, the default one first.
pub fn flavors_of(framework: Framework) -> impl Iterator<Item = &'static dyn Flavor> {
    flavors().iter().copied().filter(move |flavor| flavor.framework() == framework)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_flavor_of_each_framework_can_create_clusters() {
        let first = |framework| {
            let flavor = flavors_of(framework).next().expect("a flavor");
            (flavor.name(), flavor.abilities().create)
        };
        let defaults = [("kuberay", true), ("dask-operator", true), ("native", true)];
        assert_eq!([Framework::Ray, Framework::Dask, Framework::Spark].map(first), defaults);
    }

    #[test]
    fn every_flavor_has_one_root_and_it_comes_first() {
        for flavor in flavors() {
            let roots =
                flavor.watched_kinds().iter().filter(|watched| watched.role == ObjectRole::Root).count();
            assert_eq!((flavor.watched_kinds()[0].role, roots), (ObjectRole::Root, 1), "{}", flavor.name());
        }
    }
}
