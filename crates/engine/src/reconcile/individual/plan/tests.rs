use std::sync::LazyLock;

use muster_core::cluster::WorkerGroup;
use muster_core::node::START_WINDOW;
use muster_core::sample;
use muster_core::string_enum::Stored as _;
use rstest::rstest;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);

fn running(node: &Node) -> Observation {
    Observation::Running { physical_id: format!("p{}", node.index) }
}

fn exited() -> Observation {
    Observation::Exited { reason: "exit status 1".to_owned() }
}

fn observed(world: impl IntoIterator<Item = (NodeId, Observation)>) -> Observed {
    Observed { nodes: world.into_iter().collect(), ..Observed::default() }
}

fn input<'a>(cluster: &'a Cluster, leaving: &'a HashSet<NodeId>) -> Input<'a> {
    static NONE: LazyLock<HashMap<NodeId, String>> = LazyLock::new(HashMap::new);
    Input {
        cluster,
        leaving,
        workers_outlive_head: false,
        start: true,
        only: None,
        keep_size: false,
        recreate: &NONE,
    }
}

fn head() -> Node {
    Node { role: NodeRole::Head, group: None, index: 0, ..sample::node(0) }
}

fn with_head(desired: u32) -> Cluster {
    Cluster { has_head: true, ..sample::cluster(desired, 0, None) }
}

#[test]
fn an_empty_cluster_gets_its_workers() {
    let (cluster, no_one_leaves) = (sample::cluster(3, 0, None), HashSet::new());
    let plan = plan(input(&cluster, &no_one_leaves), &[], &Observed::default(), &RetryState::default(), NOW);
    assert_eq!(plan.add, BTreeMap::from([("default".to_owned(), 3)]));
    assert_eq!(plan.verdict, MemberVerdict::Act);
}

#[test]
fn each_group_is_counted_by_itself() {
    let mut cluster = sample::cluster(1, 0, None);
    cluster.groups.push(WorkerGroup { name: "large".to_owned(), desired: 2, ..cluster.groups[0].clone() });
    let node = sample::node(1);
    let world = observed([(node.id, running(&node))]);
    let no_one_leaves = HashSet::new();
    let plan = plan(input(&cluster, &no_one_leaves), &[node], &world, &RetryState::default(), NOW);
    assert_eq!(plan.add, BTreeMap::from([("large".to_owned(), 2)]));
}

#[test]
fn a_cluster_that_is_complete_has_reached_its_goal() {
    let (cluster, no_one_leaves, node) = (sample::cluster(1, 0, None), HashSet::new(), sample::node(1));
    let world = observed([(node.id, running(&node))]);
    let plan = plan(
        input(&cluster, &no_one_leaves),
        std::slice::from_ref(&node),
        &world,
        &RetryState::default(),
        NOW,
    );
    assert_eq!(plan.up, [(node.id, "p1".to_owned())]);
    assert_eq!(plan.verdict, MemberVerdict::Reached);
}

#[rstest]
#[case(Observation::Absent)]
#[case(exited())]
#[case(Observation::Starting { physical_id: None })]
fn a_member_that_does_not_work_is_started(#[case] world: Observation) {
    let (cluster, no_one_leaves, node) = (sample::cluster(1, 0, None), HashSet::new(), sample::node(1));
    let world = observed([(node.id, world)]);
    let plan = plan(
        input(&cluster, &no_one_leaves),
        std::slice::from_ref(&node),
        &world,
        &RetryState::default(),
        NOW,
    );
    assert_eq!((plan.start, plan.verdict), (vec![node.id], MemberVerdict::Act));
}

#[test]
fn what_is_unknown_is_neither_started_nor_replaced() {
    let (cluster, no_one_leaves, node) = (sample::cluster(1, 0, None), HashSet::new(), sample::node(1));
    let plan =
        plan(input(&cluster, &no_one_leaves), &[node], &Observed::default(), &RetryState::default(), NOW);
    assert_eq!(plan, Plan { verdict: MemberVerdict::Wait(None), ..Plan::default() });
}

