//! Starts the Kubernetes provider, if one is configured.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use muster_api::auth::KubernetesTokens;
use muster_engine::ports::clock::SystemClock;
use muster_engine::ports::identity::{Identity as _, IdentityError, TokenIdentity};
use muster_engine::ports::machines::MachineProvider;
use muster_kube::{CannotConnect, Client, ImageOptions, Kubernetes, KubernetesOptions, TokenReviews};

use super::settings::ServerSettings;
use crate::files::write_private;

/// File in the data folder with the identity of the cluster that was connected last.
const REMEMBERED: &str = "kubernetes.json";

/// A token, user and namespace that do not exist, to test whether Muster may create reviews.
const UNKNOWN: &str = "unknown";

/// Connects to the configured Kubernetes; `None` if none is configured. One that was connected before may be
/// unreachable.
pub(super) async fn connect(
    settings: &ServerSettings,
    folder: &Path,
    database: String,
    machines: Option<Arc<dyn MachineProvider>>,
) -> Result<Option<Kubernetes>> {
    if !settings.has_kubernetes() {
        return Ok(None);
    }
    let file = folder.join(REMEMBERED);
    // An unreadable file counts as missing and is written again.
    let remembered = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let options = KubernetesOptions { remembered, database, machines, ..options(settings) };
    let before = options.remembered.clone();
    let kubernetes = Kubernetes::connect(options).await.map_err(|why| match why {
        CannotConnect::Unreachable(_) => {
            anyhow!(
                            "Kubernetes is unreachable: {why}: check that its API server runs; with --instance-id the server starts and \
                             waits for it"
                        )
        }
        why => anyhow!("cannot connect to Kubernetes: {why}"),
    })?;
    if let Some(found) = kubernetes.remembered_identity().filter(|found| Some(*found) != before.as_ref()) {
        write_private(&file, &serde_json::to_vec(found)?)?;
    }
    Ok(Some(kubernetes))
}

/// Creates a client for the configured Kubernetes.
pub(super) async fn client(settings: &ServerSettings) -> Result<Client> {
    muster_kube::client(&options(settings)).await.context("cannot connect to Kubernetes")
}

/// Creates the authenticator that identifies callers by `TokenReview`; fails if Muster may not create reviews.
pub(super) async fn tokens(settings: &ServerSettings) -> Result<KubernetesTokens> {
    let reviews = TokenReviews::new(&options(settings)).await;
    let reviews = reviews.context("cannot authenticate with Kubernetes")?;
    // An unreachable API server may return; without the permission no caller could be authenticated.
    if let Err(IdentityError::NotAllowed(why)) = reviews.identify_token(UNKNOWN).await {
        bail!("auth is 'kubernetes', but Muster may not create TokenReviews: {why}");
    }
    let user = TokenIdentity { user: UNKNOWN.to_owned(), groups: Vec::new() };
    if let Err(IdentityError::NotAllowed(why)) = reviews.may_create_pods(&user, UNKNOWN).await {
        bail!("auth is 'kubernetes', but Muster may not create SubjectAccessReviews: {why}");
    }
    Ok(KubernetesTokens::new(
        Arc::new(reviews),
        settings.kubernetes_project.clone(),
        settings.kubernetes_admin_groups.clone(),
        settings.project_namespaces.clone(),
        Arc::new(SystemClock),
    ))
}

fn options(settings: &ServerSettings) -> KubernetesOptions {
    let default = ImageOptions::default();
    KubernetesOptions {
        kubeconfig: settings.kubeconfig.clone(),
        namespaces: settings.namespace.clone(),
        instance_id: settings.instance_id.clone(),
        images: ImageOptions {
            registry: settings.image_registry.clone(),
            builder: settings.image_builder.clone().unwrap_or(default.builder),
            push_secret: settings.image_push_secret.clone(),
        },
        ..KubernetesOptions::default()
    }
}
