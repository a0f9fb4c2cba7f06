//! The engine's settings.

use muster_core::app::AppTimes;
use muster_core::backoff::Backoff;
use muster_core::policy::PolicyRules;
use muster_core::projects::ProjectNamespaces;
use muster_core::time::TimeSpan;

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// How long a lease lasts without renewal.
    pub lease: TimeSpan,
    /// How often the lease is renewed.
    pub heartbeat: TimeSpan,
    /// How long actions may take to be handed over when the engine stops.
    pub stop_limit: TimeSpan,
    /// The most actions that run concurrently in this engine.
    pub parallel_actions: u32,
    /// How often it polls for work, in case a notification was lost.
    pub safety_period: TimeSpan,
    /// How often results of a long batch are written while it runs.
    pub flush_period: TimeSpan,
    /// How long to wait after transient failures.
    pub backoff: Backoff,
    /// The most nodes that any cluster may have.
    pub max_nodes_per_cluster: u32,
    /// The most clusters that a project may have.
    pub max_clusters_per_project: u32,
    /// The callers that decide what local processes run.
    pub local_code: LocalCode,
    /// The namespaces of projects.
    pub projects: ProjectNamespaces,
    /// Configurable limits of policies.
    pub policy_rules: PolicyRules,
    /// How long history is kept.
    pub retention: TimeSpan,
    /// How long a request id is remembered.
    pub request_memory: TimeSpan,
    /// How often the engine looks for nodes without a row.
    pub leftover_period: TimeSpan,
    /// How long a node without a row is left alone.
    pub leftover_grace: TimeSpan,
    /// How long apps may be gone, and how long their leases are.
    pub app_times: AppTimes,
    /// The host name that this engine registers with.
    pub host: String,
    /// The version that this engine registers with.
    pub version: String,
}

/// The callers that decide what local processes run, which run as the server's own user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LocalCode {
    /// Admins.
    #[default]
    Admins,
    /// Every caller: only the server's user can authenticate, or the server is for development.
    EveryCaller,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: TimeSpan::from_secs(15),
            heartbeat: TimeSpan::from_secs(5),
            stop_limit: TimeSpan::from_secs(10),
            parallel_actions: 64,
            safety_period: TimeSpan::from_secs(5),
            flush_period: TimeSpan::from_millis(250),
            backoff: Backoff { first: TimeSpan::from_millis(500), longest: TimeSpan::from_secs(30) },
            max_nodes_per_cluster: 10_000,
            max_clusters_per_project: 1_000,
            local_code: LocalCode::default(),
            projects: ProjectNamespaces::default(),
            policy_rules: PolicyRules::default(),
            retention: TimeSpan::from_secs(30 * 24 * 3600),
            request_memory: TimeSpan::from_secs(24 * 3600),
            leftover_period: TimeSpan::from_secs(60),
            leftover_grace: TimeSpan::from_secs(600),
            app_times: AppTimes::default(),
            host: String::new(),
            version: String::new(),
        }
    }
}

impl Config {
    /// The delay after a number of transient failures in a row.
    pub(crate) fn retry_delay(&self, failures: u32) -> TimeSpan {
        self.backoff.delay(failures, fastrand::f64())
    }
}
