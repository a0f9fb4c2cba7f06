//! Scaling policies: decide by how much a cluster grows or shrinks, and enforce a cooldown afterwards.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::kinds::{InvalidPolicy, PolicyKind, PolicyRules, PolicyVersion, Since, Support, settings};
use crate::action::ActionKind;
use crate::resize::{Adjustment as Change, AdjustmentType, Resize, Sizes};
use crate::spec::{Property, Schema};
use crate::time::{TimeSpan, Timestamp};

/// The scaling policy type.
pub const KIND: PolicyKind = PolicyKind {
    name: "senlin.policy.scaling",
    versions: &[PolicyVersion { number: "1.0", support: &[Since(Support::Supported, "2016.04")] }],
    priority: 100,
    singleton: false,
    profile_types: None,
    schema: SCHEMA,
    check: Some(check),
};

const SCHEMA: Schema = Schema(&[
    (
        "event",
        Property::string("The kind of action that the policy applies to.")
            .required()
            .allowed(&["CLUSTER_SCALE_IN", "CLUSTER_SCALE_OUT"]),
    ),
    ("adjustment", Property::map("The adjustment of the size.", ADJUSTMENT).filled()),
]);

const ADJUSTMENT: Schema = Schema(&[
    (
        "type",
        Property::string("The type of adjustment.")
            .allowed(&["EXACT_CAPACITY", "CHANGE_IN_CAPACITY", "CHANGE_IN_PERCENTAGE"])
            .default_text("CHANGE_IN_CAPACITY"),
    ),
    (
        "number",
        Property::number("The size, the number of nodes or the percentage, by the type of adjustment.")
            .default_int(1),
    ),
    ("min_step", Property::integer("The minimum number of nodes of a change in percentage.").default_int(1)),
    (
        "best_effort",
        Property::boolean("Whether a change beyond the bounds of the cluster is reduced to them.")
            .default_flag(false),
    ),
    (
        "cooldown",
        Property::integer("Seconds after a scaling during which the cluster is not scaled again.")
            .default_int(0),
    ),
]);

/// The settings of a scaling policy.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct ScalingPolicySettings {
    /// The kind of action that it applies to.
    pub event: ActionKind,
    /// The amount of the change, with its cooldown.
    pub adjustment: ScalingAdjustment,
}

/// The amount by which a cluster is scaled, and the cooldown.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct ScalingAdjustment {
    /// The meaning of the number.
    #[serde(rename = "type")]
    pub kind: AdjustmentType,
    /// The number.
    pub number: f64,
    /// The least change, for percentages.
    pub min_step: i64,
    /// True if a change is cut to the bounds of the cluster instead of refused.
    pub best_effort: bool,
    /// Seconds of cooldown.
    pub cooldown: i64,
}

fn check(properties: &Map<String, Value>, _: PolicyRules) -> Result<(), InvalidPolicy> {
    let ScalingAdjustment { number, min_step, cooldown, .. } =
        settings::<ScalingPolicySettings>(properties)?.adjustment;
    let rules = [
        (number > 0.0, "the 'number' for 'adjustment' must be > 0"),
        (min_step >= 0, "the 'min_step' for 'adjustment' must be >= 0"),
        (cooldown >= 0, "the 'cooldown' for 'adjustment' must be >= 0"),
    ];
    match rules.iter().find(|(kept, _)| !kept) {
        Some((_, words)) => Err(InvalidPolicy::Invalid((*words).to_owned())),
        None => Ok(()),
    }
}

impl ScalingPolicySettings {
    /// Returns true if the cooldown after the last change is still in progress.
    pub fn is_cooling(&self, last_op: Option<Timestamp>, now: Timestamp) -> bool {
        let rest = TimeSpan::from_micros(self.adjustment.cooldown.saturating_mul(1_000_000));
        last_op.is_some_and(|last| now.since(last) < rest)
    }

    /// The number of nodes by which the cluster grows or shrinks. A count in the request replaces that of the policy,
    /// and is still checked against the bounds.
    pub fn count(&self, asked: Option<u32>, present: Sizes, limit: u32) -> Result<u32, String> {
        let count = match asked {
            Some(count) => Ok(count),
            None => self.own_count(present.size),
        };
        let count = count
            .map_err(|given| format!("Invalid count ({given}) for action '{}'.", self.event.as_str()))?;
        let shrinks = self.event == ActionKind::ClusterScaleIn;
        if self.adjustment.best_effort {
            let room = if shrinks {
                present.size.saturating_sub(present.min)
            } else {
                present.max.unwrap_or(limit).min(limit).saturating_sub(present.size)
            };
            return Ok(count.min(room));
        }
        let number = if shrinks { -f64::from(count) } else { f64::from(count) };
        let change = Change { kind: AdjustmentType::ChangeInCapacity, number, min_step: None };
        let resize = Resize { adjustment: Some(change), min_size: None, max_size: None, strict: true };
        resize.apply(present, limit).map_err(|refused| refused.to_string())?;
        Ok(count)
    }

    /// The number of nodes according to the policy; the error contains a number that is not positive.
    #[expect(clippy::cast_possible_truncation, reason = "a float saturates at the ends of the integers")]
    fn own_count(&self, current: u32) -> Result<u32, String> {
        let ScalingAdjustment { kind, number, min_step, .. } = self.adjustment;
        let (current, number) = (i64::from(current), number);
        let count = match kind {
            AdjustmentType::ExactCapacity if self.event == ActionKind::ClusterScaleIn => {
                current.saturating_sub(number as i64)
            }
            AdjustmentType::ExactCapacity => (number as i64).saturating_sub(current),
            AdjustmentType::ChangeInCapacity => number as i64,
            AdjustmentType::ChangeInPercentage => {
                #[expect(clippy::cast_precision_loss, reason = "clusters are far smaller than 2^52")]
                let exact = number * current as f64 / 100.0;
                (exact as i64).max(min_step)
            }
        };
        u32::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| count.to_string())
    }
}
