//! The engine's settings.

use muster_core::backoff::Backoff;
use muster_core::policy::Rules;
use muster_core::projects::ProjectNamespaces;
use muster_core::time::Span;

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// How long a lease lasts without renewal.
    pub lease: Span,
    /// How often the lease is renewed.
    pub heartbeat: Span,
    /// The most actions that run concurrently in this engine.
    pub parallel_actions: u32,
    /// How often it polls for work, in case a notification was lost.
    pub safety_period: Span,
    /// How often results of a long batch are written while it runs.
    pub flush_period: Span,
    /// How long to wait after transient failures.
    pub backoff: Backoff,
    /// The most nodes that any cluster may have.
    pub max_nodes_per_cluster: u32,
    /// The most clusters that a project may have.
    pub max_clusters_per_project: u32,
    /// The namespaces of projects.
    pub projects: ProjectNamespaces,
    /// Configurable limits of policies.
    pub policy_rules: Rules,
    /// How long history is kept.
    pub retention: Span,
    /// How long a request id is remembered.
    pub request_memory: Span,
    /// The host name that this engine registers with.
    pub host: String,
    /// The version that this engine registers with.
    pub version: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease: Span::from_secs(15),
            heartbeat: Span::from_secs(5),
            parallel_actions: 64,
            safety_period: Span::from_secs(5),
            flush_period: Span::from_millis(250),
            backoff: Backoff { first: Span::from_millis(500), longest: Span::from_secs(30) },
            max_nodes_per_cluster: 10_000,
            max_clusters_per_project: 1_000,
            projects: ProjectNamespaces::default(),
            policy_rules: Rules::default(),
            retention: Span::from_secs(30 * 24 * 3600),
            request_memory: Span::from_secs(24 * 3600),
            host: String::new(),
            version: String::new(),
        }
    }
}

impl Config {
    /// The delay after a number of transient failures in a row.
    pub(crate) fn retry_delay(&self, failures: u32) -> Span {
        self.backoff.delay(failures, fastrand::f64())
    }
}
