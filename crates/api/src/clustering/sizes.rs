//! Sizes and bounds in requests, checked as far as possible without a cluster.

use muster_core::resize::{Adjustment, AdjustmentType, MaxSize, Resize};
use serde_json::{Map, Value};

use super::field_reader::FieldReader;
use super::senlin_error::SenlinError;
use super::version::MicroVersion;

/// The sizes in a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RequestedSizes {
    pub(super) desired: Option<u32>,
    pub(super) min: Option<u32>,
    pub(super) max: Option<MaxSize>,
}

impl RequestedSizes {
    /// Reads the size and the bounds.
    pub(super) fn read(form: &mut FieldReader<'_>, limit: u32) -> Result<Self, SenlinError> {
        let (min, max) = bounds(form, limit)?;
        let desired = form.capacity("desired_capacity", 0, limit)?.and_then(size);
        Ok(Self { desired, min, max })
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the resize that sets the sizes of a new cluster.
    pub(super) fn for_new_cluster(&self) -> Resize {
        self.resize(Some(self.desired.or(self.min).unwrap_or(0)), true)
    }

    /// Returns the resize of an existing cluster. Bounds without a size adjust the present size.
    pub(super) fn for_change(&self) -> Resize {
        self.resize(self.desired, self.desired.is_some())
    }

    fn resize(&self, desired: Option<u32>, strict: bool) -> Resize {
        let exact = |size| Adjustment {
            kind: AdjustmentType::ExactCapacity,
            number: f64::from(size),
            min_step: None,
        };
        Resize { adjustment: desired.map(exact), min_size: self.min, max_size: self.max, strict }
    }
}

/// Reads the bounds in a request.
fn bounds(form: &mut FieldReader<'_>, limit: u32) -> Result<(Option<u32>, Option<MaxSize>), SenlinError> {
    let min = form.capacity("min_size", 0, limit)?.and_then(size);
    let max = form.capacity("max_size", -1, limit)?.and_then(|max| MaxSize::try_from(max).ok());
    Ok((min, max))
}

fn size(given: i64) -> Option<u32> {
    u32::try_from(given).ok()
}

/// The version that added resizes of groups.
const GROUPS: MicroVersion = MicroVersion(15);

/// Reads a resize request: the group, if it names one, and its new size.
pub(super) fn resize(
    data: &Map<String, Value>,
    limit: u32,
    version: MicroVersion,
) -> Result<(Option<String>, Resize), SenlinError> {
    let mut form = FieldReader::new(data);
    let kind: Option<AdjustmentType> = match form.one_of("adjustment_type")? {
        Some(kind) => Some(kind),
        None => form.one_of("adj_type")?,
    };
    form.any("adj_type");
    let number = form.number("number")?;
    let (min, max) = bounds(&mut form, limit)?;
    let min_step = form.count("min_step")?;
    let strict = form.boolean("strict")?.unwrap_or(true);
    let group = if version >= GROUPS { form.text("group")?.map(str::to_owned) } else { None };
    form.done()?;
    let adjustment = match (kind, number) {
        (Some(kind), Some(number)) => {
            let min_step = min_step.filter(|_| kind == AdjustmentType::ChangeInPercentage);
            Some(Adjustment { kind, number, min_step })
        }
        (Some(_), None) => return Err(SenlinError::bad("Missing number value for size adjustment")),
        (None, Some(_)) => return Err(SenlinError::bad("Missing adjustment_type value for size adjustment")),
        (None, None) if min.is_none() && max.is_none() => {
            return Err(SenlinError::bad("Not enough parameters to do resize action"));
        }
        (None, None) => None,
    };
    if let Some(adjustment) = adjustment
        && adjustment.kind == AdjustmentType::ExactCapacity
    {
        adjustment.target(0).map_err(|refused| SenlinError::bad(refused.to_string()))?;
    }
    if let (Some(min), Some(MaxSize::Bound(max))) = (min, max)
        && min > max
    {
        return Err(SenlinError::bad(format!(
            "The specified min_size ({min}) is greater than the specified max_size ({max})"
        )));
    }
    Ok((group, Resize { adjustment, min_size: min, max_size: max, strict }))
}
