//! Finding the API server, and which Kubernetes it is.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use muster_core::ids::InstanceId;

use crate::refusal;

/// The namespace whose UID tells one Kubernetes from another.
const SYSTEM: &str = "kube-system";

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
pub(crate) async fn connect(options: &Options) -> Result<(Client, InstanceId), CannotConnect> {
    let client = client(options).await?;
    let id = match &options.instance_id {
        Some(id) => id.clone(),
        None => uid_of_system(&client).await?,
    };
    Ok((client, InstanceId::new("kubernetes", &id)))
}

/// A client; it is not connected yet.
pub(crate) async fn client(options: &Options) -> Result<Client, CannotConnect> {
    let config = match &options.kubeconfig {
        Some(file) => from_file(file).await?,
        None => Config::incluster().map_err(|error| CannotConnect::NotInPod(error.to_string()))?,
    };
    Client::try_from(without_detour(config)).map_err(|error| CannotConnect::Unreachable(error.to_string()))
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

async fn uid_of_system(client: &Client) -> Result<String, CannotConnect> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let system = namespaces.get(SYSTEM).await.map_err(|error| {
        let refused = refusal::is(&error, 403) || refusal::is(&error, 401);
        let words = refusal::of("read namespace kube-system", error).message;
        if refused { CannotConnect::Unknown(words) } else { CannotConnect::Unreachable(words) }
    })?;
    system.metadata.uid.ok_or_else(|| CannotConnect::Unknown("namespace kube-system has no UID".to_owned()))
}
