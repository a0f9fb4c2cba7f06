//! The namespace of reservations, Lease and certificate.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, Client};

use super::apply::is_conflict;
use crate::decide::registration::machines_namespace;

/// Creates the namespace if it does not exist.
pub(crate) async fn ensure_namespace(client: &Client, name: &str) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    if namespaces.get_opt(name).await.with_context(|| format!("namespace {name} cannot be read"))?.is_some() {
        return Ok(());
    }
    match namespaces.create(&PostParams::default(), &machines_namespace(name)).await {
        Err(error) if !is_conflict(&error) => {
            Err(error).with_context(|| format!("namespace {name} cannot be created"))
        }
        _ => Ok(()),
    }
}
