//! The profile types and their schemas.

use crate::recipe::{ENVIRONMENTS, METRICS, PULL_POLICIES, SERVICE_TYPES, UPSCALING_MODES};
use crate::spec::{Property, Schema};

/// A type of profile.
#[derive(Debug, Clone, Copy)]
pub struct TypeInfo {
    /// The name, such as `dask.cluster`.
    pub name: &'static str,
    /// The version, such as `1.0`.
    pub version: &'static str,
    /// The schema of its properties.
    pub schema: Schema,
}

/// The schema of the recipe of a head or of workers.
pub(crate) const NODE: Schema = Schema(&[
    ("shape", Property::string("The name of a shape.")),
    ("machine_group", Property::string("The machine group of Kubernetes whose slots it takes.")),
    ("machine_type", Property::string("The machine type of that group, in place of a shape.")),
    ("cpu", Property::string("Processors, such as 2 or 500m.")),
    ("memory", Property::string("Memory, such as 4Gi.")),
    ("gpu", Property::integer("Whole accelerators.")),
    ("limits", Property::map("What it may use at most, on Kubernetes.", UPPER_LIMITS)),
    (
        "gpu_resource",
        Property::string("The resource that accelerators are requested by; otherwise nvidia.com/gpu."),
    ),
    ("extended_resources", Property::free_map("Amounts of other resources of Kubernetes, by their names.")),
    (
        "tolerations",
        Property::list("Taints that are tolerated.", &Property::map("A toleration.", TOLERATION)),
    ),
    ("selectors", Property::free_map("Labels that the machine below must have.")),
    ("image", Property::string("The image, or the Python environment, if another than the cluster's.")),
    ("image_template", Property::string("The image template to be used instead.")),
    ("env", Property::free_map("What is added to the environment.")),
    ("args", Property::list("What is added to the start command.", &Property::string("An argument."))),
    ("pod", Property::map("What its pod has on Kubernetes.", NODE_POD)),
]);

const UPPER_LIMITS: Schema =
    Schema(&[("cpu", Property::string("Processors.")), ("memory", Property::string("Memory."))]);

const TOLERATION: Schema = Schema(&[
    ("key", Property::string("The key of the taint.")),
    ("operator", Property::string("How the taint is compared.").allowed(&["Equal", "Exists"])),
    ("value", Property::string("The value of the taint.")),
    (
        "effect",
        Property::string("The effect of the taint.").allowed(&[
            "NoSchedule",
            "PreferNoSchedule",
            "NoExecute",
        ]),
    ),
]);

const NODE_POD: Schema = Schema(&[
    ("labels", Property::free_map("Labels of the pod.")),
    ("annotations", Property::free_map("Annotations of the pod.")),
    ("service_account", Property::string("The account that it runs as.")),
    ("image_pull_secret", Property::string("The secret that its image is pulled with.")),
    (
        "volumes",
        Property::list("What is mounted.", &Property::map("A volume, and where it is mounted.", MOUNT)),
    ),
    ("start_parameters", Property::free_map("What KubeRay starts Ray with, as names and values.")),
    ("service_type", Property::string("The type of the head's Service.").allowed(SERVICE_TYPES)),
    ("image_pull_policy", Property::string("When its image is pulled.").allowed(PULL_POLICIES)),
    ("security_context", Property::map("What its container may do.", SECURITY_CONTEXT)),
    (
        "env_from",
        Property::free_map("Environment variables with values of other objects: kind, name and key."),
    ),
]);

const CAPABILITY: Property = Property::string("A capability.");

const SECURITY_CONTEXT: Schema = Schema(&[
    ("privileged", Property::boolean("Whether it has the rights of the machine below.")),
    ("add", Property::list("Capabilities of Linux that it gets.", &CAPABILITY)),
    ("drop", Property::list("Capabilities of Linux that it loses.", &CAPABILITY)),
]);

