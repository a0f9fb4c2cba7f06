//! Flags for the configuration of a new cluster: a stored set, and values that take precedence over it.

use clap::Parser;
use muster_core::config_set::{expose_ui_flag, metrics_flag};
use muster_proto::v1alpha2::ClusterConfig;

use crate::failure::{Exit, Failure};

/// The stored configuration, and values that take precedence over it.
#[derive(Debug, Clone, Default, Parser)]
pub(crate) struct ConfigFlags {
    /// Stored configuration with defaults: a ConfigMap, or NAME.toml in the folder configs of the data folder
    #[arg(long, value_name = "NAME")]
    pub(crate) storedconfig: Option<String>,
    /// Number of masters; must be 1
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    masters: Option<i32>,
    /// ConfigMap with Spark's configuration files for the master
    #[arg(long, value_name = "CONFIGMAP")]
    masterconfig: Option<String>,
    /// ConfigMap with Spark's configuration files for the workers
    #[arg(long, value_name = "CONFIGMAP")]
    workerconfig: Option<String>,
    /// Metrics of a Spark cluster on Kubernetes: true, false, jolokia or prometheus
    #[arg(long, value_name = "METRICS")]
    metrics: Option<String>,
    /// Expose the web UI of a Spark cluster outside of Kubernetes: true or false
    #[arg(long, value_name = "BOOLEAN")]
    exposeui: Option<String>,
}

impl ConfigFlags {
    /// Returns the name of the stored configuration; empty if none is given.
    pub(super) fn stored_config(&self) -> &str {
        self.storedconfig.as_deref().unwrap_or_default()
    }

    /// Checks the flags before a server is called.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let bad = |error: &dyn std::fmt::Display| Failure::new(Exit::Usage, error.to_string());
        metrics_flag(self.metrics.as_deref().unwrap_or_default()).map_err(|error| bad(&error))?;
        expose_ui_flag(self.exposeui.as_deref().unwrap_or_default()).map_err(|error| bad(&error))?;
        Ok(())
    }

    /// Converts the given values. A negative number of masters counts as not given.
    pub(super) fn into_config(self) -> ClusterConfig {
        let Self { storedconfig: _, masters, masterconfig, workerconfig, metrics, exposeui } = self;
        ClusterConfig {
            masters: masters.filter(|masters| *masters >= 0),
            spark_master_config: masterconfig.unwrap_or_default(),
            spark_worker_config: workerconfig.unwrap_or_default(),
            metrics: metrics.unwrap_or_default(),
            expose_ui: exposeui.unwrap_or_default(),
            ..ClusterConfig::default()
        }
    }

    /// Returns the first given flag; profiles without a framework allow none of them.
    pub(super) fn first_given(&self) -> Option<&'static str> {
        let flags = [
            ("--storedconfig", self.storedconfig.is_some()),
            ("--masters", self.masters.is_some()),
            ("--masterconfig", self.masterconfig.is_some()),
            ("--workerconfig", self.workerconfig.is_some()),
            ("--metrics", self.metrics.is_some()),
            ("--exposeui", self.exposeui.is_some()),
        ];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn flags(arguments: &[&str]) -> ConfigFlags {
        ConfigFlags::try_parse_from([&["create"], arguments].concat()).unwrap()
    }

    #[rstest]
    #[case(&["--metrics", "statsd"], Some("Value for 'metrics' must be 'true', 'false', 'jolokia', or 'prometheus'"))]
    #[case(&["--exposeui", "maybe"], Some("Value for 'exposeui' must be a boolean"))]
    #[case(&["--exposeui", "T", "--metrics", "prometheus"], None)]
    #[case::empty(&["--exposeui", "", "--metrics", ""], None)]
    fn bad_values_are_refused_without_a_server(#[case] arguments: &[&str], #[case] refusal: Option<&str>) {
        let checked = flags(arguments).check();
        assert_eq!(checked.as_ref().map_err(|failure| failure.what.as_str()).err(), refusal);
        assert!(checked.is_ok() || checked.is_err_and(|failure| failure.exit == Exit::Usage));
    }

    #[test]
    fn only_what_is_given_is_sent() {
        assert_eq!(flags(&[]).into_config(), ClusterConfig::default());
        assert_eq!(flags(&["--masters", "-1"]).into_config().masters, None);
        let given = flags(&["--masters", "2", "--masterconfig", "m", "--workerconfig", "w"]);
        let values = given.into_config();
        assert_eq!(values.masters, Some(2));
        assert_eq!((values.spark_master_config.as_str(), values.spark_worker_config.as_str()), ("m", "w"));
    }

    #[test]
    fn the_first_flag_is_named() {
        assert_eq!(flags(&[]).first_given(), None);
        assert_eq!(
            flags(&["--exposeui", "true", "--storedconfig", "big"]).first_given(),
            Some("--storedconfig")
        );
    }
}
