//! Connections to the API server: configuration, clients, and the identity of the Kubernetes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use muster_core::ids::InstanceId;
use muster_engine::ports::machines::MachineProvider;
use tokio_util::sync::CancellationToken;

use crate::cluster_identity::{self, IdentityGate, RememberedIdentity};
use crate::fences::Fences;
use crate::images::ImageOptions;
use crate::watches::WATCH_SECONDS;

/// The time that a watch may be silent beyond its regular end.
const WATCH_GRACE: Duration = Duration::from_secs(15);

/// The API server to use, and the namespaces to serve.
#[derive(Clone, Default)]
pub struct KubernetesOptions {
    /// A kubeconfig; without one, the service account of the server's own pod is used.
    pub kubeconfig: Option<PathBuf>,
    /// Namespaces to serve; all if empty.
    pub namespaces: Vec<String>,
    /// An id for this Kubernetes, for accounts that may not read the namespace `kube-system`.
    pub instance_id: Option<String>,
    /// Addresses of host names within Kubernetes, for servers outside whose resolver does not know them.
    pub names: HashMap<String, IpAddr>,
    /// The identity of the last start, which is assumed while the API server is unreachable.
    pub remembered: Option<RememberedIdentity>,
    /// The id of the database that fences are drawn from.
    pub database: String,
    /// The settings of image builds.
    pub images: ImageOptions,
    /// The provider of machine slots, if machine groups are enabled.
    pub machines: Option<Arc<dyn MachineProvider>>,
}

/// A reason why the provider cannot connect.
#[derive(Debug, thiserror::Error)]
pub enum CannotConnect {
    /// The kubeconfig cannot be read, or has no usable context.
    #[error("cannot use the kubeconfig {}: {why}", file.display())]
    Kubeconfig {
        /// The path of the kubeconfig.
        file: PathBuf,
        /// The fault.
        why: String,
    },
    /// The server does not run in a pod.
    #[error("no service account of a pod found ({0}): use --kubeconfig instead of --in-cluster")]
    NotInPod(String),
    /// No client can be created from the configuration, for example because of its certificates.
    #[error("the TLS or client configuration cannot be used: {0}: correct its certificates, keys and proxy")]
    Configuration(String),
    /// The API server does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// The API server answers, but its identity cannot be read.
    #[error(
        "cannot identify this Kubernetes: {0}: allow `get` on namespace kube-system, or give --instance-id"
    )]
    Unknown(String),
}

/// The clients of a Kubernetes, and its identity.
pub(crate) struct KubernetesConnection {
    pub(crate) client: Client,
    /// The client for watches, which time out when nothing arrives.
    pub(crate) watch_client: Client,
    pub(crate) instance: InstanceId,
    pub(crate) identity_gate: IdentityGate,
    pub(crate) fences: Fences,
    /// The host name or address of the API server.
    pub(crate) api_server: String,
    /// The identity to store for the next start; none if it is configured.
    pub(crate) remembered: Option<RememberedIdentity>,
}

/// Connects and identifies the Kubernetes. Background tasks end when `stop` is cancelled.
pub(crate) async fn connect(
    options: &KubernetesOptions,
    stop: &CancellationToken,
) -> Result<KubernetesConnection, CannotConnect> {
    let config = load_config(options).await?;
    let server = config.cluster_url.to_string();
    let api_server = config.cluster_url.host().unwrap_or_default().to_owned();
    let watch_client = new_client(with_watch_timeout(config.clone()))?;
    let client = new_client(config)?;
    let (id, identity_gate, remembered) = match &options.instance_id {
        Some(id) => (id.clone(), IdentityGate::open(), None),
        None => {
            let (found, identity_gate) =
                cluster_identity::identify(&client, server, options.remembered.as_ref(), stop).await?;
            (found.id.clone(), identity_gate, Some(found))
        }
    };
    let fences = Fences::new(&options.database);
    let instance = InstanceId::new("kubernetes", &id);
    Ok(KubernetesConnection { client, watch_client, instance, identity_gate, fences, api_server, remembered })
}

/// Adds a read time-out: a watch ends regularly, so longer silence means that the connection is dead. Other
/// requests have none, since a log that is followed may be silent for any time.
fn with_watch_timeout(mut config: Config) -> Config {
    config.read_timeout = Some(Duration::from_secs(u64::from(WATCH_SECONDS)) + WATCH_GRACE);
    config.reset_reader_on_write = true;
    config
}

/// Builds a client from the options, without a request.
pub async fn client(options: &KubernetesOptions) -> Result<Client, CannotConnect> {
    new_client(load_config(options).await?)
}

fn new_client(config: Config) -> Result<Client, CannotConnect> {
    Client::try_from(config).map_err(|error| CannotConnect::Configuration(error.to_string()))
}

async fn load_config(options: &KubernetesOptions) -> Result<Config, CannotConnect> {
    let config = match &options.kubeconfig {
        Some(file) => read_kubeconfig(file).await?,
        None => Config::incluster().map_err(|error| CannotConnect::NotInPod(error.to_string()))?,
    };
    Ok(without_proxy_to_localhost(config))
}

/// Ignores the proxy of the environment for an API server on this machine.
fn without_proxy_to_localhost(mut config: Config) -> Config {
    if matches!(config.cluster_url.host(), Some("127.0.0.1" | "localhost" | "[::1]")) {
        config.proxy_url = None;
    }
    config
}

async fn read_kubeconfig(file: &Path) -> Result<Config, CannotConnect> {
    let wrong = |why: String| CannotConnect::Kubeconfig { file: file.to_owned(), why };
    let kubeconfig = Kubeconfig::read_from(file).map_err(|error| wrong(error.to_string()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.map_err(|error| wrong(error.to_string()))
}
