//! The server's settings. Flags take precedence over environment variables, these over the file, and the file over
//! defaults.

mod check;
mod period;
mod scaler_variables;
mod webhook_service;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use clap::builder::BoolishValueParser;
use muster_api::ProtoNumbering;
use muster_api::auth::{DOMINO_SCHEME, LOCAL_SCHEME};
use muster_core::projects::ProjectNamespaces;
use muster_core::shape::NamedShape;
use muster_core::time::TimeSpan;
use reqwest::Url;
use serde::Deserialize;

use crate::config_folder::default_settings;
use muster_egress::{EgressRule, Network};
use period::Period;
use scaler_variables::GivenSettings;
pub(crate) use webhook_service::WebhookService;

/// All settings, with their defaults.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerSettings {
    pub(crate) listen: SocketAddr,
    pub(crate) grpc_listen: SocketAddr,
    pub(crate) grpc_proto_numbering: Numbering,
    pub(crate) data_dir: PathBuf,
    pub(crate) database_url: Option<String>,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) in_cluster: bool,
    pub(crate) namespace: Vec<String>,
    pub(crate) instance_id: Option<String>,
    pub(crate) image_registry: Option<String>,
    pub(crate) image_builder: Option<String>,
    pub(crate) image_push_secret: Option<String>,
    pub(crate) auth: Vec<String>,
    pub(crate) kubernetes_project: String,
    pub(crate) kubernetes_admin_groups: Vec<String>,
    pub(crate) tls_cert: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) egress_allow: Vec<Network>,
    pub(crate) egress_deny: Vec<Network>,
    pub(crate) domino_url: Option<String>,
    pub(crate) compute_namespace: String,
    pub(crate) scaler_max_replicas: u32,
    pub(crate) max_nodes_per_cluster: Option<u32>,
    pub(crate) max_clusters_per_project: u32,
    pub(crate) parallel_actions: u32,
    pub(crate) retention_days: u32,
    pub(crate) app_grace: Period,
    pub(crate) app_lease: Period,
    pub(crate) webhook_listen: Option<SocketAddr>,
    pub(crate) webhook_url: Option<String>,
    pub(crate) webhook_service: Option<WebhookService>,
    pub(crate) machines_namespace: String,
    pub(crate) ignore_not_ready_taint: bool,
    pub(crate) node_start_seconds: u32,
    pub(crate) gpus: Option<u32>,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    pub(crate) dev: bool,
    /// Can be set in the file only.
    pub(crate) shape: Vec<NamedShape>,
    /// Can be set in the file only.
    pub(crate) project_namespaces: ProjectNamespaces,
    /// Warnings about variables of other programs that could not be used.
    #[serde(skip)]
    pub(crate) ignored_variables: Vec<String>,
}

/// Field numbers of the messages of package `proto` in gRPC requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Numbering {
    /// Those of the KubeRay API server since its API v1
    V1,
    /// Those of its command line until version 0.6
    V1alpha2,
}

impl From<Numbering> for ProtoNumbering {
    fn from(numbering: Numbering) -> Self {
        match numbering {
            Numbering::V1 => Self::V1,
            Numbering::V1alpha2 => Self::V1alpha2,
        }
    }
}

/// Format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// Text for people
    Text,
    /// One JSON object per line
    Json,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 8888),
            grpc_listen: SocketAddr::new(IpAddr::from([127, 0, 0, 1]), 8887),
            grpc_proto_numbering: Numbering::V1,
            data_dir: super::default_folder().unwrap_or_default(),
            database_url: None,
            kubeconfig: None,
            in_cluster: false,
            namespace: Vec::new(),
            instance_id: None,
            image_registry: None,
            image_builder: None,
            image_push_secret: None,
            auth: Vec::new(),
            kubernetes_project: "default".to_owned(),
            kubernetes_admin_groups: vec!["system:masters".to_owned()],
            tls_cert: None,
            tls_key: None,
            allowed_hosts: Vec::new(),
            egress_allow: Vec::new(),
            egress_deny: Vec::new(),
            domino_url: None,
            compute_namespace: "domino-compute".to_owned(),
            scaler_max_replicas: 100,
            max_nodes_per_cluster: None,
            max_clusters_per_project: 1_000,
            parallel_actions: 64,
            retention_days: 30,
            app_grace: Period::from_secs(30),
            app_lease: Period::from_secs(15),
            webhook_listen: None,
            webhook_url: None,
            webhook_service: None,
            machines_namespace: "imperator-system".to_owned(),
            ignore_not_ready_taint: false,
            node_start_seconds: 180,
            gpus: None,
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            dev: false,
            shape: Vec::new(),
            project_namespaces: ProjectNamespaces::default(),
            ignored_variables: Vec::new(),
        }
    }
}

