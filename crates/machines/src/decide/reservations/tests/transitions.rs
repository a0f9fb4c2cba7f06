//! The transitions of one machine type from its creation to its removal.

use rstest::rstest;

use super::fixture::world;
use crate::decide::reservations::usage;
use crate::types::Usage;

#[rstest]
#[case::row_1_created(2, &[], [2, 0, 0, 0], 2)]
#[case::row_2_both_reserved(2, &["r0@n1", "r1@n2"], [2, 2, 0, 0], 2)]
#[case::row_3_a_guest_waits(2, &["r0@n1", "r1@n2", "g1 gated"], [2, 2, 0, 1], 1)]
#[case::row_3_without_a_gate(2, &["r0@n1", "r1@n2", "g1"], [2, 2, 0, 1], 1)]
#[case::row_4_a_reservation_goes(2, &["r0@n1", "r1@n2 terminating", "g1 gated"], [2, 1, 0, 1], 1)]
#[case::row_5_the_guest_is_placed(2, &["r0@n1", "g1@n2 creating"], [2, 1, 1, 0], 1)]
#[case::row_6_it_runs(2, &["r0@n1", "g1@n2"], [2, 1, 1, 0], 1)]
#[case::row_7_it_is_not_ready(2, &["r0@n1", "g1@n2"], [2, 1, 1, 0], 1)]
#[case::row_8_a_second_one_waits(2, &["r0@n1", "g1@n2", "g2 gated"], [2, 1, 1, 1], 0)]
#[case::row_9_a_third_one_waits_too(2, &["g1@n2", "g2@n1", "g3 gated"], [2, 0, 2, 1], 0)]
#[case::row_10_a_guest_terminates(2, &["g1@n2 terminating", "g2@n1"], [2, 0, 2, 0], 0)]
#[case::row_11_it_is_gone(2, &["g2@n1"], [2, 0, 1, 0], 1)]
#[case::row_11_it_has_finished(2, &["g1@n2 finished", "g2@n1"], [2, 0, 1, 0], 1)]
#[case::row_12_a_reservation_does_not_fit(2, &["r0@n1", "r1"], [2, 1, 0, 0], 2)]
#[case::row_13_lowered(1, &["r0@n1", "r1@n2"], [1, 2, 0, 0], 1)]
#[case::row_14_lowered_to_nothing(0, &["r0@n1", "g1@n2"], [0, 1, 1, 0], 0)]
fn slots_go_over(
    #[case] available: i32,
    #[case] pods: &[&str],
    #[case] counts: [i32; 4],
    #[case] replicas: i32,
) {
    let world = world(available).with(pods);
    let [maximum, reserved, used, waiting] = counts;
    assert_eq!(usage(&world.observed(), "t"), Usage { maximum, reserved, used, waiting });
    assert_eq!(world.replicas(), Some(replicas));
}

/// Row 15: a removed type. Row 16: a type that no node serves.
#[test]
fn a_type_that_is_removed_or_served_by_no_node_has_no_set() {
    let mut world = world(2);
    world.machine.spec.node_pool.clear();
    assert_eq!(world.replicas(), None);
    assert_eq!(world.writes().len(), 1, "the Service");
}
