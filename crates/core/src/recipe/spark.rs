//! Settings that only clusters of Spark have.

use serde::{Deserialize, Serialize};

use crate::string_enum::string_enum;

string_enum! {
    /// The metrics agents of Spark clusters.
    Metrics, "kind of metrics" {
        /// No metrics.
        Off = "false",
        /// The agent that the image chooses, which is Jolokia in the images of Oshinko.
        On = "true",
        /// The Jolokia agent.
        Jolokia = "jolokia",
        /// The Prometheus agent.
        Prometheus = "prometheus",
    }
}

/// The values of [`Metrics`], as a schema lists them.
pub const METRICS: &[&str] = &["false", "true", "jolokia", "prometheus"];

/// Settings of a Spark cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SparkRecipe {
    /// The configuration set that completed the create request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_name: Option<String>,
    /// The `ConfigMap` with Spark's configuration files for the master.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_config: Option<String>,
    /// The `ConfigMap` with Spark's configuration files for the workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_config: Option<String>,
    /// The metrics agent; absent stands for no metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// True if the web page may be reached from outside; absent stands for true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expose_ui: Option<bool>,
}

impl SparkRecipe {
    /// Returns true if the recipe sets nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// This recipe, completed by `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            config_name: self.config_name.or(other.config_name),
            master_config: self.master_config.or(other.master_config),
            worker_config: self.worker_config.or(other.worker_config),
            metrics: self.metrics.or(other.metrics),
            expose_ui: self.expose_ui.or(other.expose_ui),
        }
    }

    /// The metrics agent, unless metrics are off.
    pub fn served_metrics(&self) -> Option<Metrics> {
        self.metrics.filter(|metrics| *metrics != Metrics::Off)
    }

    /// The names of the `ConfigMap`s that the nodes are started with.
    pub fn config_maps(&self) -> impl Iterator<Item = &String> {
        self.master_config.iter().chain(&self.worker_config)
    }

    /// Refuses settings that local processes cannot have.
    pub fn check_local(&self) -> Result<(), String> {
        let needs =
            |what: &str| Err(format!("{what} needs Kubernetes: leave it out, or choose provider kubernetes"));
        match (&self.master_config, &self.worker_config, self.served_metrics()) {
            (Some(map), ..) => needs(&format!("spark.master_config '{map}' is a ConfigMap, which")),
            (_, Some(map), _) => needs(&format!("spark.worker_config '{map}' is a ConfigMap, which")),
            (.., Some(metrics)) => needs(&format!("spark.metrics '{metrics}'")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_schema_lists_every_kind_of_metrics() {
        let all: Vec<&str> = Metrics::ALL.iter().map(|metrics| metrics.as_str()).collect();
        assert_eq!(all, METRICS);
    }

    #[rstest]
    #[case(SparkRecipe { master_config: Some("m".into()), ..SparkRecipe::default() }, Some("spark.master_config 'm' is a ConfigMap, which needs Kubernetes"))]
    #[case(SparkRecipe { worker_config: Some("w".into()), ..SparkRecipe::default() }, Some("spark.worker_config 'w' is a ConfigMap, which needs Kubernetes"))]
    #[case(SparkRecipe { metrics: Some(Metrics::Jolokia), ..SparkRecipe::default() }, Some("spark.metrics 'jolokia' needs Kubernetes"))]
    #[case(SparkRecipe { metrics: Some(Metrics::Off), expose_ui: Some(false), ..SparkRecipe::default() }, None)]
    fn processes_of_one_machine_have_neither_config_maps_nor_metrics(
        #[case] recipe: SparkRecipe,
        #[case] refusal: Option<&str>,
    ) {
        match (recipe.check_local(), refusal) {
            (checked, None) => assert_eq!(checked, Ok(())),
            (checked, Some(refusal)) => assert!(checked.unwrap_err().starts_with(refusal)),
        }
    }

    #[test]
    fn what_is_given_goes_before_what_is_below() {
        let given = SparkRecipe { metrics: Some(Metrics::Off), ..SparkRecipe::default() };
        let below = SparkRecipe { metrics: Some(Metrics::On), expose_ui: Some(false), ..given.clone() };
        assert_eq!(given.or(below).metrics, Some(Metrics::Off));
    }
}
