//! Configuration sets that are `ConfigMap`s, and the `ConfigMap`s that clusters are started with.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use muster_core::config_set::is_possible_name;
use muster_engine::ports::provider::{ConfigSetProvider, INVALID, ProviderError};

use crate::namespaces::Namespaces;
use crate::refusal;
use crate::which::Certain;
use crate::write::within;

/// The configuration sets of a Kubernetes.
pub(crate) struct ConfigSets {
    client: Client,
    certain: Certain,
    namespaces: Arc<Namespaces>,
}

impl ConfigSets {
    pub(crate) fn new(client: Client, certain: Certain, namespaces: Arc<Namespaces>) -> Self {
        Self { client, certain, namespaces }
    }
}

#[async_trait]
impl ConfigSetProvider for ConfigSets {
    async fn read(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<BTreeMap<String, String>>, ProviderError> {
        self.certain.check()?;
        self.namespaces.check_served(namespace)?;
        let what = format!("read ConfigMap '{namespace}/{name}'");
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let map = within(&what, maps.get_opt(name)).await?.map_err(|error| refusal::of(&what, error))?;
        Ok(map.map(|map| map.data.unwrap_or_default()))
    }
}

/// Refuses a `ConfigMap` with Spark's configuration that does not exist: pods that mount it would never start.
pub(crate) async fn check_spark_config(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<(), ProviderError> {
    let missing = || ProviderError::permanent(INVALID, no_spark_config(name));
    if !is_possible_name(name) {
        return Err(missing());
    }
    let what = format!("read ConfigMap '{namespace}/{name}'");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = within(&what, maps.get_metadata_opt(name)).await?;
    found.map_err(|error| refusal::of(&what, error))?.map(drop).ok_or_else(missing)
}

/// The message is compared by existing scripts.
fn no_spark_config(name: &str) -> String {
    format!("unable to find spark configuration '{name}', error: configmaps \"{name}\" not found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spark_configuration_that_does_not_exist_is_named() {
        let message = "unable to find spark configuration 'x', error: configmaps \"x\" not found";
        assert_eq!(no_spark_config("x"), message);
    }
}
