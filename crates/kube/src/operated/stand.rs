//! Where a cluster stands: its flavor, and its place among the clusters of that.

use std::sync::Arc;

use muster_engine::ports::provider::{INVALID, ProviderError};
use muster_frameworks::kubernetes::{Flavor, Kind};
use serde_json::Value;

use crate::sites::{Key, Site, Sites};

/// Where a cluster stands.
#[derive(Clone)]
pub(super) struct Stand {
    pub(super) flavor: &'static dyn Flavor,
    pub(super) sites: Arc<Sites>,
    pub(super) key: Key,
}

impl Stand {
    /// Operators take longer names, and make nothing of them.
    pub(super) fn check_name(&self) -> Result<(), ProviderError> {
        let (longest, name) = (self.flavor.longest_name(), &self.key.name);
        if name.len() <= longest {
            return Ok(());
        }
        let message = format!(
            "'{name}' has {} characters, and clusters of flavor {} may have {longest}: choose a shorter name",
            name.len(),
            self.flavor.name()
        );
        Err(ProviderError::permanent(INVALID, message))
    }

    pub(super) fn look(&self) -> Result<Site, ProviderError> {
        self.sites.look(&self.key)
    }

    /// Takes in what a write was answered with.
    pub(super) fn take(&self, kind: &Kind, object: &Value) {
        self.take_since(None, kind, object);
    }

    /// Takes in what was read since that moment.
    pub(super) fn take_since(&self, since: Option<u64>, kind: &Kind, object: &Value) {
        if let Some(watched) = self.flavor.watched().iter().find(|watched| watched.is_about(kind, object)) {
            self.sites.take_object(since, watched, object, true);
        }
    }
}

/// The reason of everything that an operator is missing for.
pub(super) const NO_OPERATOR: &str = "NoOperator";

/// What is said where an operator is missing.
pub(super) fn not_installed(flavor: &dyn Flavor) -> ProviderError {
    let what = flavor.operator().unwrap_or("what it needs");
    let message = format!(
        "{} clusters of flavor {} need {what}, and this Kubernetes does not have it: install it",
        flavor.framework(),
        flavor.name()
    );
    ProviderError::permanent(NO_OPERATOR, message)
}
