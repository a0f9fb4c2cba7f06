//! How clusters of a framework stand on Kubernetes: objects to make, to read and to change.
//!
//! A flavor is one way to do it: an operator's custom resources, or plain objects of our own. Whoever uses this knows
//! neither the operators nor their objects; it only makes, follows and patches what it is told to.

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
#[cfg(test)]
mod sample;
mod words;

use muster_core::cluster::Framework;

pub use flavor::{Abilities, Deed, Flavor, Member, Plan, Resize, Step, Victim};
pub use metadata::USER;
pub use object::{DEPLOYMENT, Kind, Manifest, POD, Part, Watched};
pub use pod::resources;
pub use pod_change::PodChange;
pub use words::{Autoscaler, GroupWords, NodeWords, Words, groups};

/// Every flavor, the default one of each framework first.
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

/// The flavors of a framework, the default one first.
pub fn flavors_of(framework: Framework) -> impl Iterator<Item = &'static dyn Flavor> {
    flavors().iter().copied().filter(move |flavor| flavor.framework() == framework)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_stands_in_a_flavor_that_can_make_it() {
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
            let roots = flavor.watched().iter().filter(|watched| watched.part == Part::Root).count();
            assert_eq!((flavor.watched()[0].part, roots), (Part::Root, 1), "{}", flavor.name());
        }
    }
}