/// A commented configuration file with every key; keys without a default are commented out.
pub(super) const DEFAULT_FILE: &str = include_str!("default.toml");

/// The settings as flags and environment variables.
#[derive(Debug, Parser)]
pub(crate) struct Flags {
    /// Address of REST, probes and gRPC
    #[arg(long, env = "MUSTER_LISTEN", value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Another address of gRPC alone
    #[arg(long, env = "MUSTER_GRPC_LISTEN", value_name = "ADDR")]
    grpc_listen: Option<SocketAddr>,
    /// Field numbers of messages of package `proto`, for gRPC clients of the KubeRay API server
    #[arg(long, env = "MUSTER_GRPC_PROTO_NUMBERING", value_name = "VERSION")]
    grpc_proto_numbering: Option<Numbering>,
    /// The data folder: database, token, logs and folders of local nodes
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// PostgreSQL database that replicas share, instead of a file in the data folder
    #[arg(long, env = "MUSTER_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Kubeconfig of the Kubernetes to create clusters on
    #[arg(long, env = "MUSTER_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Create clusters on the Kubernetes that the server runs in
    #[arg(
        long,
        env = "MUSTER_IN_CLUSTER",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = BoolishValueParser::new()
    )]
    in_cluster: Option<bool>,
    /// Kubernetes namespace to serve; may be repeated [default: all]
    #[arg(long, env = "MUSTER_SERVE_NAMESPACES", value_name = "NS", value_delimiter = ',')]
    namespace: Option<Vec<String>>,
    /// Identity of this Kubernetes, if the UID of kube-system cannot be read
    #[arg(long, env = "MUSTER_INSTANCE_ID", value_name = "ID")]
    instance_id: Option<String>,
    /// Registry to which images built on Kubernetes are pushed, with its path
    #[arg(long, env = "MUSTER_IMAGE_REGISTRY", value_name = "REGISTRY")]
    image_registry: Option<String>,
    /// Image of the builder on Kubernetes; needs buildctl, and runs without root
    #[arg(long, env = "MUSTER_IMAGE_BUILDER", value_name = "IMAGE")]
    image_builder: Option<String>,
    /// Secret with the registry's credentials, in every namespace where images are built
    #[arg(long, env = "MUSTER_IMAGE_PUSH_SECRET", value_name = "SECRET")]
    image_push_secret: Option<String>,
    /// Authentication: local, none, tokens:FILE, accounts:FILE, kubernetes or domino; several are tried in order
    #[arg(long, env = "MUSTER_AUTH", value_name = "SCHEME", value_delimiter = ',')]
    auth: Option<Vec<String>>,
    /// Project of Kubernetes users (`--auth kubernetes`); service accounts have the project of their namespace
    #[arg(long, env = "MUSTER_KUBERNETES_PROJECT", value_name = "PROJECT")]
    kubernetes_project: Option<String>,
    /// Kubernetes groups whose members are admins (`--auth kubernetes`)
    #[arg(long, env = "MUSTER_KUBERNETES_ADMIN_GROUPS", value_name = "GROUP", value_delimiter = ',')]
    kubernetes_admin_groups: Option<Vec<String>>,
    /// TLS certificate for both ports
    #[arg(long, env = "MUSTER_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the TLS certificate
    #[arg(long, env = "MUSTER_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Host names by which clients may call a server that listens beyond this machine
    #[arg(long, env = "MUSTER_ALLOWED_HOSTS", value_name = "HOST", value_delimiter = ',')]
    allowed_hosts: Option<Vec<String>>,
    /// Internal addresses that webhooks and poll URLs may reach: addresses or networks such as 127.0.0.0/8
    #[arg(long, env = "MUSTER_EGRESS_ALLOW", value_name = "NETWORK", value_delimiter = ',')]
    egress_allow: Option<Vec<Network>>,
    /// Networks that webhooks and poll URLs may not reach; the narrowest network that contains an address decides
    #[arg(long, env = "MUSTER_EGRESS_DENY", value_name = "NETWORK", value_delimiter = ',')]
    egress_deny: Option<Vec<Network>>,
    /// The Domino deployment whose users (`--auth domino`) and hardware tiers the scaler API serves
    #[arg(long, env = "MUSTER_DOMINO_URL", value_name = "URL")]
    domino_url: Option<String>,
    /// Namespace of Domino's clusters
    #[arg(long, env = "MUSTER_COMPUTE_NAMESPACE", value_name = "NS")]
    compute_namespace: Option<String>,
    /// Maximum number of workers in the scaler API for clusters without their own maximum
    #[arg(long, env = "MUSTER_SCALER_MAX_REPLICAS", value_name = "N")]
    scaler_max_replicas: Option<u32>,
    /// Maximum number of nodes of a cluster
    #[arg(long, env = "MUSTER_MAX_NODES_PER_CLUSTER", value_name = "N")]
    max_nodes_per_cluster: Option<u32>,
    /// Maximum number of clusters of a project
    #[arg(long, env = "MUSTER_MAX_CLUSTERS_PER_PROJECT", value_name = "N")]
    max_clusters_per_project: Option<u32>,
    /// Maximum number of actions that run at the same time
    #[arg(long, env = "MUSTER_PARALLEL_ACTIONS", value_name = "N")]
    parallel_actions: Option<u32>,
    /// Number of days to keep deleted clusters, ended actions and their events
    #[arg(long, env = "MUSTER_RETENTION_DAYS", value_name = "DAYS")]
    retention_days: Option<u32>,
    /// Grace period after the end of an app before its ephemeral clusters are deleted
    #[arg(long, env = "MUSTER_APP_GRACE", value_name = "DURATION")]
    app_grace: Option<Period>,
    /// Lease of a command on another host; without renewal it counts as gone
    #[arg(long, env = "MUSTER_APP_LEASE", value_name = "DURATION")]
    app_lease: Option<Period>,
    /// Enable machine types, with their webhook at this address and port, such as 0.0.0.0:9443
    #[arg(long, env = "MUSTER_WEBHOOK_LISTEN", value_name = "ADDRESS")]
    webhook_listen: Option<SocketAddr>,
    /// URL by which the API server calls the webhook, if it differs from the listening address
    #[arg(long, env = "MUSTER_WEBHOOK_URL", value_name = "URL")]
    webhook_url: Option<String>,
    /// Service by which the API server calls the webhook: namespace/name, or namespace/name:port
    #[arg(long, env = "MUSTER_WEBHOOK_SERVICE", value_name = "SERVICE", conflicts_with = "webhook_url")]
    webhook_service: Option<WebhookService>,
    /// Namespace of reservations; created if missing
    #[arg(long, env = "MUSTER_MACHINES_NAMESPACE", value_name = "NAMESPACE")]
    machines_namespace: Option<String>,
    /// Use nodes with the taint not-ready, which without a controller-manager is never removed
    #[arg(long, env = "MUSTER_IGNORE_NOT_READY_TAINT", num_args = 0..=1, default_missing_value = "true", value_parser = BoolishValueParser::new())]
    ignore_not_ready_taint: Option<bool>,
    /// Time limit for the start of a local node
    #[arg(long, env = "MUSTER_NODE_START_SECONDS", value_name = "SECONDS")]
    node_start_seconds: Option<u32>,
    /// Number of accelerators for local clusters [default: the number of devices /dev/nvidia*]
    #[arg(long, env = "MUSTER_GPUS", value_name = "N")]
    gpus: Option<u32>,
    /// Log level: error, warn, info, debug, trace, or a filter such as `info,muster_engine=debug`
    #[arg(long, env = "MUSTER_LOG", value_name = "FILTER")]
    log: Option<String>,
    /// Format of the log
    #[arg(long, env = "MUSTER_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Development mode: simulated nodes, and no authentication unless --auth is given; loopback only
    #[arg(
        long,
        env = "MUSTER_DEV",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = BoolishValueParser::new()
    )]
    dev: Option<bool>,
    /// Configuration file (see --print-config) [default: muster/muster.toml in `XDG_CONFIG_HOME` or ~/.config, if it
    /// exists]
    #[arg(long, env = "MUSTER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Flags {
    pub(super) fn resolve(self) -> Result<ServerSettings> {
        let Self {
            listen,
            grpc_listen,
            grpc_proto_numbering,
            data_dir,
            database_url,
            kubeconfig,
            in_cluster,
            namespace,
            instance_id,
            image_registry,
            image_builder,
            image_push_secret,
            auth,
            kubernetes_project,
            kubernetes_admin_groups,
            tls_cert,
            tls_key,
            allowed_hosts,
            egress_allow,
            egress_deny,
            domino_url,
            compute_namespace,
            scaler_max_replicas,
            max_nodes_per_cluster,
            max_clusters_per_project,
            parallel_actions,
            retention_days,
            app_grace,
            app_lease,
            webhook_listen,
            webhook_url,
            webhook_service,
            machines_namespace,
            ignore_not_ready_taint,
            node_start_seconds,
            gpus,
            log,
            log_format,
            dev,
            config,
        } = self;
        let config = config.or_else(|| default_settings().filter(|file| file.exists()));
        let (file, keys) = config.map(|path| read(&path)).transpose()?.unwrap_or_default();
        let given = GivenSettings {
            compute_namespace: compute_namespace.is_some() || keys.contains_key("compute_namespace"),
            log: log.is_some() || keys.contains_key("log"),
        };
        let settings = ServerSettings {
            listen: listen.unwrap_or(file.listen),
            grpc_listen: grpc_listen.unwrap_or(file.grpc_listen),
            grpc_proto_numbering: grpc_proto_numbering.unwrap_or(file.grpc_proto_numbering),
            data_dir: absolute(data_dir.unwrap_or(file.data_dir))?,
            database_url: database_url.or(file.database_url),
            kubeconfig: kubeconfig.or(file.kubeconfig),
            in_cluster: in_cluster.unwrap_or(file.in_cluster),
            namespace: namespace.unwrap_or(file.namespace),
            instance_id: instance_id.or(file.instance_id),
            image_registry: image_registry.or(file.image_registry),
            image_builder: image_builder.or(file.image_builder),
            image_push_secret: image_push_secret.or(file.image_push_secret),
            auth: auth.unwrap_or(file.auth),
            kubernetes_project: kubernetes_project.unwrap_or(file.kubernetes_project),
            kubernetes_admin_groups: kubernetes_admin_groups.unwrap_or(file.kubernetes_admin_groups),
            tls_cert: tls_cert.or(file.tls_cert),
            tls_key: tls_key.or(file.tls_key),
            allowed_hosts: allowed_hosts.unwrap_or(file.allowed_hosts),
            egress_allow: egress_allow.unwrap_or(file.egress_allow),
            egress_deny: egress_deny.unwrap_or(file.egress_deny),
            domino_url: domino_url.or(file.domino_url),
            compute_namespace: compute_namespace.unwrap_or(file.compute_namespace),
            scaler_max_replicas: scaler_max_replicas.unwrap_or(file.scaler_max_replicas),
            max_nodes_per_cluster: max_nodes_per_cluster.or(file.max_nodes_per_cluster),
            max_clusters_per_project: max_clusters_per_project.unwrap_or(file.max_clusters_per_project),
            parallel_actions: parallel_actions.unwrap_or(file.parallel_actions),
            retention_days: retention_days.unwrap_or(file.retention_days),
            app_grace: app_grace.unwrap_or(file.app_grace),
            app_lease: app_lease.unwrap_or(file.app_lease),
            webhook_listen: webhook_listen.or(file.webhook_listen),
            webhook_url: webhook_url.or(file.webhook_url),
            webhook_service: webhook_service.or(file.webhook_service),
            machines_namespace: machines_namespace.unwrap_or(file.machines_namespace),
            ignore_not_ready_taint: ignore_not_ready_taint.unwrap_or(file.ignore_not_ready_taint),
            node_start_seconds: node_start_seconds.unwrap_or(file.node_start_seconds),
            gpus: gpus.or(file.gpus),
            log: log.unwrap_or(file.log),
            log_format: log_format.unwrap_or(file.log_format),
            dev: dev.unwrap_or(file.dev),
            shape: file.shape,
            project_namespaces: file.project_namespaces,
            ignored_variables: Vec::new(),
        };
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let settings = settings.with_scaler_variables(given, variable)?;
        settings.check()?;
        Ok(settings)
    }
}

