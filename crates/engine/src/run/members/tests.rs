use muster_core::action::Fence;
use muster_core::ids::{ActionId, EngineId};
use muster_core::sample;
use muster_store::commands::Ticket;
use rstest::rstest;
use uuid::Uuid;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_000);

fn members(count: u32) -> Members {
    Members::new((1..=count).map(sample::node).collect())
}

fn id(index: u32) -> NodeId {
    sample::node(index).id
}

/// Drains the members into their next commit.
fn drain(members: &mut Members) -> Record {
    let nil = Uuid::nil();
    let ticket =
        Ticket { action: ActionId::from_uuid(nil), engine: EngineId::from_uuid(nil), fence: Fence(1) };
    let mut record = Record::new(ticket, NOW);
    members.drain_into(&mut record);
    record
}

fn ids(nodes: &[Node]) -> Vec<NodeId> {
    nodes.iter().map(|node| node.id).collect()
}

#[test]
fn a_changed_member_is_written_once() {
    let mut members = members(3);
    assert!(!members.have_changed(), "members that were read are not written");
    members.set_status(id(2), NodeStatus::Error, "lost", NOW);
    assert!(members.have_changed());
    let record = drain(&mut members);
    assert_eq!(ids(&record.nodes), [id(2)]);
    assert_eq!((record.nodes[0].status, record.nodes[0].status_reason.as_str()), (NodeStatus::Error, "lost"));
    assert!(!members.have_changed() && drain(&mut members).nodes.is_empty(), "it was drained");
}

#[test]
fn an_added_member_is_inserted_with_its_later_changes_and_updated_afterwards() {
    let mut members = members(1);
    members.add([sample::node(2)]);
    assert!(!members.have_changed(), "it is in memory only");
    members.insert([id(2), id(9)]);
    members.set_status(id(2), NodeStatus::Creating, "", NOW);
    let record = drain(&mut members);
    assert_eq!((ids(&record.new_nodes), ids(&record.nodes)), (vec![id(2)], vec![]));
    assert_eq!(record.new_nodes[0].status, NodeStatus::Creating);
    members.set_status(id(2), NodeStatus::Active, "", NOW);
    let record = drain(&mut members);
    assert_eq!((ids(&record.new_nodes), ids(&record.nodes)), (vec![], vec![id(2)]));
}

#[test]
fn only_rows_that_were_written_are_deleted() {
    let mut members = members(2);
    members.set_status(id(1), NodeStatus::Deleting, "", NOW);
    members.add_new(vec![sample::node(3)]);
    members.delete([id(1), id(3)]);
    let record = drain(&mut members);
    assert_eq!(record.gone_nodes, [id(1)]);
    assert!(record.new_nodes.is_empty() && record.nodes.is_empty(), "a deleted row is not written");
    assert_eq!((members.ids(), members.get(id(2)).map(|node| node.id)), (vec![id(2)], Some(id(2))));
}

#[test]
fn a_member_that_leaves_is_written_as_an_orphan_only() {
    let mut members = members(2);
    members.set_status(id(1), NodeStatus::Active, "", NOW);
    members.orphan(&HashSet::from([id(1)]), NOW);
    let record = drain(&mut members);
    assert_eq!((ids(&record.moved_nodes), ids(&record.nodes)), (vec![id(1)], vec![]));
    assert_eq!((record.moved_nodes[0].cluster_id, record.moved_nodes[0].updated_at), (None, Some(NOW)));
    assert_eq!(members.ids(), [id(2)]);
}

#[test]
fn a_member_with_another_profile_is_relocated() {
    let (mut members, profile) = (members(2), ProfileId::from_uuid(Uuid::from_u128(7)));
    members.set_profile(id(2), profile);
    members.set_profile(id(9), profile);
    let record = drain(&mut members);
    assert_eq!((ids(&record.moved_nodes), ids(&record.nodes)), (vec![id(2)], vec![]));
    assert_eq!(record.moved_nodes[0].profile_id, profile);
}

#[rstest]
#[case::absent(Observation::Absent, 0)]
#[case::starting(Observation::Starting { physical_id: None }, 0)]
#[case::running(Observation::Running { physical_id: "p".to_owned() }, 1)]
#[case::exited(Observation::Exited { reason: "exit status 1".to_owned() }, 1)]
fn an_interrupted_start_counts_only_if_it_happened(#[case] observation: Observation, #[case] starts: usize) {
    let mut node = Node { status: NodeStatus::Creating, ..sample::node(1) };
    node.record_start(NOW);
    let mut members = Members::new(vec![node]);
    let unknown = Observation::Unknown { reason: "no answer".to_owned() };
    for observation in [unknown, observation, Observation::Absent] {
        let nodes = [(id(1), observation)].into_iter().collect();
        members.remove_starts_that_did_not_happen(&Observed { nodes, ..Observed::default() });
    }
    assert_eq!(members.get(id(1)).map(|node| node.starts.len()), Some(starts));
}
