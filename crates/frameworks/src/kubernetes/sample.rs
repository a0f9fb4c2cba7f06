//! Fixtures for the tests of all flavors.

use muster_core::cluster::Cluster;
use muster_core::recipe::ClusterRecipe;
use muster_core::sample;
use serde_json::Value;

/// Returns a recipe with these properties.
pub(super) fn recipe(properties: &Value) -> ClusterRecipe {
    ClusterRecipe::from_stored(properties.as_object().expect("a map")).expect("a recipe")
}

/// Returns a cluster whose objects are called `fred` in namespace `demo`.
pub(super) fn cluster(desired: u32, min: u32, max: Option<u32>) -> Cluster {
    Cluster {
        object_name: "fred".to_owned(),
        namespace: "demo".to_owned(),
        ..sample::cluster(desired, min, max)
    }
}
