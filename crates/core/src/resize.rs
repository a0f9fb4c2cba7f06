//! The arithmetic of resizes, and their refusals.
//!
//! `current` is always the number of members, never the desired size.

use serde::{Deserialize, Serialize, Serializer};

use crate::string_enum::string_enum;

string_enum! {
    /// The meaning of the number of a resize.
    AdjustmentType, "adjustment type" {
        /// The new size.
        ExactCapacity = "EXACT_CAPACITY",
        /// The change of the size in nodes.
        ChangeInCapacity = "CHANGE_IN_CAPACITY",
        /// The change of the size in percent.
        ChangeInPercentage = "CHANGE_IN_PERCENTAGE",
    }
}

/// The number of a resize and its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Adjustment {
    /// The meaning of the number.
    #[serde(rename = "adjustment_type")]
    pub kind: AdjustmentType,
    /// The number.
    #[serde(serialize_with = "as_it_was_sent")]
    pub number: f64,
    /// The least change of the size in nodes, for percentages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_step: Option<u32>,
}

/// Writes a whole number without a point, because clients send whole numbers and compare the response.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
#[expect(clippy::cast_possible_truncation, reason = "such a number is exact")]
fn as_it_was_sent<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    /// The largest whole number up to which all whole numbers are exact as floats.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        serializer.serialize_i64(*number as i64)
    } else {
        serializer.serialize_f64(*number)
    }
}

/// A requested resize.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "ResizeFields")]
pub struct Resize {
    /// The change of the size; if absent, only the bounds change.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub adjustment: Option<Adjustment>,
    /// A new lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_size: Option<u32>,
    /// A new upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_size: Option<MaxSize>,
    /// True if a size that does not fit the bounds is refused, false if it is cut to them.
    pub strict: bool,
}

/// The fields of a resize as they are read.
#[derive(Deserialize)]
struct ResizeFields {
    adjustment_type: Option<AdjustmentType>,
    number: Option<Number>,
    min_step: Option<u32>,
    min_size: Option<u32>,
    max_size: Option<MaxSize>,
    strict: Option<bool>,
}

/// A number, which may be a text, because webhooks send it so.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Number(f64),
    Text(String),
}

impl Number {
    fn read(self) -> Result<f64, String> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Text(text) => {
                let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
                number.ok_or_else(|| format!("number is '{text}': must be a number"))
            }
        }
    }
}

impl TryFrom<ResizeFields> for Resize {
    type Error = String;

    fn try_from(fields: ResizeFields) -> Result<Self, String> {
        let ResizeFields { adjustment_type, number, min_step, min_size, max_size, strict } = fields;
        let adjustment = match (adjustment_type, number) {
            (Some(kind), Some(number)) => Some(Adjustment { kind, number: number.read()?, min_step }),
            (None, None) => None,
            (Some(_), None) => return Err("adjustment_type needs a number".to_owned()),
            (None, Some(_)) => return Err("number needs an adjustment_type".to_owned()),
        };
        Ok(Self { adjustment, min_size, max_size, strict: strict.unwrap_or(true) })
    }
}

/// An upper bound that was given: a number, or explicitly none (written as -1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub enum MaxSize {
    /// An upper bound.
    Bound(u32),
    /// No upper bound.
    Unbounded,
}

impl MaxSize {
    /// The upper bound as worker groups have it.
    pub const fn bound(self) -> Option<u32> {
        match self {
            Self::Bound(bound) => Some(bound),
            Self::Unbounded => None,
        }
    }
}

impl TryFrom<i64> for MaxSize {
    type Error = String;

    fn try_from(value: i64) -> Result<Self, String> {
        match value {
            -1 => Ok(Self::Unbounded),
            value => u32::try_from(value)
                .map(Self::Bound)
                .map_err(|_| format!("max_size is {value}: must be -1 or greater")),
        }
    }
}

impl From<MaxSize> for i64 {
    fn from(value: MaxSize) -> Self {
        value.bound().map_or(-1, Self::from)
    }
}

