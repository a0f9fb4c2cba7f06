//! Kubernetes: one for a test run, a namespace for each test.

mod diagnosis;
mod namespace;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

pub use self::namespace::Namespace;
use crate::wire::KubernetesParts;
use crate::{shared, tls};

/// The Kubernetes of this test run, or `None` if the test is skipped.
pub async fn kubernetes() -> Option<Kubernetes> {
    let KubernetesParts { kubeconfig, log_dir } = shared::obtain("kubernetes").await?;
    let client = connect(&kubeconfig, None).await.expect("the testbed's kubeconfig is good");
    Some(Kubernetes { client, kubeconfig, log_dir })
}

/// A Kubernetes with kwok nodes, and its admin's client.
#[derive(Clone)]
pub struct Kubernetes {
    client: Client,
    kubeconfig: PathBuf,
    log_dir: PathBuf,
}

impl Kubernetes {
    /// A client with the admin's rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client that shows this token instead of the admin's.
    pub async fn client_with_token(&self, token: &str) -> Client {
        connect(&self.kubeconfig, Some(token)).await.expect("the testbed's kubeconfig is good")
    }

    /// The admin's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The folder with a log of each component.
    pub fn log_dir(&self) -> &Path {
        &self.log_dir
    }

    /// Makes a namespace that is deleted together with the returned value.
    pub async fn namespace(&self) -> Namespace {
        Namespace::create(self.clone()).await
    }
}

/// A client for a kubeconfig, with another token than the one in it if one is given.
pub(crate) async fn connect(kubeconfig: &Path, token: Option<&str>) -> Result<Client> {
    tls::use_ring();
    let mut kubeconfig = Kubeconfig::read_from(kubeconfig).context("cannot read the kubeconfig")?;
    if let Some(token) = token {
        for user in &mut kubeconfig.auth_infos {
            user.auth_info = Some(serde_json::from_value(serde_json::json!({ "token": token }))?);
        }
    }
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // It is on this machine: a proxy that the environment names must not come between.
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}
