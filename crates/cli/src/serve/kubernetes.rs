//! The provider of Kubernetes, if one is configured.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use muster_api::auth::KubernetesTokens;
use muster_engine::ports::clock::SystemClock;
use muster_engine::ports::identity::{Identity as _, IdentityError, TokenIdentity};
use muster_kube::{CannotConnect, Client, ImageOptions, Kubernetes, Options, TokenReviews};

use super::settings::Settings;
use crate::files::write_private;

/// The file of the data folder that says which Kubernetes it was the last time.
const REMEMBERED: &str = "kubernetes.json";

/// A token, user and namespace that do not exist, to find out whether Muster may ask.
const UNKNOWN: &str = "unknown";

/// Connects to the Kubernetes that the settings name; none if they name none. One that was there before may be away.
pub(super) async fn connect(
    settings: &Settings,
    folder: &Path,
    database: String,
) -> Result<Option<Kubernetes>> {
    if !settings.has_kubernetes() {
        return Ok(None);
    }
    let file = folder.join(REMEMBERED);
    // A file that cannot be read is one that is not there: it is written anew.
    let remembered = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let options = Options { remembered, database, ..options(settings) };
    let before = options.remembered.clone();
    let kubernetes = Kubernetes::connect(options).await.map_err(|why| match why {
        CannotConnect::Unreachable(_) => {
            anyhow!("there is no Kubernetes: {why}: see that it runs; with --instance-id it is waited for")
        }
        why => anyhow!("there is no Kubernetes: {why}"),
    })?;
    if let Some(found) = kubernetes.remembered().filter(|found| Some(*found) != before.as_ref()) {
        write_private(&file, &serde_json::to_vec(found)?)?;
    }
    Ok(Some(kubernetes))
}

/// A client of that Kubernetes.
pub(super) async fn client(settings: &Settings) -> Result<Client> {
    muster_kube::client(&options(settings)).await.context("there is no Kubernetes")
}

/// Knows whose a token is by asking that Kubernetes.
pub(super) async fn tokens(settings: &Settings) -> Result<KubernetesTokens> {
    let reviews = TokenReviews::new(&options(settings)).await;
    let reviews = reviews.context("cannot ask Kubernetes who is calling")?;
    // One that is away may come back; one that does not let us ask lets nobody in.
    if let Err(IdentityError::NotAllowed(why)) = reviews.identify_token(UNKNOWN).await {
        bail!("auth is 'kubernetes', and it cannot be asked who is calling: {why}");
    }
    let user = TokenIdentity { user: UNKNOWN.to_owned(), groups: Vec::new() };
    if let Err(IdentityError::NotAllowed(why)) = reviews.may_create_pods(&user, UNKNOWN).await {
        bail!("auth is 'kubernetes', and it cannot be asked what callers may do: {why}");
    }
    Ok(KubernetesTokens::new(
        Arc::new(reviews),
        settings.kubernetes_project.clone(),
        settings.kubernetes_admin_groups.clone(),
        settings.project_namespaces.clone(),
        Arc::new(SystemClock),
    ))
}

fn options(settings: &Settings) -> Options {
    let default = ImageOptions::default();
    Options {
        kubeconfig: settings.kubeconfig.clone(),
        namespaces: settings.namespace.clone(),
        instance_id: settings.instance_id.clone(),
        images: ImageOptions {
            registry: settings.image_registry.clone(),
            builder: settings.image_builder.clone().unwrap_or(default.builder),
            push_secret: settings.image_push_secret.clone(),
        },
        ..Options::default()
    }
}
