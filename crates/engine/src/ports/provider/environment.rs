//! The variables of programs that use a cluster.

use std::collections::BTreeMap;

use crate::ports::provider::{ClusterTarget, Provider, ProviderError};

/// The purpose of the address that programs connect to.
const ADDRESS: &str = "address";

/// Returns the variables that programs need to use a cluster: those of its provider, its name and its address.
pub(crate) async fn client_environment(
    provider: &dyn Provider,
    target: ClusterTarget<'_>,
) -> Result<BTreeMap<String, String>, ProviderError> {
    let mut variables = provider.environment(target).await?;
    variables.insert("MUSTER_CLUSTER".to_owned(), target.cluster.name.clone());
    if let Some(address) = target.cluster.observed.endpoints.get(ADDRESS) {
        variables.insert("MUSTER_ADDRESS".to_owned(), address.clone());
    }
    Ok(variables)
}
