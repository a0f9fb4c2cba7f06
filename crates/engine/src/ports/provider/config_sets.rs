//! The port to configuration sets.

use std::collections::BTreeMap;

use async_trait::async_trait;

use crate::ports::provider::ProviderError;

/// Configuration sets that a provider stores, such as `ConfigMap`s or files. They are read when a request needs one,
/// and are not watched.
#[async_trait]
pub trait ConfigSetProvider: Send + Sync {
    /// Returns the keys and values of a set; none if the set certainly does not exist. A set whose content cannot be
    /// used is refused with [`INVALID`](crate::ports::provider::INVALID).
    async fn read(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<BTreeMap<String, String>>, ProviderError>;
}
