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
    ("shape", Property::string("The name of the shape (compute template).")),
    ("machine_group", Property::string("The machine group whose slots the nodes use, on Kubernetes.")),
    ("machine_type", Property::string("The machine type of that group, instead of a shape.")),
    ("cpu", Property::string("CPU request, such as 2 or 500m.")),
    ("memory", Property::string("Memory request, such as 4Gi.")),
    ("gpu", Property::integer("The number of GPUs.")),
    ("limits", Property::map("Resource limits, on Kubernetes.", UPPER_LIMITS)),
    ("gpu_resource", Property::string("The resource name of the GPUs; the default is nvidia.com/gpu.")),
    ("extended_resources", Property::free_map("Amounts of extended resources of Kubernetes, by name.")),
    (
        "tolerations",
        Property::list("Tolerations of taints, on Kubernetes.", &Property::map("A toleration.", TOLERATION)),
    ),
    ("selectors", Property::free_map("The node selector: labels that the Kubernetes node must have.")),
    ("image", Property::string("The image or Python environment, if it differs from that of the cluster.")),
    ("image_template", Property::string("The image template, instead of an image.")),
    ("env", Property::free_map("Additional environment variables.")),
    ("args", Property::list("Additional arguments of the start command.", &Property::string("An argument."))),
    ("pod", Property::map("Settings of the pod, on Kubernetes.", NODE_POD)),
]);

const UPPER_LIMITS: Schema =
    Schema(&[("cpu", Property::string("CPU limit.")), ("memory", Property::string("Memory limit."))]);

const TOLERATION: Schema = Schema(&[
    ("key", Property::string("The key of the taint.")),
    ("operator", Property::string("The operator that compares key and value.").allowed(&["Equal", "Exists"])),
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
    ("service_account", Property::string("The service account of the pod.")),
    ("image_pull_secret", Property::string("The Secret for pulling the image.")),
    (
        "volumes",
        Property::list("Volumes and their mounts.", &Property::map("A volume and its mount.", MOUNT)),
    ),
    ("start_parameters", Property::free_map("Start parameters of Ray (rayStartParams of KubeRay), by name.")),
    ("service_type", Property::string("The type of the head's Service.").allowed(SERVICE_TYPES)),
    ("image_pull_policy", Property::string("The pull policy of the image.").allowed(PULL_POLICIES)),
    ("security_context", Property::map("The security context of the container.", SECURITY_CONTEXT)),
    (
        "env_from",
        Property::free_map(
            "Environment variables whose values are in other objects, with kind, name and key.",
        ),
    ),
]);

const CAPABILITY: Property = Property::string("A Linux capability, such as SYS_PTRACE.");

const SECURITY_CONTEXT: Schema = Schema(&[
    ("privileged", Property::boolean("Whether the container is privileged.")),
    ("add", Property::list("Linux capabilities to add.", &CAPABILITY)),
    ("drop", Property::list("Linux capabilities to drop.", &CAPABILITY)),
]);

const AUTOSCALER: Schema = Schema(&[
    ("idle_timeout_seconds", Property::integer("Seconds after which an idle worker is removed.")),
    ("upscaling_mode", Property::string("The upscaling mode of Ray's autoscaler.").allowed(UPSCALING_MODES)),
    ("image", Property::string("The image of the autoscaler's container.")),
    ("image_pull_policy", Property::string("The pull policy of that image.").allowed(PULL_POLICIES)),
    ("cpu", Property::string("CPU of the autoscaler's container.")),
    ("memory", Property::string("Memory of the autoscaler's container.")),
    ("env", Property::free_map("Environment variables of the autoscaler's container.")),
    (
        "env_from",
        Property::list(
            "ConfigMaps and Secrets whose keys become environment variables of the autoscaler's container.",
            &Property::free_map("The kind (config_map or secret) and the name."),
        ),
    ),
    (
        "volumes",
        Property::list(
            "Volumes of the autoscaler's container and their mounts.",
            &Property::map("A volume and its mount.", MOUNT),
        ),
    ),
]);

