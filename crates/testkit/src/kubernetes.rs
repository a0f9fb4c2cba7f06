//! The Kubernetes of a test run, and a namespace for each test.

mod custom;
mod diagnosis;
mod gate;
mod namespace;
mod operator;
mod own;

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

pub use self::gate::{Gate, RecordedWrite, Side};
pub use self::namespace::Namespace;
pub use self::operator::{Operator, RunningOperator};
pub use self::own::{Component, Options, OwnKubernetes, own_kubernetes, own_kubernetes_with};
use crate::wire::{KubernetesParts, OperatorParts};
use crate::{shared, tls};

/// The Kubernetes of this test run, or `None` if the test is skipped.
pub async fn kubernetes() -> Option<Kubernetes> {
    let testbed = env::var_os("MUSTER_TESTBED").expect(shared::NO_TESTBED);
    Kubernetes::of_testbed(Path::new(&testbed)).await
}

/// A Kubernetes with kwok nodes, and its admin's client.
#[derive(Clone)]
pub struct Kubernetes {
    testbed: PathBuf,
    client: Client,
    kubeconfig: PathBuf,
    log_dir: PathBuf,
}

impl Kubernetes {
    /// Requests the Kubernetes from the testbed in this folder.
    async fn of_testbed(testbed: &Path) -> Option<Self> {
        let KubernetesParts { kubeconfig, log_dir } = shared::obtain_from(testbed, "kubernetes").await?;
        let client = connect(&kubeconfig, None).await.expect("the testbed's kubeconfig is good");
        Some(Self { testbed: testbed.to_owned(), client, kubeconfig, log_dir })
    }

    /// Runs an operator with its custom resources, from the first request until the end of the testbed;
    /// `None` if the test is skipped.
    ///
    /// ```no_run
    /// # async fn example() {
    /// use muster_testkit::Operator;
    /// let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
    /// let Some(_kuberay) = kubernetes.operator(Operator::KubeRay).await else { return };
    /// let namespace = kubernetes.namespace().await;
    /// # }
    /// ```
    pub async fn operator(&self, operator: Operator) -> Option<RunningOperator> {
        let want = format!("operator/{}", operator.name());
        let OperatorParts { log } = shared::obtain_from(&self.testbed, &want).await?;
        Some(RunningOperator { log })
    }

    /// A client with the permissions of an admin.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client with this token instead of the admin's.
    pub async fn client_with_token(&self, token: &str) -> Client {
        connect(&self.kubeconfig, Some(token)).await.expect("the testbed's kubeconfig is good")
    }

    /// The admin's kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A proxy to the API server that closes at a chosen write.
    pub async fn gate(&self) -> Gate {
        Gate::before(self).await
    }

    /// The folder with a log of each component.
    pub fn log_dir(&self) -> &Path {
        &self.log_dir
    }

    /// Creates a namespace that is deleted with the returned value.
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
    // The server is on this machine: proxies of the environment must not be used.
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}