/// The size and the bounds of a group or cluster, before or after a resize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// The number of members, or the desired size.
    pub size: u32,
    /// The lower bound.
    pub min: u32,
    /// The upper bound; none stands for no bound.
    pub max: Option<u32>,
}

/// The reason why a resize is refused, with the message that existing clients compare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message says what its fields are")]
pub enum ResizeError {
    #[error("The 'number' must be non-negative integer for adjustment type 'EXACT_CAPACITY'.")]
    NegativeExact,
    #[error(
        "The target capacity ({target}) is greater than the maximum number of nodes allowed per cluster ({limit})."
    )]
    TargetAboveLimit { target: i64, limit: u32 },
    #[error("The target capacity ({target}) is less than the specified min_size ({min}).")]
    TargetBelowNewMin { target: i64, min: u32 },
    #[error("The target capacity ({target}) is less than the cluster's min_size ({min}).")]
    TargetBelowMin { target: i64, min: u32 },
    #[error("The target capacity ({target}) is greater than the specified max_size ({max}).")]
    TargetAboveNewMax { target: i64, max: u32 },
    #[error("The target capacity ({target}) is greater than the cluster's max_size ({max}).")]
    TargetAboveMax { target: i64, max: u32 },
    #[error("The specified min_size ({min}) is greater than the specified max_size ({max}).")]
    NewMinAboveNewMax { min: u32, max: u32 },
    #[error("The specified min_size ({min}) is greater than the current max_size ({max}) of the cluster.")]
    NewMinAboveMax { min: u32, max: u32 },
    #[error(
        "The specified min_size ({min}) is greater than the current desired_capacity ({size}) of the cluster."
    )]
    NewMinAboveSize { min: u32, size: u32 },
    #[error(
        "The specified max_size ({max}) is greater than the maximum number of nodes allowed per cluster ({limit})."
    )]
    NewMaxAboveLimit { max: u32, limit: u32 },
    #[error("The specified max_size ({max}) is less than the current min_size ({min}) of the cluster.")]
    NewMaxBelowMin { max: u32, min: u32 },
    #[error(
        "The specified max_size ({max}) is less than the current desired_capacity ({size}) of the cluster."
    )]
    NewMaxBelowSize { max: u32, size: u32 },
}

impl Adjustment {
    /// The requested size, before the bounds are applied; may be negative.
    pub fn target(&self, current: u32) -> Result<i64, ResizeError> {
        let current = i64::from(current);
        match self.kind {
            AdjustmentType::ExactCapacity => {
                let target = truncate(self.number);
                if self.number < 0.0 { Err(ResizeError::NegativeExact) } else { Ok(target) }
            }
            AdjustmentType::ChangeInCapacity => Ok(current.saturating_add(truncate(self.number))),
            AdjustmentType::ChangeInPercentage => Ok(current.saturating_add(self.percentage(current))),
        }
    }

