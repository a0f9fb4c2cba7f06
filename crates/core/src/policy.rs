//! Policies and their bindings to clusters; the policy types and their rules.

pub mod affinity;
pub mod batch;
pub mod deletion;
pub mod health;
mod kinds;
pub mod loadbalance;
pub mod placement;
pub mod scaling;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{BindingId, ClusterId, PolicyId};
use crate::time::Timestamp;

pub use kinds::{
    CheckedPolicy, InvalidPolicy, KINDS, PolicyKind, PolicyRules, Since, Support, Version, check, find,
};

/// The longest wait that a policy may ask for, in seconds: a week.
pub const LONGEST_WAIT: i64 = 7 * 24 * 3600;

/// Checks a number of seconds that an action waits for.
fn check_wait(name: &str, seconds: i64) -> Result<(), InvalidPolicy> {
    match seconds {
        ..0 => Err(InvalidPolicy::Invalid(format!("the {name} must be >= 0"))),
        0..=LONGEST_WAIT => Ok(()),
        _ => Err(InvalidPolicy::Invalid(format!("the {name} must be <= {LONGEST_WAIT} (a week)"))),
    }
}

/// A rule that actions are checked against.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Its id.
    pub id: PolicyId,
    /// Its name.
    pub name: String,
    /// Its type and version, such as `senlin.policy.deletion-1.1`.
    pub kind: String,
    /// The tenant.
    pub project: String,
    /// The user that created it.
    pub user: String,
    /// The spec as it was given.
    pub spec: Map<String, Value>,
    /// Data of its type.
    pub data: Map<String, Value>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Option<Timestamp>,
}

/// A policy's attachment to a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// Its id.
    pub id: BindingId,
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The policy.
    pub policy: Policy,
    /// Whether it acts.
    pub enabled: bool,
    /// Lower ones run first.
    pub priority: i32,
    /// Data of its type.
    pub data: Map<String, Value>,
    /// The time when it last acted.
    pub last_op: Option<Timestamp>,
}

impl Policy {
    /// Its properties with the defaults of its type; none if the type is unknown or the spec does not fit. Properties
    /// of a newer version are ignored.
    pub fn properties(&self) -> Option<Map<String, Value>> {
        let (kind, _) = find(&self.kind)?;
        let given = self.spec.get("properties").and_then(Value::as_object)?;
        kind.schema.resolve(&kind.schema.known(given)).ok()
    }

    /// Its properties as the type's own settings.
    pub fn settings<T: serde::de::DeserializeOwned>(&self) -> Result<T, String> {
        let properties = self.properties().ok_or_else(|| format!("its spec does not fit '{}'", self.kind))?;
        serde_json::from_value(Value::Object(properties)).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests;
