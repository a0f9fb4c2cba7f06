//! Completes the request for a new cluster by the configuration sets that apply to it.

use muster_core::cluster::Framework;
use muster_core::config_set::{
    ClusterConfig, ConfigFault, ConfigLayers, ConfigValues, DEFAULT_SET, InvalidConfig, NamedSet,
    is_possible_name,
};
use muster_engine::ports::provider::{ConfigSetProvider, INVALID, Provider, ProviderError};

use crate::error::ServiceError;
use crate::placement::cluster_type;
use crate::service::Service;

/// A new cluster, as far as sets can complete it.
#[derive(Debug, Clone)]
pub struct ConfigRequest<'r> {
    /// The namespace of the cluster and of the sets.
    pub namespace: &'r str,
    /// The provider of the cluster and of the sets; if empty, one is chosen.
    pub provider: &'r str,
    /// The set that the request names; none if empty.
    pub named: &'r str,
    /// Values that the request gives.
    pub explicit: ConfigValues,
    /// The framework if neither the request nor the set gives one.
    pub default_framework: Framework,
}

impl Service {
    /// The configuration of a new cluster: the values of the request, then those of the set that it names, then those
    /// of the default set for Spark, then the built-in defaults.
    pub async fn configure(&self, request: ConfigRequest<'_>) -> Result<ClusterConfig, ServiceError> {
        let ConfigRequest { namespace, provider, named, explicit, default_framework } = request;
        let kind = cluster_type(explicit.framework.unwrap_or(default_framework));
        let instance = self.instance_for(provider, &kind)?;
        let sets = self.engine.provider(&instance).and_then(Provider::config_set_provider);
        let read = async |name: &str| read_set(sets.as_deref(), namespace, name).await;
        let names_default = named == DEFAULT_SET;
        let mut layers = ConfigLayers { explicit, ..ConfigLayers::default() };
        if !named.is_empty() && !names_default {
            let missing = || InvalidConfig(ConfigFault::NoSuchSet(named.to_owned()));
            let values = read(named).await?.ok_or_else(missing)?;
            layers.named = Some(NamedSet { name: named.to_owned(), values });
        }
        let framework = layers.framework();
        if names_default || framework.unwrap_or(default_framework) == Framework::Spark {
            layers.default_set = read(DEFAULT_SET).await?;
        }
        // The default set gives the framework only if the request names that set; otherwise the framework decides if
        // the default set is read.
        let of_default = layers.default_set.as_ref().filter(|_| names_default).and_then(|set| set.framework);
        let framework = framework.or(of_default).unwrap_or(default_framework);
        Ok(layers.merge(framework)?)
    }
}

/// The values of a set; none if it does not exist.
async fn read_set(
    sets: Option<&dyn ConfigSetProvider>,
    namespace: &str,
    name: &str,
) -> Result<Option<ConfigValues>, ServiceError> {
    let Some(sets) = sets.filter(|_| is_possible_name(name)) else { return Ok(None) };
    match sets.read(namespace, name).await.map_err(unreadable)? {
        Some(data) => Ok(Some(ConfigValues::of_set(name, &data)?)),
        None => Ok(None),
    }
}

/// An unreadable set is an error and does not count as absent, because the cluster would get other values.
fn unreadable(error: ProviderError) -> ServiceError {
    if error.reason == INVALID {
        return ServiceError::invalid(error.message).code("InvalidConfig");
    }
    error.into()
}

impl From<InvalidConfig> for ServiceError {
    fn from(error: InvalidConfig) -> Self {
        let message = error.to_string();
        match error {
            InvalidConfig(ConfigFault::NoSuchSet(_)) => Self::not_found(message).code("ConfigNotFound"),
            InvalidConfig(_) => Self::invalid(message).code("InvalidConfig"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use async_trait::async_trait;

    use super::*;
    use crate::error::ErrorKind;

    /// One answer for every set.
    struct Sets(Result<Option<BTreeMap<String, String>>, ProviderError>);

    #[async_trait]
    impl ConfigSetProvider for Sets {
        async fn read(&self, _: &str, _: &str) -> Result<Option<BTreeMap<String, String>>, ProviderError> {
            self.0.clone()
        }
    }

    async fn refused(error: ProviderError) -> (ErrorKind, String) {
        let refused = read_set(Some(&Sets(Err(error))), "demo", "big").await.unwrap_err();
        (refused.kind, refused.message)
    }

    #[tokio::test]
    async fn a_set_that_cannot_be_read_is_not_taken_for_absent() {
        let away = refused(ProviderError::transient("Unreachable", "no answer")).await;
        assert_eq!(away, (ErrorKind::Unavailable, "no answer".to_owned()));
        let unusable = refused(ProviderError::permanent(INVALID, "no TOML")).await;
        assert_eq!(unusable, (ErrorKind::Invalid, "no TOML".to_owned()));
        assert_eq!(read_set(Some(&Sets(Ok(None))), "demo", "big").await, Ok(None));
        assert_eq!(read_set(None, "demo", "big").await, Ok(None));
    }

    #[tokio::test]
    async fn a_name_that_no_set_can_have_is_not_asked_for() {
        let sets = Sets(Ok(Some(BTreeMap::new())));
        assert_eq!(read_set(Some(&sets), "demo", "../big").await, Ok(None));
        assert_eq!(read_set(Some(&sets), "demo", "big").await, Ok(Some(ConfigValues::default())));
    }

    #[test]
    fn a_set_that_does_not_exist_is_not_found_and_a_bad_one_is_invalid() {
        let missing = ServiceError::from(InvalidConfig(ConfigFault::NoSuchSet("big".to_owned())));
        assert_eq!((missing.kind, missing.code.as_deref()), (ErrorKind::NotFound, Some("ConfigNotFound")));
        let bad = ServiceError::from(InvalidConfig(ConfigFault::MasterCount));
        assert_eq!((bad.kind, bad.code.as_deref()), (ErrorKind::Invalid, Some("InvalidConfig")));
    }
}
