//! The port to compute templates that a provider stores.

use async_trait::async_trait;
use muster_core::compute_template::ComputeTemplate;
use tokio::sync::watch;

use crate::ports::provider::ProviderError;

/// The reason of a creation that is refused because the name is taken.
pub const NAME_TAKEN: &str = "NameTaken";

/// Stores compute templates, such as in `ConfigMap`s. Their projects are empty: providers know only namespaces.
#[async_trait]
pub trait TemplateProvider: Send + Sync {
    /// Returns true if the provider stores the templates of a namespace.
    async fn keeps(&self, namespace: &str) -> Result<bool, ProviderError>;

    /// Creates a template, and returns it with the identity and the creation time of its record. A name that any object
    /// has is refused with [`NAME_TAKEN`].
    async fn create(&self, template: &ComputeTemplate) -> Result<ComputeTemplate, ProviderError>;

    /// Deletes a template, unless another record has replaced its own.
    async fn delete(&self, template: &ComputeTemplate) -> Result<(), ProviderError>;

    /// Reads a template from the provider, not from the last observation.
    async fn read(&self, namespace: &str, name: &str) -> Result<Option<ComputeTemplate>, ProviderError>;

    /// Returns the last observed templates of the namespaces that the provider knows.
    fn observed(&self) -> Vec<ComputeTemplate>;

    /// Returns true if the observation of a namespace is complete and not stale.
    fn knows(&self, namespace: &str) -> bool;

    /// Returns a counter that rises whenever templates may have changed.
    fn changes(&self) -> watch::Receiver<u64>;
}
