use AdjustmentType::{ChangeInCapacity as CAP, ChangeInPercentage as PCT, ExactCapacity as EXACT};
use rstest::rstest;

use super::*;

const LIMIT: u32 = 1000;

/// A cluster of 5 between 1 and 10.
const FIVE: Sizes = Sizes { size: 5, min: 1, max: Some(10) };

fn resize(kind: AdjustmentType, number: f64) -> Resize {
    Resize { adjustment: Some(Adjustment { kind, number, min_step: None }), ..bounds(None, None) }
}

fn bounds(min_size: Option<u32>, max_size: Option<i64>) -> Resize {
    let max_size = max_size.map(|max| MaxSize::try_from(max).unwrap());
    Resize { adjustment: None, min_size, max_size, strict: true }
}

fn best_effort(resize: Resize) -> Resize {
    Resize { strict: false, ..resize }
}

fn said(result: Result<Sizes, ResizeError>) -> String {
    result.unwrap_err().to_string()
}

#[rstest]
#[case(5, PCT, 10.0, None, 6)]
#[case(5, PCT, -10.0, None, 4)]
#[case(5, PCT, 50.0, None, 7)]
#[case(5, PCT, -50.0, None, 3)]
#[case(10, PCT, 15.0, None, 11)]
#[case(10, PCT, -15.0, None, 9)]
#[case(3, PCT, 33.0, None, 4)]
#[case(3, PCT, 34.0, None, 4)]
#[case(3, PCT, 100.0, None, 6)]
#[case(7, PCT, 10.5, None, 8)]
#[case(5, PCT, 10.0, Some(2), 7)]
#[case(5, PCT, -10.0, Some(2), 3)]
#[case(5, PCT, 200.0, Some(2), 15)]
#[case(4, PCT, -99.0, None, 1)]
#[case(4, PCT, -100.0, None, 0)]
#[case(4, PCT, -150.0, None, -2)]
#[case(0, PCT, 50.0, None, 0)]
#[case(0, PCT, 50.0, Some(2), 2)]
#[case(5, PCT, 0.0, Some(2), 5)]
#[case(5, CAP, -7.0, None, -2)]
#[case(5, CAP, 0.5, None, 5)]
#[case(5, CAP, 1.9, None, 6)]
#[case(5, CAP, -1.9, None, 4)]
#[case(5, EXACT, 3.7, None, 3)]
fn a_number_means_this_size(
    #[case] current: u32,
    #[case] kind: AdjustmentType,
    #[case] number: f64,
    #[case] min_step: Option<u32>,
    #[case] target: i64,
) {
    assert_eq!(Adjustment { kind, number, min_step }.target(current), Ok(target));
}

#[test]
fn an_exact_size_is_not_negative() {
    assert_eq!(resize(EXACT, -1.0).apply(FIVE, LIMIT), Err(ResizeError::NegativeExact));
}

#[rstest]
#[case(best_effort(resize(EXACT, 20.0)), 10, 1, Some(10))]
#[case(best_effort(resize(CAP, -9.0)), 1, 1, Some(10))]
#[case(best_effort(bounds(Some(7), None)), 7, 7, Some(10))]
#[case(best_effort(bounds(None, Some(3))), 3, 1, Some(3))]
#[case(Resize { max_size: Some(MaxSize::Bound(12)), ..resize(EXACT, 12.0) }, 12, 1, Some(12))]
#[case(Resize { max_size: Some(MaxSize::Unbounded), ..resize(EXACT, 12.0) }, 12, 1, None)]
#[case(resize(EXACT, 5.0), 5, 1, Some(10))]
#[case(best_effort(Resize { min_size: Some(4), ..resize(EXACT, 3.0) }), 4, 4, Some(10))]
#[case(bounds(Some(5), Some(5)), 5, 5, Some(5))]
fn a_cluster_of_five_becomes(
    #[case] resize: Resize,
    #[case] size: u32,
    #[case] min: u32,
    #[case] max: Option<u32>,
) {
    assert_eq!(resize.apply(FIVE, LIMIT), Ok(Sizes { size, min, max }));
}

#[rstest]
#[case(
    resize(EXACT, 1001.0),
    "The target capacity (1001) is greater than the maximum number of nodes allowed per cluster (1000)."
)]
#[case(best_effort(Resize { max_size: Some(MaxSize::Unbounded), ..resize(EXACT, 2000.0) }), "The target capacity (2000) is greater than the maximum number of nodes allowed per cluster (1000).")]
#[case(Resize { min_size: Some(4), ..resize(EXACT, 3.0) }, "The target capacity (3) is less than the specified min_size (4).")]
#[case(resize(EXACT, 0.0), "The target capacity (0) is less than the cluster's min_size (1).")]
#[case(resize(CAP, -7.0), "The target capacity (-2) is less than the cluster's min_size (1).")]
#[case(Resize { max_size: Some(MaxSize::Bound(7)), ..resize(EXACT, 8.0) }, "The target capacity (8) is greater than the specified max_size (7).")]
#[case(resize(EXACT, 11.0), "The target capacity (11) is greater than the cluster's max_size (10).")]
#[case(bounds(Some(6), Some(5)), "The specified min_size (6) is greater than the specified max_size (5).")]
#[case(
    best_effort(bounds(Some(11), None)),
    "The specified min_size (11) is greater than the current max_size (10) of the cluster."
)]
#[case(
    bounds(Some(7), None),
    "The specified min_size (7) is greater than the current desired_capacity (5) of the cluster."
)]
#[case(
    bounds(None, Some(1001)),
    "The specified max_size (1001) is greater than the maximum number of nodes allowed per cluster (1000)."
)]
#[case(
    bounds(None, Some(0)),
    "The specified max_size (0) is less than the current min_size (1) of the cluster."
)]
#[case(
    bounds(None, Some(3)),
    "The specified max_size (3) is less than the current desired_capacity (5) of the cluster."
)]
fn what_does_not_fit_is_refused_in_these_words(#[case] resize: Resize, #[case] words: &str) {
    assert_eq!(said(resize.apply(FIVE, LIMIT)), words);
}

#[test]
fn an_upper_bound_of_zero_is_a_real_bound() {
    let empty = Sizes { size: 0, min: 0, max: None };
    assert_eq!(bounds(None, Some(0)).apply(empty, LIMIT), Ok(Sizes { max: Some(0), ..empty }));
    let full = Sizes { max: Some(0), ..empty };
    assert_eq!(
        said(resize(EXACT, 1.0).apply(full, LIMIT)),
        "The target capacity (1) is greater than the cluster's max_size (0)."
    );
}

#[test]
fn an_empty_cluster_grows() {
    let empty = Sizes { size: 0, min: 0, max: None };
    assert_eq!(resize(EXACT, 2.0).apply(empty, LIMIT), Ok(Sizes { size: 2, ..empty }));
}

#[test]
fn best_effort_that_contradicts_itself_is_still_refused() {
    let words = said(best_effort(bounds(Some(6), Some(5))).apply(FIVE, LIMIT));
    assert_eq!(words, "The specified min_size (6) is greater than the specified max_size (5).");
}

#[test]
fn a_resize_is_written_and_read_as_its_wire_form() {
    let resize = Resize { min_size: Some(1), max_size: Some(MaxSize::Unbounded), ..resize(CAP, 2.0) };
    let text = serde_json::to_string(&resize).unwrap();
    assert_eq!(
        text,
        r#"{"adjustment_type":"CHANGE_IN_CAPACITY","number":2,"min_size":1,"max_size":-1,"strict":true}"#
    );
    assert_eq!(serde_json::from_str::<Resize>(&text).unwrap(), resize);
}