    /// The change for a percentage. Below one node it is rounded away from zero, otherwise truncated. `min_step`
    /// raises its absolute value.
    fn percentage(&self, current: i64) -> i64 {
        #[expect(clippy::cast_precision_loss, reason = "clusters are far smaller than 2^52")]
        let exact = self.number * current as f64 / 100.0;
        let rounded = if exact.abs() < 1.0 { away_from_zero(exact) } else { truncate(exact) };
        let step = i64::from(self.min_step.unwrap_or(0));
        if step > rounded.abs() && self.number != 0.0 {
            return if self.number < 0.0 { -step } else { step };
        }
        rounded
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a float saturates at the ends of the integers")]
const fn truncate(number: f64) -> i64 {
    number as i64
}

const fn away_from_zero(number: f64) -> i64 {
    if number > 0.0 {
        1
    } else if number < 0.0 {
        -1
    } else {
        0
    }
}

impl Resize {
    /// A resize to an exact size; refused if the size does not fit the bounds.
    pub fn exactly(size: u32) -> Self {
        Self::strictly(AdjustmentType::ExactCapacity, f64::from(size))
    }

    /// The requested size, if it is given absolutely.
    pub fn exact_size(&self) -> Option<u32> {
        let adjustment =
            self.adjustment.filter(|adjustment| adjustment.kind == AdjustmentType::ExactCapacity)?;
        adjustment.target(0).ok().and_then(|size| u32::try_from(size).ok())
    }

    /// A resize by this number of nodes, which may be negative; refused if the size does not fit the bounds.
    #[expect(clippy::cast_precision_loss, reason = "clusters are far smaller than 2^52")]
    pub const fn by(change: i64) -> Self {
        Self::strictly(AdjustmentType::ChangeInCapacity, change as f64)
    }

    const fn strictly(kind: AdjustmentType, number: f64) -> Self {
        let adjustment = Some(Adjustment { kind, number, min_step: None });
        Self { adjustment, min_size: None, max_size: None, strict: true }
    }

    /// The size and bounds after the resize, or the reason why it is refused. `limit` is the largest size of any
    /// cluster.
    pub fn apply(&self, present: Sizes, limit: u32) -> Result<Sizes, ResizeError> {
        let wanted = self.adjustment.map(|adjustment| adjustment.target(present.size)).transpose()?;
        let min = self.min_size.unwrap_or(present.min);
        let max = self.max_size.map_or(present.max, MaxSize::bound);
        let wanted = if self.strict {
            wanted
        } else {
            let target = wanted.unwrap_or(i64::from(present.size));
            let cut = target.max(i64::from(min));
            Some(max.map_or(cut, |max| cut.min(i64::from(max))))
        };
        self.check_target(wanted, present, limit)?;
        self.check_bounds(wanted, present, limit)?;
        let size = wanted.map_or(Ok(present.size), u32::try_from);
        // Negative targets were refused above: the lower bound is at least 0.
        let size = size.map_err(|_| ResizeError::TargetBelowMin { target: wanted.unwrap_or(0), min })?;
        Ok(Sizes { size, min, max })
    }

    fn check_target(&self, wanted: Option<i64>, present: Sizes, limit: u32) -> Result<(), ResizeError> {
        let Some(target) = wanted else { return Ok(()) };
        if target > i64::from(limit) {
            return Err(ResizeError::TargetAboveLimit { target, limit });
        }
        // The target was already cut to the bounds, and `check_bounds` refuses impossible bounds.
        if !self.strict {
            return Ok(());
        }
        match self.min_size {
            Some(min) if target < i64::from(min) => {
                return Err(ResizeError::TargetBelowNewMin { target, min });
            }
            None if target < i64::from(present.min) => {
                return Err(ResizeError::TargetBelowMin { target, min: present.min });
            }
            _ => {}
        }
        match (self.max_size, present.max) {
            (Some(MaxSize::Bound(max)), _) if target > i64::from(max) => {
                Err(ResizeError::TargetAboveNewMax { target, max })
            }
            (None, Some(max)) if target > i64::from(max) => Err(ResizeError::TargetAboveMax { target, max }),
            _ => Ok(()),
        }
    }

    fn check_bounds(&self, wanted: Option<i64>, present: Sizes, limit: u32) -> Result<(), ResizeError> {
        let alone = self.strict && wanted.is_none();
        if let Some(min) = self.min_size {
            match (self.max_size, present.max) {
                (Some(MaxSize::Bound(max)), _) if min > max => {
                    return Err(ResizeError::NewMinAboveNewMax { min, max });
                }
                (None, Some(max)) if min > max => return Err(ResizeError::NewMinAboveMax { min, max }),
                _ => {}
            }
            if alone && min > present.size {
                return Err(ResizeError::NewMinAboveSize { min, size: present.size });
            }
        }
        if let Some(MaxSize::Bound(max)) = self.max_size {
            if max > limit {
                return Err(ResizeError::NewMaxAboveLimit { max, limit });
            }
            if self.min_size.is_none() && max < present.min {
                return Err(ResizeError::NewMaxBelowMin { max, min: present.min });
            }
            if alone && max < present.size {
                return Err(ResizeError::NewMaxBelowSize { max, size: present.size });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
