//! The provider of Kubernetes, if one is configured.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use muster_api::auth::KubernetesTokens;
use muster_engine::clock::SystemClock;
use muster_kube::{Kubernetes, Options, TokenReviews};

use super::settings::Settings;

/// Connects to the Kubernetes that the settings name; none if they name none.
pub(super) async fn connect(settings: &Settings) -> Result<Option<Kubernetes>> {
    if !settings.has_kubernetes() {
        return Ok(None);
    }
    Kubernetes::connect(options(settings)).await.map(Some).context("there is no Kubernetes")
}

/// Knows whose a token is by asking that Kubernetes.
pub(super) async fn tokens(settings: &Settings) -> Result<KubernetesTokens> {
    let reviews = TokenReviews::new(&options(settings)).await;
    let reviews = reviews.context("cannot ask Kubernetes who is calling")?;
    Ok(KubernetesTokens::new(
        Arc::new(reviews),
        settings.kubernetes_project.clone(),
        settings.kubernetes_admin_groups.clone(),
        settings.project_namespaces.clone(),
        Arc::new(SystemClock),
    ))
}

fn options(settings: &Settings) -> Options {
    Options {
        kubeconfig: settings.kubeconfig.clone(),
        namespaces: settings.namespace.clone(),
        instance_id: settings.instance_id.clone(),
        names: HashMap::new(),
    }
}