const MOUNT: Schema = Schema(&[
    ("name", Property::string("The name of the volume.").required()),
    ("path", Property::string("The mount path.").required()),
    ("read_only", Property::boolean("Whether the mount is read-only.")),
    (
        "propagation",
        Property::string("The mount propagation.").allowed(&["HostToContainer", "Bidirectional"]),
    ),
    (
        "of",
        Property::free_map(
            "The source: claim, host_path, ephemeral, config_map, secret or empty_dir, with its settings.",
        )
        .required(),
    ),
]);

const SPARK: Schema = Schema(&[
    ("config_name", Property::string("The configuration set that completed the create request.")),
    ("master_config", Property::string("The ConfigMap with Spark's configuration files for the master.")),
    ("worker_config", Property::string("The ConfigMap with Spark's configuration files for the workers.")),
    ("metrics", Property::string("The metrics agent, on Kubernetes.").allowed(METRICS)),
    ("expose_ui", Property::boolean("Whether Spark's web page is exposed outside of the cluster.")),
]);

/// The schema of the recipe of a framework's cluster.
pub(crate) const FRAMEWORK: Schema = Schema(&[
    ("provider", Property::string("The provider of the nodes: local or kubernetes.")),
    ("environment", Property::string("The purpose, such as TESTING or PRODUCTION.").allowed(ENVIRONMENTS)),
    ("flavor", Property::string("The flavor: the kind of objects that represent the cluster on Kubernetes.")),
    ("namespace", Property::string("The Kubernetes namespace.")),
    ("version", Property::string("The version of the framework.")),
    (
        "image",
        Property::string("The container image, or the Python environment of local processes.").updatable(),
    ),
    ("image_template", Property::string("The image template, instead of an image.").updatable()),
    ("working_dir", Property::string("The working directory of local processes.")),
    ("head", Property::map("The recipe of the head.", NODE).updatable()),
    ("worker", Property::map("The recipe of the workers.", NODE).updatable()),
    ("autoscaler", Property::map("The autoscaler in the cluster, on Kubernetes.", AUTOSCALER)),
    ("ingress", Property::boolean("Whether the head gets an Ingress, on Kubernetes.")),
    (
        "token",
        Property::boolean(
            "Whether Ray requires a token, on Kubernetes; the default is true if its version can.",
        ),
    ),
    ("service_annotations", Property::free_map("Annotations of the head's Service, on Kubernetes.")),
    ("spark", Property::map("Settings of Spark clusters.", SPARK)),
    (
        "idle_timeout",
        Property::integer("Seconds without use after which the cluster is deleted.").updatable(),
    ),
    (
        "max_lifetime",
        Property::integer("Seconds after which the cluster is deleted, even if it is in use.").updatable(),
    ),
]);

const NETWORK: Property = Property::map(
    "A network.",
    Schema(&[
        ("network", Property::string("The name or id of a network.")),
        ("subnet", Property::string("The name or id of a subnet.")),
        ("port", Property::string("The id of a port.")),
        ("vnic_type", Property::string("The VNIC type of the port.")),
        ("fixed_ip", Property::string("A fixed IP address.")),
        ("floating_network", Property::string("The network of the floating IP address.")),
        ("floating_ip", Property::string("A floating IP address.")),
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
    ("key_name", Property::string("The name of an SSH key pair.")),
    (
        "metadata",
        Property::free_map(
            "Any keys; simulated_wait_time, simulated_failure and simulated_activity have an effect.",
        )
        .updatable(),
    ),
]);

const PROCESS: Schema = Schema(&[
    (
        "command",
        Property::list("The program and its arguments.", &Property::string("The program or an argument."))
            .required()
            .updatable(),
    ),
    ("env", Property::free_map("Additional environment variables.").updatable()),
    ("working_dir", Property::string("The working directory.")),
    ("stop_signal", Property::string("The signal that stops the process.")),
    (
        "stop_grace_seconds",
        Property::integer("Seconds that the process may take to stop before it is killed.").updatable(),
    ),
]);

const POD: Schema = Schema(&[
    ("template", Property::free_map("A pod template: metadata and spec.").required().updatable()),
    ("namespace", Property::string("The Kubernetes namespace; the default is that of the cluster.")),
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