/// Reads a file: its settings with the defaults of the others, and the keys that it has.
fn read(path: &std::path::Path) -> Result<(ServerSettings, toml::Table)> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let parsed = toml::from_str(&text).and_then(|settings| Ok((settings, toml::from_str(&text)?)));
    parsed.with_context(|| format!("{} is not a valid configuration file", path.display()))
}

/// Makes the path of the data folder absolute, since nodes have other working folders. An empty path stays as it is.
fn absolute(data_dir: PathBuf) -> Result<PathBuf> {
    if data_dir.as_os_str().is_empty() {
        return Ok(data_dir);
    }
    let path = std::path::absolute(&data_dir);
    path.with_context(|| format!("cannot make the path of the data folder {} absolute", data_dir.display()))
}

/// Parses the URL of a Domino deployment.
fn parse_domino_url(url: &str) -> Option<Url> {
    Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

impl ServerSettings {
    /// Returns the URL of the configured Domino deployment.
    pub(super) fn domino(&self) -> Option<Url> {
        self.domino_url.as_deref().and_then(parse_domino_url)
    }

    /// Returns true if a Kubernetes is configured.
    pub(super) const fn has_kubernetes(&self) -> bool {
        self.kubeconfig.is_some() || self.in_cluster
    }

    /// Returns how long the history is kept.
    pub(super) fn retention(&self) -> TimeSpan {
        TimeSpan::from_secs(self.retention_days.saturating_mul(86_400))
    }

    /// Returns the rule for addresses of webhooks and poll URLs.
    pub(super) fn egress(&self) -> EgressRule {
        EgressRule::new(&self.egress_allow, &self.egress_deny, self.dev)
    }

    /// Returns the authentication schemes; given ones replace the default.
    pub(crate) fn schemes(&self) -> Vec<String> {
        match (self.auth.is_empty(), self.dev) {
            (false, _) => self.auth.clone(),
            (true, true) => vec!["none".to_owned()],
            (true, false) if self.domino_url.is_some() => {
                vec![LOCAL_SCHEME.to_owned(), DOMINO_SCHEME.to_owned()]
            }
            (true, false) => vec![LOCAL_SCHEME.to_owned()],
        }
    }

    /// Returns the maximum number of nodes of a cluster; with `--dev` the one that Senlin's client test suites expect.
    pub(crate) fn max_nodes(&self) -> u32 {
        self.max_nodes_per_cluster.unwrap_or(if self.dev { 1_000 } else { 10_000 })
    }

    /// Logs warnings about the settings.
    pub(crate) fn log_warnings(&self) {
        for warning in &self.ignored_variables {
            tracing::warn!("{warning}");
        }
        if self.dev {
            tracing::warn!(auth = ?self.schemes(), "--dev: simulated nodes are enabled, and callers may be unauthenticated");
        }
    }
}

#[cfg(test)]
mod tests;