#[test]
fn a_member_that_failed_for_good_is_not_tried_again_and_ends_the_action() {
    let (cluster, no_one_leaves, node) = (sample::cluster(1, 0, None), HashSet::new(), sample::node(1));
    let retry_state = RetryState {
        given_up: HashMap::from([(node.id, "no such image".to_owned())]),
        ..RetryState::default()
    };
    let world = observed([(node.id, Observation::Absent)]);
    let plan = plan(input(&cluster, &no_one_leaves), &[node], &world, &retry_state, NOW);
    assert_eq!(plan.verdict, MemberVerdict::Unreachable(vec!["node-1: no such image".to_owned()]));
    assert!(plan.add.is_empty(), "a failed member was replaced");
}

#[test]
fn a_member_that_failed_for_the_moment_is_tried_again_later() {
    let (cluster, no_one_leaves, node) = (sample::cluster(1, 0, None), HashSet::new(), sample::node(1));
    let later = Timestamp::from_micros(NOW.micros() + 5);
    let retry_state = RetryState { not_before: HashMap::from([(node.id, later)]), ..RetryState::default() };
    let world = observed([(node.id, Observation::Absent)]);
    let at =
        |now| plan(input(&cluster, &no_one_leaves), std::slice::from_ref(&node), &world, &retry_state, now);
    assert_eq!(at(NOW).verdict, MemberVerdict::Wait(Some(later)));
    assert_eq!(at(later).start, [node.id]);
}

#[test]
fn a_member_is_started_three_times_in_ten_minutes_and_no_more() {
    let (cluster, no_one_leaves) = (sample::cluster(1, 0, None), HashSet::new());
    let node = Node { starts: vec![NOW; 3], ..sample::node(1) };
    let world = observed([(node.id, exited())]);
    let at = |now| {
        plan(
            input(&cluster, &no_one_leaves),
            std::slice::from_ref(&node),
            &world,
            &RetryState::default(),
            now,
        )
    };
    let reason =
        "node-1: started 3 times in 10 minutes, the limit; the next start is possible in 11 min: exit status 1".to_owned();
    assert_eq!(at(NOW).verdict, MemberVerdict::Unreachable(vec![reason]));
    assert_eq!(at(NOW.after(START_WINDOW)).start, [node.id]);
}

#[test]
fn a_member_that_follows_a_new_head_is_started_however_often_it_was() {
    let (mut cluster, no_one_leaves) = (with_head(1), HashSet::new());
    cluster.incarnation = 2;
    let head = Node { incarnation: 2, ..head() };
    let worker = Node { starts: vec![NOW; 3], ..sample::node(1) };
    let world = observed([(head.id, running(&head)), (worker.id, exited())]);
    let plan =
        plan(input(&cluster, &no_one_leaves), &[head, worker.clone()], &world, &RetryState::default(), NOW);
    assert_eq!(plan.start, [worker.id]);
}

#[test]
fn a_worker_that_starts_for_a_head_that_is_gone_is_replaced_once_there_is_a_new_one() {
    let (mut cluster, no_one_leaves) = (with_head(1), HashSet::new());
    let (old, worker) = (head(), sample::node(1));
    let starting = || Observation::Starting { physical_id: None };
    let world = observed([(old.id, exited()), (worker.id, starting())]);
    let nodes = [old.clone(), worker.clone()];
    let first = plan(input(&cluster, &no_one_leaves), &nodes, &world, &RetryState::default(), NOW);
    assert_eq!((first.start, first.stop), (vec![old.id], vec![]), "the head comes first");
    cluster.incarnation = 2;
    let new = Node { incarnation: 2, ..old };
    let world = observed([(new.id, running(&new)), (worker.id, starting())]);
    let second =
        plan(input(&cluster, &no_one_leaves), &[new, worker.clone()], &world, &RetryState::default(), NOW);
    assert_eq!((second.start, second.stop), (vec![], vec![worker.id]));
}

