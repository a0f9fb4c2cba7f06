//! The recipe in `dask.cluster`, `ray.cluster` and `spark.cluster` profiles, which is the same for every API and
//! provider.

mod autoscaler;
mod given;
mod pod;
mod spark;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cluster::{Cluster, Framework, WorkerGroup};
use crate::limits::Limits;
use crate::own_keys::{OWN_DOMAIN, is_own_key};
use crate::profile::Profile;
use crate::profile_types;
use crate::quantity::{Cpu, Memory};
use crate::shape::{Shape, Toleration, UpperLimits};
use crate::time::TimeSpan;
use crate::unknown_fields::UnknownFields;

pub use autoscaler::{Autoscaler, UPSCALING_MODES};
pub use given::GivenRecipe;
pub use pod::{
    EnvSource, EnvSourceKind, Mount, PULL_POLICIES, PodRecipe, SERVICE_TYPES, SecurityContext, Volume,
};
pub use spark::{METRICS, Metrics, SparkRecipe};

/// The possible environments of a cluster.
pub const ENVIRONMENTS: &[&str] = &["DEV", "TESTING", "STAGING", "PRODUCTION"];

/// The properties of a cluster of a framework.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClusterRecipe {
    /// The provider of the nodes; if absent, the server chooses one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The environment: `DEV`, `TESTING`, `STAGING` or `PRODUCTION`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The flavor of its objects on Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavor: Option<String>,
    /// The namespace on Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The framework's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The container image, or the Python environment on the local provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The image template that is used instead of an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_template: Option<String>,
    /// The working folder of local nodes; if absent, each node has its own folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// The recipe of the head.
    #[serde(skip_serializing_if = "NodeRecipe::is_empty")]
    pub head: NodeRecipe,
    /// The recipe of the workers.
    #[serde(skip_serializing_if = "NodeRecipe::is_empty")]
    pub worker: NodeRecipe,
    /// The autoscaler in the cluster, on Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaler: Option<Autoscaler>,
    /// True if an Ingress leads to the head, on Kubernetes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ingress: bool,
    /// True if Ray requires a token of its clients, on Kubernetes. If absent, it does so if its version supports
    /// that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<bool>,
    /// Annotations of the Service of the head, on Kubernetes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub service_annotations: BTreeMap<String, String>,
    /// The settings of Spark clusters.
    #[serde(skip_serializing_if = "SparkRecipe::is_empty")]
    pub spark: SparkRecipe,
    /// The time without use after which the cluster is deleted, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<u64>,
    /// The time after which the cluster is deleted whatever runs on it, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lifetime: Option<u64>,
    /// The images of the image templates that the recipe names. They are stored in the cluster's spec, not in its
    /// profile.
    #[serde(skip)]
    pub images: BTreeMap<String, String>,
}

/// The recipe of the head, or of the workers of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeRecipe {
    /// The name of a shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
    /// The machine group whose slots the nodes take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_group: Option<String>,
    /// The machine type of that group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    /// Cpu.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Whole accelerators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// The limits, if they are above the requested amounts.
    #[serde(skip_serializing_if = "UpperLimits::is_empty")]
    pub limits: UpperLimits,
    /// The resource name by which accelerators are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_resource: Option<String>,
    /// Amounts of extended resources, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extended_resources: BTreeMap<String, u32>,
    /// Taints of machines that are tolerated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Labels that the machine of a node must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub selectors: BTreeMap<String, String>,
    /// The container image, or the Python environment, if it differs from that of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The image template that is used instead of an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_template: Option<String>,
    /// Additional environment variables.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Additional arguments of the start command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Settings of the pod, on Kubernetes.
    #[serde(skip_serializing_if = "PodRecipe::is_empty")]
    pub pod: PodRecipe,
}

/// The key under which a group's spec stores the recipe of the group.
const NODE: &str = "node";

/// The key under which a cluster's spec stores the fields that APIs show, in the format of the core API.
pub const SHOWN: &str = "cluster";

impl NodeRecipe {
    /// Returns true if the recipe sets nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The recipe as a group's spec stores it; empty if the recipe sets nothing.
    pub fn into_spec(self) -> Map<String, Value> {
        if self.is_empty() {
            return Map::new();
        }
        serde_json::to_value(self).map(|value| Map::from_iter([(NODE.to_owned(), value)])).unwrap_or_default()
    }

    /// The recipe that a group stores, without its shape.
    pub fn stored_in(group: &WorkerGroup) -> Self {
        Self::in_spec(&group.spec).unwrap_or_default()
    }

    /// The recipe that a group's spec stores, without fields of a newer version.
    pub(crate) fn in_spec(spec: &Map<String, Value>) -> Option<Self> {
        let own = spec.get(NODE).and_then(Value::as_object)?;
        Self::deserialize(Value::Object(profile_types::NODE.known(own))).ok()
    }

