use rstest::rstest;

use super::*;
use crate::sample;

#[rstest]
#[case(0, ClusterStatus::Error, "below min_size (1)")]
#[case(1, ClusterStatus::Warning, "below desired_capacity (3)")]
#[case(3, ClusterStatus::Active, "equal or above desired_capacity (3)")]
#[case(4, ClusterStatus::Active, "equal or above desired_capacity (3)")]
#[case(6, ClusterStatus::Warning, "above max_size (5)")]
fn workers_are_counted_against_the_bounds(
    #[case] active: u32,
    #[case] status: ClusterStatus,
    #[case] words: &str,
) {
    let cluster = sample::cluster(3, 1, Some(5));
    let expected = format!("CLUSTER_CHECK: number of active nodes is {words}.");
    assert_eq!(evaluate(&cluster, active, HeadState::None, "CLUSTER_CHECK"), (status, expected));
}

#[test]
fn without_an_upper_bound_more_is_never_too_many() {
    let cluster = sample::cluster(3, 1, None);
    assert_eq!(evaluate(&cluster, 900, HeadState::None, "X").0, ClusterStatus::Active);
}

#[rstest]
#[case(HeadState::Lost, ClusterStatus::Critical)]
#[case(HeadState::Recovering, ClusterStatus::Recovering)]
#[case(HeadState::Up, ClusterStatus::Active)]
fn the_head_comes_before_the_workers(#[case] head: HeadState, #[case] status: ClusterStatus) {
    let cluster = sample::cluster(3, 1, None);
    assert_eq!(evaluate(&cluster, 3, head, "X").0, status);
}

#[rstest]
#[case(None, HeadState::Lost)]
#[case(Some(NodeStatus::Active), HeadState::Up)]
#[case(Some(NodeStatus::Recovering), HeadState::Recovering)]
#[case(Some(NodeStatus::Error), HeadState::Lost)]
fn a_head_is_as_its_row_says(#[case] status: Option<NodeStatus>, #[case] state: HeadState) {
    let cluster = Cluster { has_head: true, ..sample::cluster(0, 0, None) };
    assert_eq!(head_by(&cluster, status), state);
}