const AUTOSCALER: Schema = Schema(&[
    ("idle_timeout_seconds", Property::integer("After how many seconds an idle worker is removed.")),
    ("upscaling_mode", Property::string("How eagerly it adds workers.").allowed(UPSCALING_MODES)),
    ("image", Property::string("The image of its container.")),
    ("image_pull_policy", Property::string("When that image is pulled.").allowed(PULL_POLICIES)),
    ("cpu", Property::string("Processors of its container.")),
    ("memory", Property::string("Memory of its container.")),
    ("env", Property::free_map("Environment variables of its container.")),
    (
        "env_from",
        Property::list(
            "ConfigMaps and Secrets whose keys become variables of its container.",
            &Property::free_map("kind and name."),
        ),
    ),
    (
        "volumes",
        Property::list(
            "What is mounted into it.",
            &Property::map("A volume, and where it is mounted.", MOUNT),
        ),
    ),
]);

const MOUNT: Schema = Schema(&[
    ("name", Property::string("The name of the volume.").required()),
    ("path", Property::string("Where it is mounted.").required()),
    ("read_only", Property::boolean("Whether it cannot be written.")),
    (
        "propagation",
        Property::string("Which way later mounts are seen.").allowed(&["HostToContainer", "Bidirectional"]),
    ),
    (
        "of",
        Property::free_map(
            "One of claim, host_path, ephemeral, config_map, secret and empty_dir, with what it needs.",
        )
        .required(),
    ),
]);

const SPARK: Schema = Schema(&[
    ("config_name", Property::string("The configuration set that completed it.")),
    ("master_config", Property::string("The ConfigMap with Spark's configuration files for the master.")),
    ("worker_config", Property::string("The ConfigMap with Spark's configuration files for the workers.")),
    ("metrics", Property::string("Which metrics it serves, on Kubernetes.").allowed(METRICS)),
    ("expose_ui", Property::boolean("Whether its page may be reached from outside.")),
]);

/// The schema of the recipe of a framework's cluster.
pub(crate) const FRAMEWORK: Schema = Schema(&[
    ("provider", Property::string("Where nodes run: local or kubernetes.")),
    ("environment", Property::string("What it is for.").allowed(ENVIRONMENTS)),
    ("flavor", Property::string("Which objects stand for the cluster on Kubernetes.")),
    ("namespace", Property::string("Where on Kubernetes.")),
    ("version", Property::string("The version of the framework.")),
    ("image", Property::string("The image, or the Python environment of local processes.").updatable()),
    ("image_template", Property::string("The image template to be used instead.").updatable()),
    ("working_dir", Property::string("The folder in which local processes run.")),
    ("head", Property::map("How the head is made.", NODE).updatable()),
    ("worker", Property::map("How workers are made.", NODE).updatable()),
    ("autoscaler", Property::map("The autoscaler in the cluster, on Kubernetes.", AUTOSCALER)),
    ("ingress", Property::boolean("Whether an Ingress leads to the head, on Kubernetes.")),
    (
        "token",
        Property::boolean("Whether Ray asks for a token, on Kubernetes; otherwise wherever its version can."),
    ),
    ("service_annotations", Property::free_map("Annotations of the head's Service, on Kubernetes.")),
    ("spark", Property::map("What only clusters of Spark have.", SPARK)),
    ("idle_timeout", Property::integer("Seconds without use after which it is stopped.").updatable()),
    ("max_lifetime", Property::integer("Seconds after which it is stopped whatever it does.").updatable()),
]);

const NETWORK: Property = Property::map(
    "A network.",
    Schema(&[
        ("network", Property::string("The name or id of a network.")),
        ("subnet", Property::string("The name or id of a subnet.")),
        ("port", Property::string("The id of a port.")),
        ("vnic_type", Property::string("The type of the port.")),
        ("fixed_ip", Property::string("A fixed address.")),
        ("floating_network", Property::string("The network of a floating address.")),
        ("floating_ip", Property::string("A floating address.")),
        (
            "security_groups",
            Property::list("Security groups.", &Property::string("The name of a security group.")),
        ),
    ]),
);