    /// Stores the recipe in a group, and keeps stored fields of a newer version.
    pub fn store_in(self, group: &mut WorkerGroup) {
        let stored = self.stored_over(group.spec.get(NODE));
        if stored.as_object().is_some_and(Map::is_empty) {
            group.spec.remove(NODE);
        } else {
            group.spec.insert(NODE.to_owned(), stored);
        }
    }

    /// The recipe as it replaces a stored one: fields of a newer version are kept.
    fn stored_over(&self, before: Option<&Value>) -> Value {
        let mut stored = serde_json::to_value(self).unwrap_or_default();
        if let Some(before) = before.and_then(Value::as_object) {
            merge(&mut stored, Value::Object(profile_types::NODE.unknown(before)));
        }
        stored
    }

    /// A group's own recipe, completed by its shape.
    pub fn of_group(group: &WorkerGroup) -> Self {
        Self::stored_in(group).or(Self::of_shape(group.shape.clone()))
    }

    /// A recipe with nothing but a shape.
    pub fn of_shape(shape: Shape) -> Self {
        Self::default().with_shape(shape)
    }

    /// This recipe with another shape.
    #[must_use]
    pub fn with_shape(self, shape: Shape) -> Self {
        let Shape {
            cpu,
            memory,
            gpu,
            limits,
            gpu_resource,
            extended_resources,
            tolerations,
            selectors,
            unknown: _,
        } = shape;
        Self { cpu, memory, gpu, limits, gpu_resource, extended_resources, tolerations, selectors, ..self }
    }

    /// This recipe, completed by `other`.
    fn or(self, other: Self) -> Self {
        let shape = self.shape().or(other.shape());
        let (mut env, mut pod) = (other.env, other.pod);
        // A variable has one source: a value in the recipe, or another object.
        env.retain(|name, _| !self.pod.env_from.contains_key(name));
        pod.env_from.retain(|name, _| !self.env.contains_key(name));
        env.extend(self.env);
        // An image or an image template replaces both of the lower recipe.
        let has_image = self.image.is_some() || self.image_template.is_some();
        let (image, image_template) =
            if has_image { (self.image, self.image_template) } else { (other.image, other.image_template) };
        let completed = Self {
            shape: self.shape.or(other.shape),
            machine_group: self.machine_group.or(other.machine_group),
            machine_type: self.machine_type.or(other.machine_type),
            image,
            image_template,
            env,
            args: if self.args.is_empty() { other.args } else { self.args },
            pod: self.pod.or(pod),
            ..Self::default()
        };
        completed.with_shape(shape)
    }

    /// The shape of a node.
    pub fn shape(&self) -> Shape {
        Shape {
            cpu: self.cpu,
            memory: self.memory,
            gpu: self.gpu,
            limits: self.limits.clone(),
            gpu_resource: self.gpu_resource.clone(),
            extended_resources: self.extended_resources.clone(),
            tolerations: self.tolerations.clone(),
            selectors: self.selectors.clone(),
            unknown: UnknownFields::default(),
        }
    }
}

impl ClusterRecipe {
    /// Reads the properties of a stored profile. Properties of a newer version are ignored; the error says what is
    /// wrong with the others.
    pub fn from_stored(properties: &Map<String, Value>) -> Result<Self, String> {
        Self::read(profile_types::FRAMEWORK.known(properties))
    }

    /// The recipe of the nodes of a cluster: that of its profile, with the updates of the cluster since.
    pub fn of_cluster(cluster: &Cluster, profile: &Profile) -> Result<Self, String> {
        let recipe = Self::from_stored(&profile.properties)?;
        let recipe = Self { images: stored_images(&cluster.spec), ..recipe };
        Ok(match GivenRecipe::changed(&cluster.spec) {
            None => recipe,
            // The profile of a create request already contains the fields of the request. Updated fields are
            // therefore applied to the profile properties that the request gave in addition.
            Some((given, properties)) if profile.implicit && !cluster.is_external() => {
                let below = Self::from_stored(&properties).unwrap_or_default();
                given.over(&below, recipe)
            }
            Some((given, _)) => given.over(&recipe.clone(), recipe),
        })
    }

