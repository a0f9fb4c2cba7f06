//! Hardware tiers: named shapes that Domino offers. Without Domino, compute templates and configured shapes are the
//! tiers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::change::{MapChange, NodeChange};
use crate::quantity::{Cpu, Memory};
use crate::shape::{Shape, ShapeChange, UpperLimits};

#[cfg(test)]
mod tests;

/// The label that names the tier of a pod.
pub const TIER_LABEL: &str = "dominodatalab.com/hardware-tier-id";

/// The label of machines by which a tier selects its node pool.
pub const NODE_POOL: &str = "dominodatalab.com/node-pool";

/// The flags that restrict a tier to kinds of clusters, with the names of these kinds in refusals.
const RESTRICTIONS: [(&str, &str); 4] = [
    ("restrictToSpark", "sparkclusters"),
    ("restrictToRay", "rayclusters"),
    ("restrictToDask", "daskclusters"),
    ("restrictToMpi", "mpicluster"),
];

/// The keys under which the versions of Domino report these flags.
const RESTRICTION_KEYS: [&str; 2] = ["computeClusterRestrictions", "hwtComputeClusterRestrictions"];

/// The units of memory in Domino, with those of Kubernetes.
const UNITS: [(&str, &str); 11] = [
    ("B", ""),
    ("KB", "k"),
    ("MB", "M"),
    ("GB", "G"),
    ("TB", "T"),
    ("PB", "P"),
    ("KiB", "Ki"),
    ("MiB", "Mi"),
    ("GiB", "Gi"),
    ("TiB", "Ti"),
    ("PiB", "Pi"),
];

/// A hardware tier.
#[derive(Debug, Clone, PartialEq)]
pub struct HardwareTier {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The shape of the nodes; the error says why the tier cannot be used.
    pub shape: Result<Shape, String>,
    /// The kinds of clusters that the tier is restricted to, in the plural; empty if it is not restricted.
    pub restricted_to: Vec<&'static str>,
    /// The value of the label [`TIER_LABEL`] on its pods, if they have that label.
    pub label: Option<String>,
    /// The tier as responses show it.
    pub shown: Value,
}

impl HardwareTier {
    /// Reads a tier as Domino describes it; none without a name.
    pub fn from_domino(tier: &Value) -> Option<Self> {
        let name = tier["name"].as_str().filter(|name| !name.is_empty())?.to_owned();
        let id = match &tier["id"] {
            Value::String(id) => id.clone(),
            Value::Number(id) => id.to_string(),
            _ => String::new(),
        };
        let is_set = |flag: &str| RESTRICTION_KEYS.iter().any(|key| tier[*key][flag] == true);
        Some(Self {
            name,
            shape: shape(tier, !id.is_empty()),
            restricted_to: RESTRICTIONS
                .iter()
                .filter(|(flag, _)| is_set(flag))
                .map(|(_, kind)| *kind)
                .collect(),
            label: Some(id.clone()).filter(|id| !id.is_empty()),
            id,
            shown: tier.clone(),
        })
    }

    /// A named shape as a tier.
    pub fn from_shape(name: &str, shape: Shape) -> Self {
        Self {
            id: name.to_owned(),
            name: name.to_owned(),
            shown: json!({"id": name, "name": name, "shape": shape}),
            shape: Ok(shape),
            restricted_to: Vec::new(),
            label: None,
        }
    }

    /// Returns true if clusters of this kind, in the plural, may have the tier.
    pub fn allows(&self, kind: &str) -> bool {
        self.restricted_to.is_empty() || self.restricted_to.contains(&kind)
    }

    /// The change that gives nodes this tier: it replaces their whole shape and the label of the previous tier. A tier
    /// without a label only removes that label.
    pub fn change(&self) -> Result<NodeChange, String> {
        let shape = self.shape.clone()?;
        let labels = MapChange::Keys { keys: BTreeMap::from([(TIER_LABEL.to_owned(), self.label.clone())]) };
        Ok(NodeChange { shape: ShapeChange::all(shape), labels: Some(labels), ..NodeChange::default() })
    }
}

fn shape(tier: &Value, selects: bool) -> Result<Shape, String> {
    let resources = &tier["hwtResources"];
    let cpu = |key: &str| -> Result<Option<Cpu>, String> {
        match &resources[key] {
            Value::Null => Ok(None),
            cores => {
                serde_json::from_value(cores.clone()).map(Some).map_err(|error| format!("{key}: {error}"))
            }
        }
    };
    let cores = cpu("cores")?.ok_or("cores is missing")?;
    let amount = memory(&resources["memory"])?.ok_or("memory is missing")?;
    let limit = memory(&resources["memoryLimit"])?.unwrap_or(amount);
    let gpus = &tier["gpuConfiguration"];
    let gpu = match &gpus["numberOfGpus"] {
        Value::Null => None,
        Value::Number(count) => {
            let whole = count
                .as_f64()
                .filter(|count| count.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(count));
            let whole = whole.ok_or_else(|| format!("numberOfGpus is {count}: must be a whole number"))?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
            Some(whole as u32)
        }
        other => return Err(format!("numberOfGpus is {other}: must be a whole number")),
    };
    let pool = tier["nodePool"].as_str().filter(|pool| !pool.is_empty() && selects);
    let shape = Shape {
        cpu: Some(cores),
        memory: Some(amount),
        gpu: gpu.filter(|gpu| *gpu > 0),
        limits: UpperLimits { cpu: cpu("coresLimit")?, memory: Some(limit), ..UpperLimits::default() },
        gpu_resource: gpus["gpuKey"].as_str().filter(|key| !key.is_empty()).map(str::to_owned),
        selectors: pool.map(|pool| (NODE_POOL.to_owned(), pool.to_owned())).into_iter().collect(),
        ..Shape::default()
    };
    shape.check().map_err(|why| why.to_string())?;
    Ok(shape)
}

/// Reads an amount of memory with its unit; none if it is absent.
fn memory(given: &Value) -> Result<Option<Memory>, String> {
    if given.is_null() {
        return Ok(None);
    }
    let unit = given["unit"].as_str().unwrap_or_default();
    let known = UNITS
        .iter()
        .find(|(domino, kubernetes)| *domino == unit || (*kubernetes == unit && !unit.is_empty()));
    let (_, suffix) =
        known.ok_or_else(|| format!("'{unit}' is not a unit of memory: must be one such as GiB or GB"))?;
    let value = given["value"].as_number().ok_or("memory has no value")?;
    format!("{value}{suffix}")
        .parse()
        .map(Some)
        .map_err(|error: crate::quantity::InvalidQuantity| error.to_string())
}
