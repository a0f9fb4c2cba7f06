//! `ConfigMap`s with values for clusters: configuration sets, and configurations of Spark.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use muster_core::config_set::is_possible_name;
use muster_engine::ports::provider::{ConfigSetProvider, INVALID, ProviderError};

use crate::cluster_identity::IdentityGate;
use crate::errors;
use crate::namespaces::Namespaces;
use crate::writer::with_deadline;

/// Reads configuration sets from the `ConfigMap`s of a namespace.
pub(crate) struct ConfigSets {
    client: Client,
    identity_gate: IdentityGate,
    namespaces: Arc<Namespaces>,
}

impl ConfigSets {
    pub(crate) fn new(client: Client, identity_gate: IdentityGate, namespaces: Arc<Namespaces>) -> Self {
        Self { client, identity_gate, namespaces }
    }
}

#[async_trait]
impl ConfigSetProvider for ConfigSets {
    async fn read(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<BTreeMap<String, String>>, ProviderError> {
        self.identity_gate.check()?;
        self.namespaces.check_served(namespace)?;
        let what = format!("read ConfigMap '{namespace}/{name}'");
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let map = errors::found(&what, with_deadline(&what, maps.get(name)).await?)?;
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
    let found = with_deadline(&what, maps.get_metadata_opt(name)).await?;
    found.map_err(|error| errors::request_error(&what, error))?.map(drop).ok_or_else(missing)
}

/// Returns the message for a missing configuration, with the words that existing scripts search for.
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
