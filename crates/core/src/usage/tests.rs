use rstest::rstest;
use serde_json::json;

use super::*;
use crate::shape::Shape;

const HOUR: i64 = 3_600_000_000;

fn at(hour: i64) -> Timestamp {
    Timestamp::from_micros(hour * HOUR)
}

fn amounts(nodes: u64) -> RequestedAmounts {
    RequestedAmounts {
        nodes,
        cpu: Cpu::from_millis(nodes * 500),
        memory: Memory::from_bytes(nodes << 30),
        gpu: nodes * 2,
    }
}

fn record(hour: i64, before: Option<u64>, after: u64) -> AmountsRecord {
    AmountsRecord { at: at(hour), before: before.map(amounts), after: amounts(after) }
}

fn history(created: i64, deleted: Option<i64>, records: Vec<AmountsRecord>) -> ClusterHistory {
    ClusterHistory { created: at(created), deleted: deleted.map(at), present: amounts(4), records }
}

/// The window is from hour 100 to hour 110.
#[rstest]
#[case::all_of_the_window(history(0, None, vec![]), Some((10, 40)))]
#[case::created_within(history(107, None, vec![]), Some((3, 12)))]
#[case::deleted_within(history(0, Some(102), vec![]), Some((2, 8)))]
#[case::created_and_deleted_within(history(101, Some(102), vec![]), Some((1, 4)))]
#[case::created_and_deleted_at_once(history(101, Some(101), vec![]), Some((0, 0)))]
#[case::deleted_before(history(0, Some(99), vec![]), None)]
#[case::created_afterwards(history(110, None, vec![]), None)]
#[case::resized(history(0, None, vec![record(0, None, 1), record(104, None, 3)]), Some((10, 4 + 18)))]
#[case::resized_before(history(0, None, vec![record(0, None, 1), record(50, None, 3)]), Some((10, 30)))]
#[case::resized_afterwards(history(0, None, vec![record(0, None, 1), record(150, Some(1), 9)]), Some((10, 10)))]
#[case::the_first_record_says_what_was_before(history(0, None, vec![record(104, Some(1), 3)]), Some((10, 4 + 18)))]
#[case::the_first_record_says_only_what_is_after(history(0, None, vec![record(104, None, 3)]), Some((10, 30)))]
#[case::recorded_with_its_end(history(0, Some(105), vec![record(105, Some(2), 2)]), Some((5, 10)))]
#[case::recorded_after_its_end(history(0, Some(105), vec![record(106, Some(2), 0)]), Some((5, 10)))]
fn a_cluster_counts_from_its_creation_to_its_deletion_with_what_it_requested(
    #[case] history: ClusterHistory,
    #[case] expected: Option<(u32, u32)>,
) {
    let usage = UsageSum::of(&history, Window { since: at(100), until: at(110) });
    assert_eq!(usage.is_some(), expected.is_some());
    let (Some(usage), Some((hours, node_hours))) = (usage, expected) else { return };
    let (hours, node_hours) = (f64::from(hours), f64::from(node_hours));
    let found = (usage.cluster_hours(), usage.node_hours(), usage.core_hours(), usage.memory_gib_hours());
    assert_eq!(found, (hours, node_hours, node_hours / 2.0, node_hours));
    assert_eq!((usage.clusters, usage.gpu_hours()), (1, node_hours * 2.0));
}

#[test]
fn sums_are_exact() {
    let window = Window { since: at(0), until: Timestamp::from_micros(HOUR / 3) };
    let mut sum = UsageSum::default();
    for _ in 0..3 {
        sum.add(&UsageSum::of(&history(0, None, vec![]), window).unwrap());
    }
    assert_eq!((sum.clusters, sum.cluster_hours(), sum.node_hours()), (3, 1.0, 4.0));
}

#[test]
fn demands_are_summed_and_absent_amounts_count_as_nothing() {
    let demand = |count, shape| Demand { subject: String::new(), count, shape };
    let head = Shape { cpu: "500m".parse().ok(), memory: "1Gi".parse().ok(), ..Shape::default() };
    let worker = Shape { cpu: "2".parse().ok(), gpu: Some(1), ..Shape::default() };
    let sum =
        RequestedAmounts::of_demands(&[demand(1, head), demand(3, worker), demand(2, Shape::default())]);
    let expected = RequestedAmounts {
        nodes: 6,
        cpu: Cpu::from_millis(6_500),
        memory: Memory::from_bytes(1 << 30),
        gpu: 3,
    };
    assert_eq!(sum, expected);
}

#[test]
fn amounts_in_the_data_of_an_event_are_read_and_found_as_they_were_written() {
    let mut data = Map::from_iter([("door".to_owned(), json!("core"))]);
    assert_eq!(AmountsRecord::read(at(1), &data), None);
    AmountsRecord::write(&mut data, Some(amounts(1)), amounts(2));
    assert_eq!(AmountsRecord::read(at(1), &data), Some(record(1, Some(1), 2)));
    assert!(Value::Object(data.clone()).to_string().contains(STORED_AFTER));
    let expected = json!({"nodes": 2, "cpu": "1", "memory": "2Gi", "gpu": 4});
    assert_eq!(data["requested"], expected);
    data.remove("requested_before");
    assert_eq!(AmountsRecord::read(at(1), &data), Some(record(1, None, 2)));
}
