//! Merges the values of a request with those of the sets that apply to it.

use super::{ConfigFault, ConfigValues, ConfiguredShape, DEFAULT_SET, InvalidConfig};
use crate::cluster::Framework;
use crate::recipe::SparkRecipe;

/// The number of workers if neither the request nor a set gives one.
const DEFAULT_WORKERS: i64 = 1;

/// The only possible number of masters, because a cluster has one head.
const MASTERS: i64 = 1;

/// A set that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSet {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: ConfigValues,
}

/// The values that apply to a new cluster, from the highest layer to the lowest. The built-in defaults are below all
/// layers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConfigLayers {
    /// Values that the request gives.
    pub explicit: ConfigValues,
    /// The set that the request names, other than the default set.
    pub named: Option<NamedSet>,
    /// The default set, if it exists.
    pub default_set: Option<ConfigValues>,
}

/// The configuration of a new cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The framework.
    pub framework: Framework,
    /// The number of workers.
    pub workers: u32,
    /// The image of its nodes, if one is configured.
    pub image: Option<String>,
    /// The resources of each worker, if they are configured.
    pub shape: Option<ConfiguredShape>,
    /// The settings of Spark clusters.
    pub spark: SparkRecipe,
}

impl ConfigLayers {
    /// The framework that the request gives, otherwise that of the set that the request names.
    pub fn framework(&self) -> Option<Framework> {
        self.explicit.framework.or_else(|| self.named.as_ref()?.values.framework)
    }

    /// Merges the layers into the configuration of a cluster of this framework, or refuses an invalid one.
    pub fn merge(self, framework: Framework) -> Result<ClusterConfig, InvalidConfig> {
        let Self { explicit, named, default_set } = self;
        let default_set = default_set.map(|values| NamedSet { name: DEFAULT_SET.to_owned(), values });
        // The name of the default set is recorded only if that set was read and no other is named.
        let config_name = named.as_ref().or(default_set.as_ref()).map(|set| set.name.clone());
        let mut merged = explicit.for_framework(framework, None)?;
        for NamedSet { name, values } in named.into_iter().chain(default_set) {
            merged = merged.over(values.for_framework(framework, Some(&name))?);
        }
        if merged.masters.is_some_and(|masters| masters != MASTERS) {
            return Err(ConfigFault::MasterCount.into());
        }
        let workers = merged.workers.unwrap_or(DEFAULT_WORKERS);
        if workers < 0 {
            return Err(ConfigFault::WorkerCount.into());
        }
        let given = |text: &String| !text.is_empty();
        let spark = SparkRecipe {
            config_name: config_name.filter(|_| framework == Framework::Spark),
            master_config: merged.spark.master_config.filter(given),
            worker_config: merged.spark.worker_config.filter(given),
            ..merged.spark
        };
        Ok(ClusterConfig {
            framework,
            workers: u32::try_from(workers).unwrap_or(u32::MAX),
            image: merged.image.filter(given),
            shape: merged.shape,
            spark,
        })
    }
}

impl ConfigValues {
    /// These values, completed by those of a lower layer.
    fn over(self, below: Self) -> Self {
        Self {
            framework: self.framework.or(below.framework),
            masters: self.masters.or(below.masters),
            workers: self.workers.or(below.workers),
            image: self.image.or(below.image),
            spark_image: self.spark_image.or(below.spark_image),
            shape: self.shape.or(below.shape),
            spark: self.spark.or(below.spark),
        }
    }

    /// These values with the image for the framework. A value that only Spark has is refused for other frameworks.
    fn for_framework(self, framework: Framework, set: Option<&str>) -> Result<Self, ConfigFault> {
        if framework == Framework::Spark {
            return Ok(Self { image: self.spark_image.or(self.image), spark_image: None, ..self });
        }
        match self.spark_key() {
            Some(key) => {
                let key = set.map_or_else(|| key.to_owned(), |set| format!("{set}.{key}"));
                Err(ConfigFault::OnlySpark { key, framework })
            }
            None => Ok(self),
        }
    }

    /// The first given key that only Spark has.
    fn spark_key(&self) -> Option<&'static str> {
        let keys = [
            ("sparkmasterconfig", self.spark.master_config.is_some()),
            ("sparkworkerconfig", self.spark.worker_config.is_some()),
            ("sparkimage", self.spark_image.is_some()),
            ("exposeui", self.spark.expose_ui.is_some()),
            ("metrics", self.spark.metrics.is_some()),
        ];
        keys.into_iter().find_map(|(key, given)| given.then_some(key))
    }
}
