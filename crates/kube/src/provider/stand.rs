//! Where a cluster stands: its flavor, and its place among the clusters of that.

use std::sync::Arc;

use muster_engine::provider::ProviderError;
use muster_frameworks::kubernetes::{Flavor, Kind};
use serde_json::Value;

use crate::sites::{Key, Site, Sites};

/// Where a cluster stands.
pub(super) struct Stand {
    pub(super) flavor: &'static dyn Flavor,
    pub(super) sites: Arc<Sites>,
    pub(super) key: Key,
}

impl Stand {
    pub(super) fn look(&self) -> Result<Site, ProviderError> {
        self.sites.look(&self.key).map_err(|why| ProviderError::transient("Unknown", why))
    }

    /// Takes in what a write was answered with.
    pub(super) fn take(&self, kind: &Kind, object: &Value) {
        if let Some(watched) = self.flavor.watched().iter().find(|watched| watched.kind == kind) {
            self.sites.take_object(watched, object, true);
        }
    }
}

/// What is said where an operator is missing.
pub(super) fn not_installed(flavor: &dyn Flavor) -> ProviderError {
    let what = flavor.operator().unwrap_or("what it needs");
    let message = format!(
        "{} clusters of flavor {} need {what}, and this Kubernetes does not have it: install it",
        flavor.framework(),
        flavor.name()
    );
    ProviderError::permanent("NoOperator", message)
}
