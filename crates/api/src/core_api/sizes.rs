//! Reads sizes of worker groups, with one set of error messages for create, scale and update requests.

use muster_core::resize::{MaxSize, Resize, ResizeError, Sizes};
use muster_proto::v1alpha2 as wire;
use muster_service::sizes::IntentError;

use crate::error::ApiError;

/// Converts a number of workers; refuses a negative number.
pub(super) fn count(field: &str, group: &str, given: i32) -> Result<u32, ApiError> {
    u32::try_from(given).map_err(|_| {
        ApiError::invalid(format!("{field} of group '{group}' is {given}: must be 0 or greater"))
    })
}

/// Returns the size and bounds of a new group.
pub(super) fn of_new_group(given: &wire::WorkerGroupSpec) -> Result<Sizes, ApiError> {
    let group = &given.group_name;
    let max = given.max_replicas.map(|max| count("max_replicas", group, max)).transpose()?;
    let resize = Resize {
        min_size: Some(count("min_replicas", group, given.min_replicas.unwrap_or(0))?),
        max_size: Some(max.map_or(MaxSize::Unbounded, MaxSize::Bound)),
        ..Resize::exactly(count("replicas", group, given.replicas)?)
    };
    let none = Sizes { size: 0, min: 0, max: None };
    resize.apply(none, u32::MAX).map_err(|error| refused(group, &error))
}

impl From<IntentError> for ApiError {
    fn from(error: IntentError) -> Self {
        match error {
            IntentError::Size { group, error } => refused(&group, &error),
            IntentError::UnknownGroup(_) => Self::invalid(error.to_string()),
            IntentError::TooManyWorkers { .. } => Self::invalid(error.to_string()).code(OUT_OF_BOUNDS),
        }
    }
}

const OUT_OF_BOUNDS: &str = "OutOfBounds";

fn refused(group: &str, error: &ResizeError) -> ApiError {
    let message = match *error {
        ResizeError::NegativeExact => {
            format!("replicas of group '{group}' is negative: must be 0 or greater")
        }
        ResizeError::TargetAboveLimit { target, limit } => {
            format!("replicas of group '{group}' is {target}: must be at most {limit} in this cluster")
        }
        ResizeError::TargetBelowNewMin { target, min } | ResizeError::TargetBelowMin { target, min } => {
            below_min(group, target, min)
        }
        ResizeError::NewMinAboveSize { min, size } => below_min(group, i64::from(size), min),
        ResizeError::TargetAboveNewMax { target, max } | ResizeError::TargetAboveMax { target, max } => {
            above_max(group, target, max)
        }
        ResizeError::NewMaxBelowSize { max, size } => above_max(group, i64::from(size), max),
        ResizeError::NewMinAboveNewMax { min, max }
        | ResizeError::NewMinAboveMax { min, max }
        | ResizeError::NewMaxBelowMin { max, min } => format!(
            "min_replicas of group '{group}' is {min}: must be at most max_replicas ({max}); lower min_replicas or raise \
             max_replicas"
        ),
        ResizeError::NewMaxAboveLimit { max, limit } => {
            format!("max_replicas of group '{group}' is {max}: must be at most {limit}")
        }
    };
    ApiError::invalid(message).code(OUT_OF_BOUNDS)
}

fn below_min(group: &str, replicas: i64, min: u32) -> String {
    format!(
        "replicas of group '{group}' is {replicas}: must be at least min_replicas ({min}); raise replicas or lower \
         min_replicas"
    )
}

fn above_max(group: &str, replicas: i64, max: u32) -> String {
    format!(
        "replicas of group '{group}' is {replicas}: must be at most max_replicas ({max}); lower replicas or raise \
         max_replicas"
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn group(replicas: i32, min_replicas: Option<i32>, max_replicas: Option<i32>) -> wire::WorkerGroupSpec {
        let group_name = "g".to_owned();
        wire::WorkerGroupSpec {
            group_name,
            replicas,
            min_replicas,
            max_replicas,
            ..wire::WorkerGroupSpec::default()
        }
    }

    #[rstest]
    #[case::no_bounds(group(3, None, None), Sizes { size: 3, min: 0, max: None })]
    #[case::bounds(group(3, Some(1), Some(i32::MAX)), Sizes { size: 3, min: 1, max: Some(2_147_483_647) })]
    fn a_new_group_has_the_sizes_that_are_given(
        #[case] given: wire::WorkerGroupSpec,
        #[case] expected: Sizes,
    ) {
        assert_eq!(of_new_group(&given).unwrap(), expected);
    }

    #[rstest]
    #[case(group(-1, None, None), "replicas of group 'g' is -1: must be 0 or greater")]
    #[case(group(0, None, Some(-1)), "max_replicas of group 'g' is -1: must be 0 or greater")]
    #[case(
        group(0, Some(1), None),
        "replicas of group 'g' is 0: must be at least min_replicas (1); raise replicas or lower min_replicas"
    )]
    #[case(
        group(4, None, Some(3)),
        "replicas of group 'g' is 4: must be at most max_replicas (3); lower replicas or raise max_replicas"
    )]
    #[case(
        group(4, Some(4), Some(3)),
        "replicas of group 'g' is 4: must be at most max_replicas (3); lower replicas or raise max_replicas"
    )]
    #[case(
        group(2, Some(4), Some(3)),
        "replicas of group 'g' is 2: must be at least min_replicas (4); raise replicas or lower min_replicas"
    )]
    fn sizes_out_of_range_are_refused(#[case] given: wire::WorkerGroupSpec, #[case] message: &str) {
        assert_eq!(of_new_group(&given).unwrap_err().message, message);
    }
}
