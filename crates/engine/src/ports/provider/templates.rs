//! The port to compute templates whose records a provider has.

use async_trait::async_trait;
use muster_core::compute_template::ComputeTemplate;
use tokio::sync::watch;

use crate::ports::provider::ProviderError;

/// The reason of a creation that is refused since the name is taken.
pub const NAME_TAKEN: &str = "NameTaken";

/// Compute templates that a provider keeps, such as `ConfigMap`s. Their projects are empty: providers know namespaces only.
#[async_trait]
pub trait TemplateProvider: Send + Sync {
    /// Whether it keeps the templates of a namespace.
    async fn keeps(&self, namespace: &str) -> Result<bool, ProviderError>;

    /// Creates a template; the answer has the identity and the time of its record. A name that is taken, by whatever it
    /// may be, is refused with [`NAME_TAKEN`].
    async fn create(&self, template: &ComputeTemplate) -> Result<ComputeTemplate, ProviderError>;

    /// Deletes a template, if its record still is the one that is named.
    async fn delete(&self, template: &ComputeTemplate) -> Result<(), ProviderError>;

    /// Reads a template as it is now.
    async fn read(&self, namespace: &str, name: &str) -> Result<Option<ComputeTemplate>, ProviderError>;

    /// The templates of the namespaces that it knows, as last observed.
    fn observed(&self) -> Vec<ComputeTemplate>;

    /// Whether it knows all templates of a namespace at present.
    fn knows(&self, namespace: &str) -> bool;

    /// Rises whenever templates may have changed.
    fn changes(&self) -> watch::Receiver<u64>;
}
