//! The settings of a Spark cluster: their effect on its pods, and their record in an annotation.

use muster_core::recipe::{ClusterRecipe, Metrics, Mount, NodeRecipe, SparkRecipe, Volume};
use serde_json::{Value, json};

use crate::kubernetes::pod;

/// The folder in which a `ConfigMap` with Spark's configuration is mounted.
const CONFIG_FOLDER: &str = "/etc/oshinko-spark-configs";

/// The name of the volume of such a `ConfigMap` if the name of the map is not valid for a volume.
const CONFIG_VOLUME: &str = "spark-config";

/// The name and number of the port for metrics.
pub(super) const METRICS_PORT: (&str, u16) = ("spark-metrics", 7777);

/// Returns the node with Spark's configuration files mounted, if a `ConfigMap` has any for it.
pub(super) fn with_files(mut node: NodeRecipe, map: Option<&String>) -> NodeRecipe {
    node.pod.volumes.extend(map.map(|map| Mount {
        name: volume_name(map),
        path: CONFIG_FOLDER.to_owned(),
        read_only: true,
        propagation: None,
        of: Volume::ConfigMap { name: map.clone(), items: std::collections::BTreeMap::new() },
    }));
    node
}

/// Returns the name of the volume: that of the map, unless it is too long for a volume or has dots.
fn volume_name(map: &str) -> String {
    let name = if map.len() <= 63 && !map.contains('.') { map } else { CONFIG_VOLUME };
    name.to_owned()
}

/// Returns the variables by which an image finds the files, and enables metrics.
pub(super) fn variables(spark: &SparkRecipe, map: Option<&String>) -> Vec<Value> {
    // The start script of Oshinko's images copies the files. Muster does not run that script, so that Spark has to read
    // the folder itself.
    let files = ["UPDATE_SPARK_CONF_DIR", "SPARK_CONF_DIR"].map(|name| pod::variable(name, CONFIG_FOLDER));
    let metrics = spark.served_metrics().map(|served| pod::variable("SPARK_METRICS_ON", served.as_str()));
    map.map(|_| files).into_iter().flatten().chain(metrics).collect()
}

/// Returns the configuration that the cluster is created with, in the format of Oshinko.
pub(super) fn config(recipe: &ClusterRecipe, workers: u32, image: &str) -> String {
    let SparkRecipe { config_name, master_config, worker_config, metrics, expose_ui } = &recipe.spark;
    let mut config = json!({
        "MastersCount": 1,
        "WorkersCount": workers,
        "SparkImage": image,
        "ExposeWebUI": expose_ui.unwrap_or(true).to_string(),
        "Metrics": metrics.unwrap_or(Metrics::Off).as_str(),
    });
    let names = [
        ("ConfigName", config_name),
        ("SparkMasterConfig", master_config),
        ("SparkWorkerConfig", worker_config),
    ];
    for (key, name) in names {
        if let Some(name) = name {
            config[key] = name.clone().into();
        }
    }
    config.to_string()
}

/// Returns a recorded configuration with another number of workers and no other change; none if it cannot be read.
pub(super) fn resized(config: &str, workers: u32) -> Option<String> {
    let mut config: Value = serde_json::from_str(config).ok()?;
    config.as_object_mut()?.insert("WorkersCount".to_owned(), workers.into());
    Some(config.to_string())
}

/// Returns true if a recorded configuration enables metrics.
pub(super) fn serves_metrics(config: &str) -> bool {
    let config: Value = serde_json::from_str(config).unwrap_or_default();
    config["Metrics"].as_str().is_some_and(|metrics| !["", Metrics::Off.as_str()].contains(&metrics))
}
