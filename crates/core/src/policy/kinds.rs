//! The policy types: their schemas, versions and priorities.

use serde_json::{Map, Value, json};

use super::{affinity, batch, deletion, health, loadbalance, placement, scaling};
use crate::profile::ProfileType;
use crate::spec::{Envelope, Schema, SpecError};
use crate::string_enum::string_enum;

string_enum! {
    /// The support status of a version.
    Support, "support status" {
        /// Stable.
        Supported = "SUPPORTED",
        /// Not stable: it may still change.
        Experimental = "EXPERIMENTAL",
    }
}

/// A support status, and the release since which it applies.
#[derive(Debug, Clone, Copy)]
pub struct Since(pub Support, pub &'static str);

/// A version of a policy type. All versions share one schema.
#[derive(Debug, Clone, Copy)]
pub struct PolicyVersion {
    /// The version number, such as `1.1`.
    pub number: &'static str,
    /// The history of the support status.
    pub support: &'static [Since],
}

/// Checks properties after their schema.
type PropertyCheck = fn(&Map<String, Value>, PolicyRules) -> Result<(), InvalidPolicy>;

/// A type of policy.
#[derive(Debug, Clone, Copy)]
pub struct PolicyKind {
    /// Its name, such as `senlin.policy.deletion`.
    pub name: &'static str,
    /// Its versions, oldest first.
    pub versions: &'static [PolicyVersion],
    /// The priority; policies with a lower one run first.
    pub priority: i32,
    /// True if a cluster may have only one policy of this type.
    pub singleton: bool,
    /// The names of the profile types whose clusters it can be attached to; none stands for all.
    pub profile_types: Option<&'static [&'static str]>,
    /// The schema of the properties.
    pub schema: Schema,
    /// Checks beyond the schema.
    pub(super) check: Option<PropertyCheck>,
}

/// All types, in the order in which they are listed.
pub const KINDS: &[&PolicyKind] = &[
    &affinity::KIND,
    &batch::KIND,
    &deletion::KIND,
    &health::KIND,
    &loadbalance::KIND,
    &placement::REGION,
    &scaling::KIND,
    &placement::ZONE,
];

/// Configurable limits of policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyRules {
    /// The shortest interval of a health policy, in seconds.
    pub health_check_interval_min: u32,
}

impl Default for PolicyRules {
    fn default() -> Self {
        Self { health_check_interval_min: 60 }
    }
}

/// The reason why a policy is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPolicy {
    /// The type does not exist, or not in this version.
    #[error("The policy_type '{kind}' could not be found.")]
    UnknownType {
        /// The type and version that was given.
        kind: String,
    },
    /// The spec does not match the schema of its type.
    #[error("{0}")]
    Schema(String),
    /// The spec matches the schema, but a value is invalid.
    #[error("{0}")]
    Invalid(String),
}

impl From<SpecError> for InvalidPolicy {
    fn from(error: SpecError) -> Self {
        Self::Schema(error.to_string())
    }
}

/// A valid specification of a policy.
#[derive(Debug, Clone)]
pub struct CheckedPolicy {
    /// Its type.
    pub kind: &'static PolicyKind,
    /// Its type and version, such as `senlin.policy.deletion-1.1`.
    pub name: String,
    /// The spec as it was given.
    pub spec: Map<String, Value>,
}

/// Checks a specification of a policy.
pub fn check(spec: &Value, rules: PolicyRules) -> Result<CheckedPolicy, InvalidPolicy> {
    let envelope = Envelope::read(spec)?;
    let name = envelope.kind();
    let (kind, _) = find(&name).ok_or_else(|| InvalidPolicy::UnknownType { kind: name.clone() })?;
    let properties = kind.schema.resolve(envelope.properties()?)?;
    kind.check.map_or(Ok(()), |check| check(&properties, rules))?;
    Ok(CheckedPolicy { kind, name, spec: envelope.whole().clone() })
}

/// The type and version of this name, such as `senlin.policy.deletion-1.1`.
pub fn find(name: &str) -> Option<(&'static PolicyKind, &'static PolicyVersion)> {
    let (name, number) = name.rsplit_once('-')?;
    let kind = KINDS.iter().copied().find(|kind| kind.name == name)?;
    let version = kind.versions.iter().find(|version| version.number == number)?;
    Some((kind, version))
}

impl PolicyKind {
    /// Returns true if the policy can be attached to clusters of this profile type.
    pub fn applies_to(&self, profile_type: &ProfileType) -> bool {
        self.profile_types.is_none_or(|names| names.contains(&profile_type.name.as_str()))
    }

    /// The support status of its versions, as the API shows it.
    pub fn support_status(&self) -> Value {
        self.versions.iter().map(|version| (version.number.to_owned(), version.support_status())).collect()
    }
}

impl PolicyVersion {
    /// Its support status, as the API shows it.
    pub fn support_status(&self) -> Value {
        self.support.iter().map(|Since(status, since)| json!({"status": status, "since": since})).collect()
    }
}

/// Reads the settings of a policy type from properties that its schema has resolved.
pub(super) fn settings<T: serde::de::DeserializeOwned>(
    properties: &Map<String, Value>,
) -> Result<T, InvalidPolicy> {
    let properties = Value::Object(properties.clone());
    serde_json::from_value(properties).map_err(|error| InvalidPolicy::Invalid(error.to_string()))
}
