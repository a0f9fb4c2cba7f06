//! The engine's settings.

use muster_core::app::AppTimes;
use muster_core::backoff::Backoff;
use muster_core::policy::PolicyRules;
use muster_core::projects::ProjectNamespaces;
use muster_core::time::TimeSpan;

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// The duration of a lease without renewal.
    pub lease: TimeSpan,
    /// The interval at which the lease is renewed.
    pub heartbeat: TimeSpan,
    /// The longest time that running actions have to be released when the engine stops.
    pub stop_limit: TimeSpan,
    /// The most actions that run concurrently in this engine.
    pub parallel_actions: u32,
    /// The interval at which the engine polls for work, in case a notification was lost.
    pub safety_period: TimeSpan,
    /// The interval at which results of a long batch are written while it runs.
    pub flush_period: TimeSpan,
    /// The delays after transient failures.
    pub backoff: Backoff,
    /// The most nodes that any cluster may have.
    pub max_nodes_per_cluster: u32,
    /// The most clusters that a project may have.
    pub max_clusters_per_project: u32,
    /// The callers that may decide what local processes run.
    pub local_code: LocalCode,
    /// The namespaces of projects.
    pub projects: ProjectNamespaces,
    /// Configurable limits of policies.
    pub policy_rules: PolicyRules,
    /// The retention of deleted clusters, ended actions and events.
    pub retention: TimeSpan,
    /// The retention of request ids.
    pub request_memory: TimeSpan,
    /// The interval at which the engine searches for nodes without a row.
    pub leftover_period: TimeSpan,
    /// The time without a row after which a node is removed.
    pub leftover_grace: TimeSpan,
    /// The grace period of apps that are gone, and the duration of their leases.
    pub app_times: AppTimes,
    /// The host name that this engine registers with.
    pub host: String,
    /// The version that this engine registers with.
    pub version: String,
}

/// The callers that may decide what local processes run. These processes run as the server's own user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LocalCode {
    /// Only admins.
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
    /// Returns the delay after a number of transient failures in a row, with jitter.
    pub(crate) fn retry_delay(&self, failures: u32) -> TimeSpan {
        self.backoff.delay(failures, fastrand::f64())
    }
}