#[test]
fn members_that_leave_are_stopped_and_then_gone() {
    let (cluster, node) = (sample::cluster(0, 0, None), sample::node(1));
    let leaving = HashSet::from([node.id]);
    let after = |world| {
        plan(
            input(&cluster, &leaving),
            std::slice::from_ref(&node),
            &observed([(node.id, world)]),
            &RetryState::default(),
            NOW,
        )
    };
    assert_eq!(after(running(&node)).stop, [node.id]);
    assert_eq!(after(Observation::Unknown { reason: String::new() }).stop, [node.id]);
    let gone = after(Observation::Absent);
    assert_eq!((gone.gone, gone.verdict), (vec![node.id], MemberVerdict::Reached));
}

#[test]
fn workers_wait_for_their_head() {
    let (cluster, no_one_leaves) = (with_head(1), HashSet::new());
    let (head, worker) = (head(), sample::node(1));
    let world = observed([(head.id, Observation::Absent), (worker.id, Observation::Absent)]);
    let nodes = [head.clone(), worker.clone()];
    let first = plan(input(&cluster, &no_one_leaves), &nodes, &world, &RetryState::default(), NOW);
    assert_eq!(first.start, [head.id]);
    let world = observed([(head.id, running(&head)), (worker.id, Observation::Absent)]);
    let second = plan(input(&cluster, &no_one_leaves), &nodes, &world, &RetryState::default(), NOW);
    assert_eq!(second.start, [worker.id]);
}

#[test]
fn a_head_that_failed_for_good_ends_the_action_whatever_the_workers() {
    let (cluster, no_one_leaves) = (with_head(1), HashSet::new());
    let (head, worker) = (head(), sample::node(1));
    let retry_state = RetryState {
        given_up: HashMap::from([(head.id, "port in use".to_owned())]),
        ..RetryState::default()
    };
    let world = observed([(head.id, Observation::Absent), (worker.id, Observation::Absent)]);
    let plan = plan(input(&cluster, &no_one_leaves), &[head, worker], &world, &retry_state, NOW);
    assert_eq!(plan.verdict, MemberVerdict::Unreachable(vec!["node-0: port in use".to_owned()]));
}

#[rstest]
#[case(false, true)]
#[case(true, false)]
fn workers_of_an_old_head_are_replaced_where_they_cannot_rejoin(
    #[case] outlive: bool,
    #[case] stopped: bool,
) {
    let (mut cluster, no_one_leaves) = (with_head(1), HashSet::new());
    cluster.incarnation = 2;
    let (head, worker) = (Node { incarnation: 2, ..head() }, sample::node(1));
    let world = observed([(head.id, running(&head)), (worker.id, running(&worker))]);
    let input = Input { workers_outlive_head: outlive, ..input(&cluster, &no_one_leaves) };
    let plan = plan(input, &[head, worker.clone()], &world, &RetryState::default(), NOW);
    assert_eq!(plan.stop.contains(&worker.id), stopped);
}

#[test]
fn observing_starts_nothing() {
    let (cluster, no_one_leaves, node) = (sample::cluster(2, 0, None), HashSet::new(), sample::node(1));
    let world = observed([(node.id, exited())]);
    let observe = Input { start: false, ..input(&cluster, &no_one_leaves) };
    let plan = plan(observe, std::slice::from_ref(&node), &world, &RetryState::default(), NOW);
    assert_eq!(plan.down, [(node.id, "exit status 1".to_owned())]);
    assert_eq!((plan.start, plan.add, plan.verdict), (vec![], BTreeMap::new(), MemberVerdict::Reached));
}

#[test]
fn a_node_that_was_stopped_and_is_still_there_is_stopped_again_only_after_a_pause() {
    let (cluster, node) = (sample::cluster(0, 0, None), sample::node(1));
    let leaving = HashSet::from([node.id]);
    let world = observed([(node.id, running(&node))]);
    let moment = NOW.after(muster_core::time::TimeSpan::from_secs(1));
    let retry_state =
        RetryState { not_stopped_before: HashMap::from([(node.id, moment)]), ..RetryState::default() };
    let at = |now| plan(input(&cluster, &leaving), std::slice::from_ref(&node), &world, &retry_state, now);
    assert_eq!((at(NOW).stop, at(NOW).verdict), (vec![], MemberVerdict::Wait(Some(moment))));
    assert_eq!(at(moment).stop, [node.id]);
}

