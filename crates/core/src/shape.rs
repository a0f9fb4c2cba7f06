//! Shapes of nodes: cpu, memory, accelerators and other resources, and where the nodes may run.

mod change;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quantity::{Cpu, InvalidQuantity, Memory};
use crate::unknown_fields::UnknownFields;

pub use change::ShapeChange;

/// The resource name by which accelerators are requested, unless a shape names another one.
pub const GPU_RESOURCE: &str = "nvidia.com/gpu";

/// The resources of a node. Absent values are left to the provider. Local processes have only cpu, memory and
/// accelerators; the other fields are for pods.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Shape {
    /// Cpu.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Whole accelerators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// The limits of a node, if they are above the requested amounts.
    #[serde(skip_serializing_if = "UpperLimits::is_empty")]
    pub limits: UpperLimits,
    /// The resource name by which accelerators are requested; [`GPU_RESOURCE`] if absent.
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
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// The limits of a node. An absent limit equals the requested amount.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpperLimits {
    /// Cpu.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl UpperLimits {
    /// Returns true if no limit is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A toleration of taints as Kubernetes defines it. Empty fields are left to the defaults of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// The key of the taint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `Equal` or `Exists`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator: String,
    /// The value of the taint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub effect: String,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// A named shape of the server's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedShape {
    /// Its name.
    pub name: String,
    /// Its amounts.
    #[serde(flatten)]
    pub shape: Shape,
}

/// The least memory of a node; a smaller amount is most likely a missing unit.
const LEAST_MEMORY: Memory = Memory::from_bytes(1 << 20);

/// The longest name of a resource: a DNS subdomain (253), a slash and a name (63).
const LONGEST_RESOURCE: usize = 317;

/// The largest number of tolerations, of selectors and of extended resources of a shape.
const MOST_ENTRIES: usize = 100;

/// The operators of tolerations. As with effects, an empty one stands for the default of Kubernetes.
const OPERATORS: &[&str] = &["", "Equal", "Exists"];
const EFFECTS: &[&str] = &["", "NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The reason why a shape was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidShape {
    /// An amount is invalid.
    #[error(transparent)]
    Quantity(#[from] InvalidQuantity),
    /// The cpu is zero.
    #[error("cpu is 0: must be greater than 0, such as 100m or 2; or omit it")]
    NoCpu,
    /// The memory is below the least amount.
    #[error("memory is {0}: must be at least {LEAST_MEMORY}; use a unit, such as in 512Mi or 4Gi")]
    TooLittleMemory(Memory),
    /// A limit is below the requested amount.
    #[error("the limit of {resource} is {limit}: must be at least the requested {amount}; raise or omit it")]
    LimitTooLow {
        /// `cpu` or `memory`.
        resource: &'static str,
        /// The limit.
        limit: String,
        /// The requested amount.
        amount: String,
    },
    /// The name of a resource is invalid.
    #[error(
        "'{0}' is not the name of a resource: must have letters, digits, '-', '_', '.' and at most one '/', such as \
         nvidia.com/gpu"
    )]
    Resource(String),
    /// Kubernetes does not accept a toleration.
    #[error("toleration of '{key}': {why}")]
    Toleration {
        /// The key of the taint.
        key: String,
        /// The problem.
        why: String,
    },
    /// A text has control characters, which logs and lists cannot show.
    #[error("{what} {text:?} has control characters: remove them")]
    ControlCharacters {
        /// The kind of entry, as the message names it.
        what: &'static str,
        /// The text.
        text: String,
    },
    /// The shape has too many entries of one kind.
    #[error("{count} {what} are given: must be at most {MOST_ENTRIES}")]
    TooMany {
        /// The kind of entry, as the message names it.
        what: &'static str,
        /// The number of entries.
        count: usize,
    },
}

