use muster_core::action::ActionKind;
use muster_core::sample;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_000);

fn id(index: u32) -> NodeId {
    sample::node(index).id
}

fn children(target: Target) -> Children {
    let cluster = sample::cluster(1, 0, None).id;
    let parent = Action { target, ..sample::action(5, ActionKind::NodeDelete, cluster) };
    Children::new(&Arc::new(parent), Some(cluster))
}

fn failed(reason: &str) -> ActionEnd {
    ActionEnd { status: ActionStatus::Failed, reason: reason.to_owned() }
}

#[test]
fn each_node_has_one_open_child_and_the_target_of_the_parent_none() {
    let mut children = children(Target::Node(id(1)));
    let begun = children.begin_all(&Change::LeaveNode, &[id(1), id(2), id(3)], NOW);
    let targets: Vec<Target> = begun.iter().map(|child| child.target).collect();
    assert_eq!(targets, [Target::Node(id(2)), Target::Node(id(3))]);
    assert_eq!((begun[0].parent, begun[0].cluster_id), (Some(children.parent.id), children.cluster_id));
    assert!(children.begin(&Change::LeaveNode, id(2), NOW).is_none(), "it has one");
    children.end(id(2), failed("lost"));
    assert!(children.begin(&Change::LeaveNode, id(2), NOW).is_some(), "the first one has ended");
}

#[test]
fn children_that_end_alike_are_written_together_and_once() {
    let mut children = children(Target::Cluster(sample::cluster(1, 0, None).id));
    let begun = children.begin_all(&Change::LeaveNode, &[id(1), id(2), id(3)], NOW);
    for (node, reason) in [(1, "lost"), (2, "late"), (3, "lost"), (3, "late"), (4, "late")] {
        children.end(id(node), failed(reason));
    }
    let expected = [(failed("lost"), vec![begun[0].id, begun[2].id]), (failed("late"), vec![begun[1].id])];
    assert_eq!(children.ended, expected);
    assert!(children.open.is_empty() && children.have_ended());
}