#[test]
fn a_node_that_was_stopped_to_be_replaced_is_started_at_once() {
    let (cluster, no_one_leaves, node) = (sample::cluster(1, 0, None), HashSet::new(), sample::node(1));
    let world = observed([(node.id, Observation::Absent)]);
    let moment = NOW.after(muster_core::time::TimeSpan::from_secs(1));
    let retry_state =
        RetryState { not_stopped_before: HashMap::from([(node.id, moment)]), ..RetryState::default() };
    let plan = plan(input(&cluster, &no_one_leaves), std::slice::from_ref(&node), &world, &retry_state, NOW);
    assert_eq!(plan.start, [node.id]);
}

#[test]
fn a_recreated_member_is_stopped_only_while_it_is_the_old_instance() {
    let (cluster, no_one_leaves, node) = (sample::cluster(1, 0, None), HashSet::new(), sample::node(1));
    let recreate = HashMap::from([(node.id, "old".to_owned())]);
    let input = Input { recreate: &recreate, ..input(&cluster, &no_one_leaves) };
    for (physical_id, stopped) in [("old", true), ("new", false)] {
        let world = observed([(node.id, Observation::Running { physical_id: physical_id.to_owned() })]);
        let plan = plan(input, std::slice::from_ref(&node), &world, &RetryState::default(), NOW);
        assert_eq!(plan.stop.contains(&node.id), stopped, "{physical_id}");
    }
}

#[test]
fn where_one_node_is_meant_the_others_are_left_alone() {
    let (cluster, no_one_leaves) = (sample::cluster(5, 0, None), HashSet::new());
    let nodes = [sample::node(1), sample::node(2)];
    let world = observed([(nodes[0].id, exited()), (nodes[1].id, exited())]);
    let input = Input { only: Some(nodes[1].id), ..input(&cluster, &no_one_leaves) };
    let plan = plan(input, &nodes, &world, &RetryState::default(), NOW);
    assert_eq!((plan.start, plan.add), (vec![nodes[1].id], BTreeMap::new()));
}

#[test]
fn one_worker_without_a_head_cannot_be_brought_back() {
    let (cluster, no_one_leaves, worker) = (with_head(1), HashSet::new(), sample::node(1));
    let nodes = [head(), worker.clone()];
    let world = observed([(nodes[0].id, exited()), (worker.id, exited())]);
    let input = Input { only: Some(worker.id), ..input(&cluster, &no_one_leaves) };
    let plan = plan(input, &nodes, &world, &RetryState::default(), NOW);
    let words = format!("{}: the head is not running", worker.name);
    assert_eq!(plan.verdict, MemberVerdict::Unreachable(vec![words]));
}

#[rstest]
#[case(Observation::Absent)]
#[case(exited())]
#[case(Observation::Starting { physical_id: None })]
#[case(Observation::Unknown { reason: String::new() })]
#[case(Observation::Running { physical_id: "p1".to_owned() })]
fn a_node_of_an_unknown_role_is_left_alone(#[case] world: Observation, #[values(false, true)] leaving: bool) {
    let cluster = Cluster { incarnation: 2, ..sample::cluster(0, 0, None) };
    let node = Node { role: NodeRole::from_stored("gateway"), ..sample::node(1) };
    let leaving: HashSet<NodeId> = leaving.then_some(node.id).into_iter().collect();
    let world = observed([(node.id, world)]);
    let nodes = std::slice::from_ref(&node);
    let untouched = Plan { verdict: MemberVerdict::Reached, ..Plan::default() };
    assert_eq!(plan(input(&cluster, &leaving), nodes, &world, &RetryState::default(), NOW), untouched);
    let why = format!("{}: this version does not know the role 'gateway'", node.name);
    let unreachable = Plan { verdict: MemberVerdict::Unreachable(vec![why]), ..Plan::default() };
    let alone = Input { only: Some(node.id), ..input(&cluster, &leaving) };
    assert_eq!(plan(alone, nodes, &world, &RetryState::default(), NOW), unreachable);
}
