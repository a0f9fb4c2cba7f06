//! Other managers of Machines in this Kubernetes: the published operator, or a Muster with another namespace.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt as _};
use muster_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::decide::registration::REGISTRATION;
use crate::decide::takeover::{calls_another_operator, check_other_lease, check_published_lease};
use crate::keys;

/// Refuses to start while the published operator runs, in its usual namespace or in Muster's.
pub(crate) async fn check_published(client: &Client, namespace: &str, now: Timestamp) -> Result<()> {
    for namespace in BTreeSet::from([keys::PUBLISHED_NAMESPACE, namespace]) {
        let lease = lease(client, namespace, keys::PUBLISHED_LEASE).await?;
        check_published_lease(lease.as_ref(), now)?;
    }
    Ok(())
}

/// Refuses to start while a Muster with another namespace runs: the policy names that namespace, which has the Lease.
pub(crate) async fn check_other_muster(client: &Client, namespace: &str, now: Timestamp) -> Result<()> {
    let policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
    let policy = policies.get_opt(REGISTRATION).await.context("the policy of machines cannot be read")?;
    let owner = policy.as_ref().and_then(|policy| policy.annotations().get(keys::MACHINES_NAMESPACE));
    if let Some(owner) = owner.filter(|owner| *owner != namespace) {
        check_other_lease(owner, lease(client, owner, keys::LEASE).await?.as_ref(), now)?;
    }
    Ok(())
}

async fn lease(client: &Client, namespace: &str, name: &str) -> Result<Option<Lease>> {
    let lease = Api::<Lease>::namespaced(client.clone(), namespace).get_opt(name).await;
    lease.with_context(|| format!("Lease {name} of namespace {namespace} cannot be read"))
}

/// The webhook configuration of an operator that does not run any more, and a message with the remedy.
pub(crate) struct LeftoverRegistration {
    pub(crate) about: ObjectReference,
    pub(crate) message: String,
}

/// The webhook configurations of other operators for guests or Machines. The API server refuses guests while such an
/// operator does not respond.
pub(crate) async fn leftover_registrations(client: &Client) -> kube::Result<Vec<LeftoverRegistration>> {
    let mut leftovers = leftovers::<MutatingWebhookConfiguration>(client).await?;
    leftovers.extend(self::leftovers::<ValidatingWebhookConfiguration>(client).await?);
    Ok(leftovers)
}

async fn leftovers<K>(client: &Client) -> kube::Result<Vec<LeftoverRegistration>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let configurations = Api::<K>::all(client.clone()).list(&ListParams::default()).await?;
    let others = configurations.iter().filter(|configuration| calls_another_operator(&json!(configuration)));
    let leftover = |configuration: &K| {
        let (kind, name) = (K::kind(&()), configuration.name_any());
        let command = kind.to_lowercase();
        let message = format!(
            "{kind} {name} calls another operator for guests or Machines, which are refused while that operator does \
             not answer: run `kubectl delete {command} {name}` if it was scaled to 0"
        );
        LeftoverRegistration { about: configuration.object_ref(&()), message }
    };
    Ok(others.map(leftover).collect())
}
