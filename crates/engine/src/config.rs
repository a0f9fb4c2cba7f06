//! What can be set about the engine.

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
    /// The first pause after a failure for the moment; it doubles.
    pub first_pause: Span,
    /// The longest pause after one.
    pub longest_pause: Span,
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
            first_pause: Span::from_millis(500),
            longest_pause: Span::from_secs(30),
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
    /// How long to wait before something is tried again that failed so often for the moment.
    pub(crate) fn pause(&self, tries: u32) -> Span {
        let doubled = self.first_pause.micros().saturating_mul(1 << tries.saturating_sub(1).min(16));
        Span::from_micros(doubled).min(self.longest_pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let config = Config::default();
        let pauses = [1, 2, 3, 20, 4_000_000_000].map(|tries| config.pause(tries).micros() / 1000);
        assert_eq!(pauses, [500, 1000, 2000, 30_000, 30_000]);
    }
}
