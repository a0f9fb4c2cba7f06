//! The location of a cluster: its flavor, the cache of that flavor, and its key there.

use std::sync::Arc;

use muster_engine::ports::provider::{INVALID, ProviderError};
use muster_frameworks::kubernetes::{Flavor, ResourceKind};
use serde_json::Value;

use crate::cluster_cache::{CachedCluster, ClusterCache, ClusterKey};

/// The location of a cluster, which may not exist.
#[derive(Clone)]
pub(super) struct ClusterLocation {
    pub(super) flavor: &'static dyn Flavor,
    pub(super) cache: Arc<ClusterCache>,
    pub(super) key: ClusterKey,
}

impl ClusterLocation {
    /// Refuses a name that is too long for the flavor: the API server accepts it, and the operator then creates
    /// nothing.
    pub(super) fn check_name(&self) -> Result<(), ProviderError> {
        let (max, name) = (self.flavor.max_name_length(), &self.key.name);
        if name.len() <= max {
            return Ok(());
        }
        let message = format!(
            "'{name}' has {} characters, and clusters of flavor {} may have {max}: choose a shorter name",
            name.len(),
            self.flavor.name()
        );
        Err(ProviderError::permanent(INVALID, message))
    }

    /// Returns a copy of the cluster as it is cached; an error while the watches cannot report it.
    pub(super) fn snapshot(&self) -> Result<CachedCluster, ProviderError> {
        self.cache.snapshot(&self.key)
    }

    /// Updates the cache with the object that a write was answered with.
    pub(super) fn cache_written(&self, kind: &ResourceKind, object: &Value) {
        self.cache_object(None, kind, object);
    }

    /// Updates the cache with an object that was read since this epoch.
    pub(super) fn cache_read(&self, since: u64, kind: &ResourceKind, object: &Value) {
        self.cache_object(Some(since), kind, object);
    }

    fn cache_object(&self, since: Option<u64>, kind: &ResourceKind, object: &Value) {
        let watched = self.flavor.watched_kinds().iter().find(|watched| watched.matches(kind, object));
        if let Some(watched) = watched {
            self.cache.apply_object(since, watched, object, true);
        }
    }
}

/// The reason of errors because of an operator that is not installed.
pub(super) const NO_OPERATOR: &str = "NoOperator";

/// Returns the error for a flavor whose operator is not installed.
pub(super) fn not_installed(flavor: &dyn Flavor) -> ProviderError {
    let requirement = flavor.operator().unwrap_or("an operator");
    let message = format!(
        "{} clusters of flavor {} need {requirement}, which is not installed on this Kubernetes: install it",
        flavor.framework(),
        flavor.name()
    );
    ProviderError::permanent(NO_OPERATOR, message)
}
