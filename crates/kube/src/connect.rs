//! Finding the API server, and which Kubernetes it is.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use muster_core::ids::InstanceId;
use tokio_util::sync::CancellationToken;

use crate::fences::Fences;
use crate::follow::WATCH_SECONDS;
use crate::images::ImageOptions;
use crate::which::{self, Certain, Remembered};

/// How much later than its end a watch may be ended.
const LATE: Duration = Duration::from_secs(15);

/// Where Kubernetes is, and what of it is served.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// A kubeconfig; without one, the account of the pod that this runs in.
    pub kubeconfig: Option<PathBuf>,
    /// Namespaces to serve; all if there are none.
    pub namespaces: Vec<String>,
    /// What tells this Kubernetes from another, for accounts that may not read `kube-system`.
    pub instance_id: Option<String>,
    /// Addresses of names within Kubernetes, where whoever looks names up here does not know them.
    pub names: HashMap<String, IpAddr>,
    /// The one of the last start, which may be away now.
    pub remembered: Option<Remembered>,
    /// The database that fences are drawn from.
    pub database: String,
    /// How images are built.
    pub images: ImageOptions,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum CannotConnect {
    /// The file says nothing usable.
    #[error("cannot use the kubeconfig {}: {why}", file.display())]
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It does not run in a pod.
    #[error("there is no account of a pod here ({0}): use --kubeconfig instead of --in-cluster")]
    NotInPod(String),
    /// It does not answer.
    #[error("{0}")]
    Unreachable(String),
    /// It answers, and does not say which one it is.
    #[error(
        "cannot tell which Kubernetes this is: {0}: allow `get` on namespace kube-system, or give --instance-id"
    )]
    Unknown(String),
}

/// A client, and which Kubernetes it talks to.
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// For watches: an answer that stays away ends them.
    pub(crate) watch_client: Client,
    pub(crate) instance: InstanceId,
    pub(crate) certain: Certain,
    pub(crate) fences: Fences,
    /// The host name or address of the API server.
    pub(crate) api_server: String,
    /// What to remember for the next start; nothing where its user says which one it is.
    pub(crate) remembered: Option<Remembered>,
}

/// Connects; what is done in the background ends when it is told to stop.
pub(crate) async fn connect(
    options: &Options,
    stop: &CancellationToken,
) -> Result<Connection, CannotConnect> {
    let config = config(options).await?;
    let server = config.cluster_url.to_string();
    let api_server = config.cluster_url.host().unwrap_or_default().to_owned();
    let watch_client = connected(for_watches(config.clone()))?;
    let client = connected(config)?;
    let (id, certain, remembered) = match &options.instance_id {
        Some(id) => (id.clone(), Certain::yes(), None),
        None => {
            let (found, certain) =
                which::find_out(&client, server, options.remembered.as_ref(), stop).await?;
            (found.id.clone(), certain, Some(found))
        }
    };
    let fences = Fences::of(&options.database);
    let instance = InstanceId::new("kubernetes", &id);
    Ok(Connection { client, watch_client, instance, certain, fences, api_server, remembered })
}

/// A watch ends regularly, so silence for much longer means that the connection is dead. Logs that are followed may be silent
/// for as long as they like.
fn for_watches(mut config: Config) -> Config {
    config.read_timeout = Some(Duration::from_secs(u64::from(WATCH_SECONDS)) + LATE);
    config.reset_reader_on_write = true;
    config
}

/// A client; it is not connected yet.
pub async fn client(options: &Options) -> Result<Client, CannotConnect> {
    connected(config(options).await?)
}

fn connected(config: Config) -> Result<Client, CannotConnect> {
    Client::try_from(config).map_err(|error| CannotConnect::Unreachable(error.to_string()))
}

async fn config(options: &Options) -> Result<Config, CannotConnect> {
    let config = match &options.kubeconfig {
        Some(file) => from_file(file).await?,
        None => Config::incluster().map_err(|error| CannotConnect::NotInPod(error.to_string()))?,
    };
    Ok(without_detour(config))
}

/// An API server on this machine is not asked for through a proxy, whatever the environment says.
fn without_detour(mut config: Config) -> Config {
    if matches!(config.cluster_url.host(), Some("127.0.0.1" | "localhost" | "[::1]")) {
        config.proxy_url = None;
    }
    config
}

async fn from_file(file: &Path) -> Result<Config, CannotConnect> {
    let wrong = |why: String| CannotConnect::Kubeconfig { file: file.to_owned(), why };
    let kubeconfig = Kubeconfig::read_from(file).map_err(|error| wrong(error.to_string()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    config.map_err(|error| wrong(error.to_string()))
}
