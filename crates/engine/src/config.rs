//! What can be set about the engine.

use muster_core::backoff::Backoff;
use muster_core::policy::Rules;
use muster_core::projects::ProjectNamespaces;
use muster_core::time::Span;

/// Settings of an engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// How long an engine counts as alive without another word.
    pub lease: Span,
    /// How often it says that it is.
    pub heartbeat: Span,
    /// Actions that run at once in this engine.
    pub parallel_actions: u32,
    /// How often it looks for work that nobody told it of.
    pub safety_period: Span,
    /// How often results of a long batch are written while it goes on.
    pub flush_period: Span,
    /// How long to wait after transient failures.
    pub backoff: Backoff,
    /// The most nodes that any cluster may have.
    pub max_nodes_per_cluster: u32,
    /// The most clusters that a project may have.
    pub max_clusters_per_project: u32,
    /// In which namespaces projects are at home.
    pub projects: ProjectNamespaces,
    /// What a policy may be, as far as that is a setting.
    pub policy_rules: Rules,
    /// How long the history of what has ended is kept.
    pub retention: Span,
    /// How long a request id is remembered.
    pub request_memory: Span,
    /// What this engine says of itself.
    pub host: String,
    /// Its version.
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
    /// How long to wait after so many transient failures in a row.
    pub(crate) fn retry_delay(&self, failures: u32) -> Span {
        self.backoff.delay(failures, fastrand::f64())
    }
}