impl Shape {
    /// Refuses a shape that no node can run with or that no pod can have.
    pub fn check(&self) -> Result<(), InvalidShape> {
        if self.cpu == Some(Cpu::default()) {
            return Err(InvalidShape::NoCpu);
        }
        if let Some(memory) = self.memory.filter(|memory| *memory < LEAST_MEMORY) {
            return Err(InvalidShape::TooLittleMemory(memory));
        }
        check_limit("cpu", self.limits.cpu, self.cpu)?;
        check_limit("memory", self.limits.memory, self.memory)?;
        let counts = [
            ("extended_resources", self.extended_resources.len()),
            ("tolerations", self.tolerations.len()),
            ("selectors", self.selectors.len()),
        ];
        if let Some((what, count)) = counts.into_iter().find(|(_, count)| *count > MOST_ENTRIES) {
            return Err(InvalidShape::TooMany { what, count });
        }
        if let Some(name) =
            self.extended_resources.keys().chain(&self.gpu_resource).find(|name| !is_resource(name))
        {
            return Err(InvalidShape::Resource(name.clone()));
        }
        let selectors = self.selectors.iter().flat_map(|(key, value)| [key, value]);
        check_texts("selector", selectors)?;
        for toleration in &self.tolerations {
            toleration.check()?;
            check_texts("toleration", [&toleration.key, &toleration.value])?;
        }
        Ok(())
    }

    /// This shape, completed by `other`. A limit of `other` is taken only together with its amount.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let limits = UpperLimits {
            cpu: self.limits.cpu.or(other.limits.cpu.filter(|_| self.cpu.is_none())),
            memory: self.limits.memory.or(other.limits.memory.filter(|_| self.memory.is_none())),
            unknown: self.limits.unknown,
        };
        Self {
            cpu: self.cpu.or(other.cpu),
            memory: self.memory.or(other.memory),
            gpu: self.gpu.or(other.gpu),
            limits,
            gpu_resource: self.gpu_resource.or(other.gpu_resource),
            extended_resources: other.extended_resources.into_iter().chain(self.extended_resources).collect(),
            tolerations: if self.tolerations.is_empty() { other.tolerations } else { self.tolerations },
            selectors: other.selectors.into_iter().chain(self.selectors).collect(),
            unknown: self.unknown,
        }
    }

    /// The first field that this version does not know.
    pub fn unknown_field(&self) -> Option<&str> {
        let tolerations = self.tolerations.iter().flat_map(|toleration| toleration.unknown.names());
        self.unknown.names().chain(self.limits.unknown.names()).chain(tolerations).next()
    }

    /// The resource name by which accelerators are requested.
    pub fn gpu_resource(&self) -> &str {
        self.gpu_resource.as_deref().unwrap_or(GPU_RESOURCE)
    }
}

impl Toleration {
    fn check(&self) -> Result<(), InvalidShape> {
        let Self { key, operator, value, effect, unknown: _ } = self;
        let why = if !OPERATORS.contains(&operator.as_str()) {
            format!("operator is '{operator}': must be Equal or Exists")
        } else if !EFFECTS.contains(&effect.as_str()) {
            format!("effect is '{effect}': must be NoSchedule, PreferNoSchedule or NoExecute")
        } else if operator == "Exists" && !value.is_empty() {
            format!("value is '{value}': must be empty with operator Exists; omit one of them")
        } else if key.is_empty() && operator != "Exists" {
            "key is empty: operator must then be Exists".to_owned()
        } else {
            return Ok(());
        };
        Err(InvalidShape::Toleration { key: key.clone(), why })
    }
}

fn check_limit<T: PartialOrd + std::fmt::Display>(
    resource: &'static str,
    limit: Option<T>,
    amount: Option<T>,
) -> Result<(), InvalidShape> {
    match (limit, amount) {
        (Some(limit), Some(amount)) if limit < amount => {
            Err(InvalidShape::LimitTooLow { resource, limit: limit.to_string(), amount: amount.to_string() })
        }
        _ => Ok(()),
    }
}

fn check_texts<'t>(
    what: &'static str,
    texts: impl IntoIterator<Item = &'t String>,
) -> Result<(), InvalidShape> {
    match texts.into_iter().find(|text| text.chars().any(char::is_control)) {
        Some(text) => Err(InvalidShape::ControlCharacters { what, text: text.clone() }),
        None => Ok(()),
    }
}

fn is_resource(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let has_ends = name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.ends_with(|last: char| last.is_ascii_alphanumeric());
    has_ends && name.bytes().all(plain) && name.matches('/').count() <= 1 && name.len() <= LONGEST_RESOURCE
}

#[cfg(test)]
mod tests;