    /// Reads the properties of a request, and refuses unknown properties and invalid amounts.
    pub fn from_request(properties: &Map<String, Value>) -> Result<Self, String> {
        let recipe = Self::read(properties.clone())?;
        if let Some(name) = profile_types::FRAMEWORK.first_unknown(properties) {
            return Err(format!("unknown property '{name}'"));
        }
        let parts = [
            ("the profile", &recipe.image, &recipe.image_template),
            ("head", &recipe.head.image, &recipe.head.image_template),
            ("worker", &recipe.worker.image, &recipe.worker.image_template),
        ];
        if let Some((whose, ..)) =
            parts.iter().find(|(_, image, template)| image.is_some() && template.is_some())
        {
            return Err(format!("{whose} has image and image_template: leave one out"));
        }
        for node in [recipe.head(), recipe.workers(None)] {
            node.shape().check().map_err(|error| error.to_string())?;
        }
        recipe.check_keys()?;
        let is_possible = |folder: &String| Path::new(folder).is_absolute() && !folder.contains('\0');
        match recipe.working_dir.as_ref().filter(|folder| !is_possible(folder)) {
            Some(folder) => Err(format!("working_dir is {folder:?}: must be an absolute path")),
            None => Ok(recipe),
        }
    }

    /// Refuses labels and annotations that only Muster writes.
    fn check_keys(&self) -> Result<(), String> {
        let marks = [
            ("label of the head's pod", &self.head.pod.labels),
            ("label of the workers' pods", &self.worker.pod.labels),
            ("annotation of the head's pod", &self.head.pod.annotations),
            ("annotation of the workers' pods", &self.worker.pod.annotations),
            ("annotation of the head's Service", &self.service_annotations),
        ];
        let mut keys = marks.iter().flat_map(|(what, marks)| marks.keys().map(move |key| (what, key)));
        match keys.find(|(_, key)| is_own_key(key)) {
            Some((what, key)) => Err(format!(
                "'{key}' as a {what} is reserved, because only Muster writes keys of {OWN_DOMAIN}: use another key"
            )),
            None => Ok(()),
        }
    }

    fn read(properties: Map<String, Value>) -> Result<Self, String> {
        serde_json::from_value(Value::Object(properties)).map_err(|error| error.to_string())
    }

    /// Refuses settings that clusters of this framework do not have.
    pub fn check_framework(&self, framework: Framework) -> Result<(), String> {
        if framework == Framework::Spark || self.spark.is_empty() {
            return Ok(());
        }
        Err(format!("spark is for Spark alone, and this cluster runs {framework}: leave it out"))
    }

    /// The idle timeout and lifetime of clusters with this recipe.
    pub fn limits(&self) -> Limits {
        let limit = |seconds: Option<u64>| {
            seconds.map(|seconds| TimeSpan::from_secs(u32::try_from(seconds).unwrap_or(u32::MAX)))
        };
        Limits { idle_timeout: limit(self.idle_timeout), max_lifetime: limit(self.max_lifetime) }
    }

    /// The recipe of the head.
    pub fn head(&self) -> NodeRecipe {
        self.with_image(self.head.clone().or(self.common()))
    }

    /// The recipe of a group's workers: that of the group, completed by that of all workers.
    pub fn workers(&self, group: Option<&WorkerGroup>) -> NodeRecipe {
        let own = group.map(NodeRecipe::of_group).unwrap_or_default();
        self.with_image(own.or(self.worker.clone()).or(self.common()))
    }

    fn common(&self) -> NodeRecipe {
        let (image, image_template) = (self.image.clone(), self.image_template.clone());
        NodeRecipe { image, image_template, ..NodeRecipe::default() }
    }

    /// A recipe with the image of the template that it names.
    fn with_image(&self, node: NodeRecipe) -> NodeRecipe {
        let image = node.image_template.as_ref().and_then(|template| self.images.get(template));
        NodeRecipe { image: image.cloned().or(node.image), ..node }
    }

    /// The names of the image templates that the nodes of a cluster use.
    pub fn image_templates(&self, groups: &[WorkerGroup]) -> BTreeSet<String> {
        let groups = groups.iter().map(|group| self.workers(Some(group)));
        let nodes = std::iter::once(self.head()).chain(groups);
        nodes.filter_map(|node| node.image_template).collect()
    }
}

/// The key under which a cluster's spec stores the images of the image templates that it names.
const IMAGES: &str = "images";

/// Reads the images of the image templates that a cluster names from its spec.
pub fn stored_images(spec: &Map<String, Value>) -> BTreeMap<String, String> {
    spec.get(IMAGES).and_then(|images| BTreeMap::deserialize(images).ok()).unwrap_or_default()
}

/// Stores the images of the image templates that a cluster names in its spec.
pub fn store_images(spec: &mut Map<String, Value>, images: &BTreeMap<String, String>) {
    if !images.is_empty() {
        spec.insert(IMAGES.to_owned(), serde_json::json!(images));
    }
}

/// Adds the keys that only `other` has to `into`, recursively.
fn merge(into: &mut Value, other: Value) {
    let (Value::Object(into), Value::Object(other)) = (into, other) else { return };
    for (key, value) in other {
        match into.get_mut(&key) {
            Some(present) => merge(present, value),
            None => drop(into.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests;
