//! Configuration sets: named values that complete the request for a cluster.
//!
//! Keys, rules and messages are those of Oshinko's cluster configuration, so that its `ConfigMap`s can be used
//! without a change, and scripts can compare its messages.

mod merge;
mod parse;

use crate::cluster::Framework;
use crate::object_name::is_object_name;
use crate::recipe::SparkRecipe;
use crate::shape::Shape;

pub use merge::{ClusterConfig, ConfigLayers, NamedSet};
pub use parse::{expose_ui_flag, metrics_flag};

/// The set that completes every Spark cluster, if it exists.
pub const DEFAULT_SET: &str = "default-oshinko-cluster-config";

/// The longest name of a set: that of a `ConfigMap`.
const LONGEST_NAME: usize = 253;

/// Values of one set or of one request. An absent value is taken from the next lower layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigValues {
    /// The framework.
    pub framework: Option<Framework>,
    /// The number of masters or heads.
    pub masters: Option<i64>,
    /// The number of workers.
    pub workers: Option<i64>,
    /// The image of the nodes; an empty value clears that of lower layers.
    pub image: Option<String>,
    /// The image of a Spark cluster, which takes precedence over `image` of the same set.
    pub spark_image: Option<String>,
    /// The resources of each worker.
    pub shape: Option<ConfiguredShape>,
    /// The settings of Spark clusters; an empty name clears that of lower layers.
    pub spark: SparkRecipe,
}

/// The resources of each worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfiguredShape {
    /// The name of a shape.
    Named(String),
    /// Amounts.
    Amounts(Box<Shape>),
}

/// The reason why a cluster cannot be configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid cluster configuration, error: {0}")]
pub struct InvalidConfig(#[from] pub ConfigFault);

/// A fault of a configuration, with the message that existing scripts compare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum ConfigFault {
    #[error("named config '{0}' does not exist")]
    NoSuchSet(String),
    #[error("'{set}.{key}', expected integer, got '{value}'")]
    NotAnInteger { set: String, key: &'static str, value: String },
    #[error("'{set}.{key}', unrecognized configuration field")]
    UnknownKey { set: String, key: String },
    #[error("'{set}', expected 'jolokia' or 'prometheus', got '{value}'")]
    BadMetrics { set: String, value: String },
    #[error("strconv.ParseBool: parsing {0:?}: invalid syntax")]
    BadExposeUi(String),
    #[error("'{set}.framework', expected {expected}, got '{value}'")]
    BadFramework { set: String, expected: String, value: String },
    #[error("'{set}.shape', expected a name or amounts such as cpu=2,memory=4Gi,gpu=1, got '{value}': {why}")]
    BadShape { set: String, value: String, why: String },
    #[error("'{key}' is for Spark alone, and this cluster runs {framework}: leave it out")]
    OnlySpark { key: String, framework: Framework },
    #[error("cluster configuration must have a master count of 0 or 1")]
    MasterCount,
    #[error("cluster configuration may not have a worker count less than 0")]
    WorkerCount,
}

/// The reason why an explicit value is refused, with the message that existing scripts compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what is expected")]
pub enum InvalidFlag {
    #[error("Value for 'exposeui' must be a boolean")]
    ExposeUi,
    #[error("Value for 'metrics' must be 'true', 'false', 'jolokia', or 'prometheus'")]
    Metrics,
}

/// Returns true if a set can have this name. It has to be the name of a `ConfigMap`, which also keeps a path out of
/// the name of a file.
pub fn is_possible_name(name: &str) -> bool {
    is_object_name(name, LONGEST_NAME)
}

#[cfg(test)]
mod tests;