/// The schema of simulated nodes. Properties are stored and shown; only the keys `simulated_*` of the metadata have
/// an effect.
const SIMULATED: Schema = Schema(&[
    ("flavor", Property::string("The flavor of the node.").required().updatable()),
    ("name", Property::string("The name of the node.").updatable()),
    ("image", Property::string("The image of the node.").updatable()),
    ("networks", Property::list("Networks of the node.", &NETWORK).updatable()),
    ("key_name", Property::string("The name of a key.")),
    (
        "metadata",
        Property::free_map(
            "Anything; simulated_wait_time, simulated_failure and simulated_activity have an effect.",
        )
        .updatable(),
    ),
]);

const PROCESS: Schema = Schema(&[
    (
        "command",
        Property::list("The program and its arguments.", &Property::string("A word.")).required().updatable(),
    ),
    ("env", Property::free_map("What is added to the environment.").updatable()),
    ("working_dir", Property::string("Where it runs.")),
    ("stop_signal", Property::string("The signal that stops it.")),
    ("stop_grace_seconds", Property::integer("How long it may take to end before it is killed.").updatable()),
]);

const POD: Schema = Schema(&[
    ("template", Property::free_map("A pod template: metadata and spec.").required().updatable()),
    ("namespace", Property::string("Where on Kubernetes; otherwise where the cluster is.")),
]);

/// All types, by name.
pub const TYPES: &[TypeInfo] = &[
    TypeInfo { name: "dask.cluster", version: "1.0", schema: FRAMEWORK },
    TypeInfo { name: "kubernetes.pod", version: "1.0", schema: POD },
    TypeInfo { name: "local.process", version: "1.0", schema: PROCESS },
    TypeInfo { name: "ray.cluster", version: "1.0", schema: FRAMEWORK },
    TypeInfo { name: "simulated.node", version: "1.0", schema: SIMULATED },
    TypeInfo { name: "spark.cluster", version: "1.0", schema: FRAMEWORK },
];

/// The type of this name and version.
pub fn find(name: &str, version: &str) -> Option<&'static TypeInfo> {
    TYPES.iter().find(|known| (known.name, known.version) == (name, version))
}

impl std::fmt::Display for TypeInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::{
        Autoscaler, ClusterRecipe, Mount, NodeRecipe, PodRecipe, SecurityContext, SparkRecipe,
    };

    /// The keys that a type reads, as its own error lists them.
    fn read_by<T: for<'d> serde::Deserialize<'d> + std::fmt::Debug>() -> Vec<String> {
        let error = serde_json::from_str::<T>(r#"{"?": 1}"#).unwrap_err().to_string();
        error.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    fn names(schema: Schema) -> Vec<String> {
        schema.names().map(str::to_owned).collect()
    }

    #[test]
    fn what_clusters_of_frameworks_take_is_what_is_read_from_their_profiles() {
        assert_eq!(names(FRAMEWORK), read_by::<ClusterRecipe>());
        assert_eq!(names(NODE), read_by::<NodeRecipe>());
        assert_eq!(names(NODE_POD), read_by::<PodRecipe>());
        assert_eq!(names(MOUNT), read_by::<Mount>());
        assert_eq!(names(AUTOSCALER), read_by::<Autoscaler>());
        assert_eq!(names(SECURITY_CONTEXT), read_by::<SecurityContext>());
        assert_eq!(names(SPARK), read_by::<SparkRecipe>());
    }

    #[test]
    fn types_are_found_by_name_and_version() {
        assert_eq!(find("dask.cluster", "1.0").unwrap().to_string(), "dask.cluster-1.0");
        assert!(find("dask.cluster", "9.0").is_none());
    }
}
