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
    CheckedPolicy, InvalidPolicy, KINDS, PolicyKind, PolicyRules, PolicyVersion, Since, Support, check, find,
};

/// The longest wait that a policy may request, in seconds: a week.
pub const LONGEST_WAIT: i64 = 7 * 24 * 3600;

/// Checks the number of seconds that a policy makes an action wait.
fn check_wait(name: &str, seconds: i64) -> Result<(), InvalidPolicy> {
    match seconds {
        ..0 => Err(InvalidPolicy::Invalid(format!("the {name} must be >= 0"))),
        0..=LONGEST_WAIT => Ok(()),
        _ => Err(InvalidPolicy::Invalid(format!("the {name} must be <= {LONGEST_WAIT} (a week)"))),
    }
}

/// A rule that acts before or after actions of the clusters that it is bound to.
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
    /// Data that the policy type stores.
    pub data: Map<String, Value>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Option<Timestamp>,
}

/// The binding of a policy to a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// Its id.
    pub id: BindingId,
    /// The cluster.
    pub cluster_id: ClusterId,
    /// The policy.
    pub policy: Policy,
    /// True if the policy is enabled on this cluster.
    pub enabled: bool,
    /// The priority; bindings with a lower one run first.
    pub priority: i32,
    /// Data that the policy type stores.
    pub data: Map<String, Value>,
    /// The time when the policy last acted on this cluster.
    pub last_op: Option<Timestamp>,
}

impl Policy {
    /// The properties with the defaults of the type; none if the type is unknown or the spec does not fit. Properties
    /// of a newer version are ignored.
    pub fn properties(&self) -> Option<Map<String, Value>> {
        let (kind, _) = find(&self.kind)?;
        let given = self.spec.get("properties").and_then(Value::as_object)?;
        kind.schema.resolve(&kind.schema.known(given)).ok()
    }

    /// The properties as the settings of the policy type.
    pub fn settings<T: serde::de::DeserializeOwned>(&self) -> Result<T, String> {
        let properties =
            self.properties().ok_or_else(|| format!("its spec is not valid for type '{}'", self.kind))?;
        serde_json::from_value(Value::Object(properties)).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests;
