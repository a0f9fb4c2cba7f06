//! The provider of Kubernetes, if one is configured.

use anyhow::{Context as _, Result};
use muster_kube::{Kubernetes, Options};

use super::settings::Settings;

/// Connects to the Kubernetes that the settings name; none if they name none.
pub(super) async fn connect(settings: &Settings) -> Result<Option<Kubernetes>> {
    if settings.kubeconfig.is_none() && !settings.in_cluster {
        return Ok(None);
    }
    let options = Options {
        kubeconfig: settings.kubeconfig.clone(),
        namespaces: settings.namespace.clone(),
        instance_id: settings.instance_id.clone(),
    };
    Kubernetes::connect(options).await.map(Some).context("there is no Kubernetes")
}
