use rstest::rstest;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_000_000);
const CALLED: Fence = Fence(7);

fn goal(write: Write) -> WriteGoal {
    WriteGoal { write, complete: WaitScope::All, has_head: true, ..WriteGoal::observing(WaitScope::All) }
}

/// A goal that sets the size of group `default`.
fn sized(desired: u32) -> WriteGoal {
    let sizes = GroupSizes { group: "default".to_owned(), desired: Some(desired), ..GroupSizes::default() };
    let wanted = vec![sizes];
    WriteGoal { wanted, complete: WaitScope::Groups(vec!["default".to_owned()]), ..goal(Write::Update) }
}

fn object(desired: u32, fence: i64) -> ObjectSpec {
    let bounds = Some(Bounds { min: 0, max: None });
    let group = ObservedGroup {
        name: "default".to_owned(),
        desired,
        bounds,
        floor_differs: false,
        autoscaled: false,
        template: None,
    };
    ObjectSpec { identity: "o".to_owned(), fence: Fence(fence), groups: vec![group], ..ObjectSpec::default() }
}

fn member(name: &str, role: NodeRole) -> ObservedMember {
    ObservedMember {
        id: MemberId { identity: name.to_owned(), uid: name.to_owned() },
        name: name.to_owned(),
        role,
        group: (role == NodeRole::Worker).then(|| "default".to_owned()),
        observation: Observation::Running { physical_id: name.to_owned() },
        reason: String::new(),
        leaving: false,
        outdated: false,
        created_at: None,
    }
}

/// A head and a number of workers.
fn members(workers: u32) -> Vec<ObservedMember> {
    let worker = |number| member(&format!("w{number}"), NodeRole::Worker);
    std::iter::once(member("h", NodeRole::Head)).chain((0..workers).map(worker)).collect()
}

fn observed(object: ObjectState, members: Vec<ObservedMember>) -> Observed {
    Observed { members, object, ..Observed::default() }
}

fn there(spec: ObjectSpec, members: Vec<ObservedMember>) -> Observed {
    observed(ObjectState::Present(spec), members)
}

fn fresh() -> WriteProgress {
    WriteProgress::default()
}

/// The progress of a write that was recorded, and perhaps acknowledged.
fn called(acknowledged: bool) -> WriteProgress {
    WriteProgress { called: Some(CALLED), acknowledged, ..fresh() }
}

fn words(verdict: &ObjectVerdict) -> String {
    match verdict {
        ObjectVerdict::Wait(_, why) | ObjectVerdict::Unreachable(why) => why.join("; "),
        _ => String::new(),
    }
}

#[rstest]
#[case(Write::Nothing)]
#[case(Write::Create)]
#[case(Write::Update)]
#[case(Write::RestartHead)]
#[case(Write::Delete)]
fn unknown_stops_everything(#[case] write: Write) {
    let verdict = plan(&goal(write), &observed(ObjectState::Unknown, Vec::new()), &fresh(), NOW);
    assert!(matches!(verdict, ObjectVerdict::Wait(..)), "{verdict:?}");
}

#[rstest]
#[case::missing(ObjectState::Absent, fresh(), ObjectVerdict::Call)]
#[case::created_by_a_dead_engine(
    ObjectState::Present(object(0, 7)),
    called(false),
    ObjectVerdict::Acknowledged
)]
#[case::created_in_part_by_a_dead_engine(ObjectState::Present(ObjectSpec { unfinished: true, ..object(0, 7) }), called(false), ObjectVerdict::Call)]
#[case::complete(ObjectState::Present(object(0, 7)), called(true), ObjectVerdict::Reached)]
fn an_object_is_made_once(
    #[case] object: ObjectState,
    #[case] progress: WriteProgress,
    #[case] verdict: ObjectVerdict,
) {
    assert_eq!(plan(&goal(Write::Create), &observed(object, members(0)), &progress, NOW), verdict);
}

#[rstest]
#[case::made(Write::Create, called(true))]
#[case::resized(Write::Update, fresh())]
#[case::restarted(Write::RestartHead, fresh())]
#[case::recovered(Write::Nothing, fresh())]
fn objects_deleted_elsewhere_are_not_recreated(#[case] write: Write, #[case] progress: WriteProgress) {
    let verdict = plan(&goal(write), &observed(ObjectState::Absent, Vec::new()), &progress, NOW);
    assert_eq!(verdict, ObjectVerdict::Unreachable(vec!["the cluster was deleted elsewhere".to_owned()]));
}

#[rstest]
#[case::to_write(3, 0, fresh(), ObjectVerdict::Call)]
#[case::holds_it_already(5, 0, fresh(), ObjectVerdict::Acknowledged)]
#[case::written_by_a_dead_engine(5, 7, called(false), ObjectVerdict::Acknowledged)]
#[case::never_written_by_a_dead_engine(3, 6, called(false), ObjectVerdict::Call)]
#[case::written_by_a_dead_engine_and_changed_since(4, 7, called(false), ObjectVerdict::Acknowledged)]
#[case::acknowledged_and_lost(3, 6, called(true), ObjectVerdict::Call)]
#[case::reached(5, 7, called(true), ObjectVerdict::Reached)]
fn sizes_are_written_once(
    #[case] holds: u32,
    #[case] fence: i64,
    #[case] progress: WriteProgress,
    #[case] verdict: ObjectVerdict,
) {
    assert_eq!(plan(&sized(5), &there(object(holds, fence), members(5)), &progress, NOW), verdict);
}

#[test]
fn a_size_changed_elsewhere_after_the_write_is_not_overwritten() {
    let verdict = plan(&sized(5), &there(object(2, 7), members(2)), &called(true), NOW);
    assert!(matches!(verdict, ObjectVerdict::Unreachable(_)));
    assert_eq!(words(&verdict), "changed elsewhere: group 'default' now has desired size 2, min 0, no max");
}

#[test]
fn a_write_that_keeps_getting_lost_waits_for_its_moment() {
    let later = NOW.after(muster_core::time::TimeSpan::from_secs(1));
    let progress = WriteProgress { not_before: Some(later), ..called(true) };
    let world = there(object(3, 0), members(3));
    assert_eq!(plan(&sized(5), &world, &progress, NOW), ObjectVerdict::Wait(Some(later), Vec::new()));
    assert_eq!(plan(&sized(5), &world, &progress, later), ObjectVerdict::Call);
}

#[test]
fn an_autoscaler_is_not_fought_but_its_bounds_are_written() {
    let mut spec = object(3, 0);
    spec.groups[0].autoscaled = true;
    let refused = plan(&sized(5), &there(spec.clone(), members(3)), &fresh(), NOW);
    assert_eq!(
        words(&refused),
        "group 'default' is scaled by its autoscaler: change its bounds, not its size"
    );
    let mut bounds = sized(0);
    bounds.wanted[0] = GroupSizes {
        desired: None,
        bounds: Some(Bounds { min: 1, max: Some(9) }),
        ..bounds.wanted[0].clone()
    };
    assert_eq!(plan(&bounds, &there(spec, members(3)), &fresh(), NOW), ObjectVerdict::Call);
}

#[test]
fn bounds_that_the_object_does_not_know_are_only_the_rows() {
    let mut spec = object(3, 0);
    spec.groups[0].bounds = None;
    let mut bounds = sized(3);
    bounds.wanted[0].bounds = Some(Bounds { min: 1, max: Some(9) });
    assert_eq!(plan(&bounds, &there(spec, members(3)), &fresh(), NOW), ObjectVerdict::Acknowledged);
}

#[test]
fn a_group_that_is_not_there_cannot_be_sized() {
    let verdict = plan(&sized(5), &there(ObjectSpec::default(), Vec::new()), &fresh(), NOW);
    assert_eq!(words(&verdict), "group 'default' no longer exists");
}

#[rstest]
#[case::too_few(members(4), "group 'default': 4 of 5 workers work")]
#[case::too_many(members(6), "group 'default': 6 workers instead of 5")]
fn the_number_of_workers_is_counted(#[case] members: Vec<ObservedMember>, #[case] why: &str) {
    let verdict = plan(&sized(5), &there(object(5, 7), members), &called(true), NOW);
    assert!(matches!(verdict, ObjectVerdict::Wait(None, _)));
    assert_eq!(words(&verdict), why);
}

#[test]
fn workers_that_do_not_work_say_why() {
    let mut present = members(5);
    present[2].observation = Observation::Starting { physical_id: None };
    present[2].reason = "unschedulable: 0/3 nodes have 8 cpus".to_owned();
    present[3].observation = Observation::Exited { reason: "exit status 137".to_owned() };
    let verdict = plan(&sized(5), &there(object(5, 7), present), &called(true), NOW);
    assert_eq!(
        words(&verdict),
        "group 'default': 3 of 5 workers work (w1: unschedulable: 0/3 nodes have 8 cpus; w2: exit status 137)"
    );
}

#[test]
fn a_worker_on_its_way_out_is_waited_for() {
    let mut present = members(6);
    present[3].leaving = true;
    let verdict = plan(&sized(5), &there(object(5, 7), present), &called(true), NOW);
    assert_eq!(words(&verdict), "group 'default': 1 workers are being removed");
}

#[test]
fn what_an_operator_refuses_ends_it_with_its_words() {
    let spec =
        ObjectSpec { refused: vec!["minReplicas 9 is more than maxReplicas 3".to_owned()], ..object(5, 7) };
    let verdict = plan(&sized(5), &there(spec, members(2)), &called(true), NOW);
    assert_eq!(
        verdict,
        ObjectVerdict::Unreachable(vec!["minReplicas 9 is more than maxReplicas 3".to_owned()])
    );
}

#[test]
fn a_resize_does_not_wait_for_the_head_or_other_groups() {
    let mut spec = object(5, 7);
    spec.groups.push(ObservedGroup { name: "gpu".to_owned(), desired: 3, ..spec.groups[0].clone() });
    let workers = members(5).split_off(1);
    assert_eq!(plan(&sized(5), &there(spec, workers), &called(true), NOW), ObjectVerdict::Reached);
}

#[test]
fn a_changed_recipe_is_reached_when_the_object_holds_it_unless_its_operator_rolls() {
    let recipe = WriteGoal { recipe: true, complete: WaitScope::Groups(Vec::new()), ..goal(Write::Update) };
    let mut present = members(2);
    present[1].outdated = true;
    let world = |fence| there(object(2, fence), present.clone());
    assert_eq!(plan(&recipe, &world(0), &fresh(), NOW), ObjectVerdict::Call);
    assert_eq!(plan(&recipe, &world(7), &called(true), NOW), ObjectVerdict::Reached);
    let rolled = WriteGoal { rolled: true, ..recipe };
    assert_eq!(words(&plan(&rolled, &world(7), &called(true), NOW)), "not replaced yet: w0");
    let verdict = plan(&rolled, &there(object(2, 7), members(2)), &called(true), NOW);
    assert_eq!(verdict, ObjectVerdict::Reached);
    let without_head: Vec<ObservedMember> =
        members(2).into_iter().filter(|m| m.role != NodeRole::Head).collect();
    let world = there(object(2, 7), without_head);
    assert_eq!(
        plan(&rolled, &world, &called(true), NOW),
        ObjectVerdict::Reached,
        "the head is not concerned"
    );
    let head = WriteGoal { head: true, ..rolled };
    assert_eq!(words(&plan(&head, &world, &called(true), NOW)), "the head does not exist yet");
}

/// Two workers of three are replaced, and the object was written.
fn replacing() -> (WriteGoal, WriteProgress) {
    let replaced = ["w0", "w1"].map(|name| member(name, NodeRole::Worker).id).into();
    let goal = WriteGoal { replaced, ..sized(3) };
    (goal, WriteProgress { called: Some(CALLED), acknowledged: true, ..fresh() })
}

#[test]
fn workers_are_replaced_one_after_the_other_while_all_others_work() {
    let (goal, mut progress) = replacing();
    let id = |name| member(name, NodeRole::Worker).id;
    let of = |members: Vec<ObservedMember>, progress: &WriteProgress| {
        plan(&goal, &there(object(3, 7), members), progress, NOW)
    };
    assert_eq!(of(members(3), &progress), ObjectVerdict::Replace(id("w0")));
    let again = Timestamp::from_micros(2_000_000);
    progress.replacing = Some((id("w0"), again));
    assert!(matches!(of(members(3), &progress), ObjectVerdict::Wait(Some(at), _) if at == again));
    let mut leaves = members(3);
    leaves[1].leaving = true;
    assert!(matches!(of(leaves, &progress), ObjectVerdict::Wait(None, _)));
    let gone: Vec<ObservedMember> = members(3).into_iter().filter(|member| member.name != "w0").collect();
    assert!(
        matches!(of(gone.clone(), &progress), ObjectVerdict::Wait(None, _)),
        "its replacement is not there"
    );
    let mut next = gone;
    next.push(member("w3", NodeRole::Worker));
    assert_eq!(of(next.clone(), &progress), ObjectVerdict::Replace(id("w1")));
    next.retain(|member| member.name != "w1");
    next.push(member("w4", NodeRole::Worker));
    assert_eq!(of(next, &progress), ObjectVerdict::Reached);
}

#[test]
fn a_worker_that_does_not_work_is_replaced_before_the_others_are_complete() {
    let (goal, progress) = replacing();
    let mut observed = members(3);
    let broken = observed.iter_mut().find(|member| member.name == "w1").expect("a worker");
    broken.observation = Observation::Starting { physical_id: None };
    let of = |members: Vec<ObservedMember>| plan(&goal, &there(object(3, 7), members), &progress, NOW);
    assert_eq!(of(observed.clone()), ObjectVerdict::Replace(member("w1", NodeRole::Worker).id));
    let unknown = observed.iter_mut().find(|member| member.name == "w1").expect("a worker");
    unknown.observation = Observation::Unknown { reason: "nothing answers".to_owned() };
    assert!(matches!(of(observed), ObjectVerdict::Wait(None, _)), "unknown is not broken");
}

fn restart() -> WriteGoal {
    WriteGoal { old: HashSet::from([member("h", NodeRole::Head).id]), ..goal(Write::RestartHead) }
}

#[test]
fn a_head_is_replaced_once_and_waited_for() {
    let world = |members| there(object(1, 0), members);
    assert_eq!(plan(&restart(), &world(members(1)), &fresh(), NOW), ObjectVerdict::Call);
    let mut going = members(1);
    going[0].leaving = true;
    assert_eq!(plan(&restart(), &world(going.clone()), &called(false), NOW), ObjectVerdict::Acknowledged);
    let verdict = plan(&restart(), &world(going), &called(true), NOW);
    assert_eq!(words(&verdict), "the head does not exist yet; not replaced yet: h");
    let mut replaced = members(1);
    replaced[0].id.uid = "h2".to_owned();
    assert_eq!(plan(&restart(), &world(replaced), &called(true), NOW), ObjectVerdict::Reached);
}

#[test]
fn a_missing_head_is_asked_for_once() {
    let recover = goal(Write::RestartHead);
    let world = there(object(1, 0), members(1).split_off(1));
    assert_eq!(plan(&recover, &world, &fresh(), NOW), ObjectVerdict::Call);
    assert!(matches!(plan(&recover, &world, &called(true), NOW), ObjectVerdict::Wait(..)));
    assert_eq!(plan(&recover, &there(object(1, 0), members(1)), &fresh(), NOW), ObjectVerdict::Acknowledged);
}

#[rstest]
#[case::there(there(object(1, 0), members(1)), fresh(), ObjectVerdict::Call)]
#[case::gone(observed(ObjectState::Absent, Vec::new()), fresh(), ObjectVerdict::Reached)]
#[case::acknowledged_and_lost(there(object(1, 0), members(1)), called(true), ObjectVerdict::Call)]
#[case::requested_by_a_dead_engine(there(ObjectSpec { leaving: true, ..object(1, 0) }, members(1)), called(false), ObjectVerdict::Acknowledged)]
fn a_deletion_is_requested_once(
    #[case] world: Observed,
    #[case] progress: WriteProgress,
    #[case] verdict: ObjectVerdict,
) {
    assert_eq!(plan(&goal(Write::Delete), &world, &progress, NOW), verdict);
}

#[test]
fn a_deletion_waits_for_the_object_and_its_members() {
    let spec =
        ObjectSpec { leaving: true, pending: vec!["finalizer 'x' is not done".to_owned()], ..object(1, 0) };
    let verdict = plan(&goal(Write::Delete), &there(spec, members(1)), &called(true), NOW);
    assert_eq!(words(&verdict), "the object still exists; finalizer 'x' is not done");
    let verdict = plan(&goal(Write::Delete), &observed(ObjectState::Absent, members(0)), &called(true), NOW);
    assert_eq!(words(&verdict), "h still exists");
}

#[test]
fn nothing_is_changed_about_what_others_are_deleting() {
    let verdict =
        plan(&sized(5), &there(ObjectSpec { leaving: true, ..object(3, 0) }, members(3)), &fresh(), NOW);
    assert_eq!(words(&verdict), "the cluster is being deleted elsewhere");
}

#[test]
fn an_observation_ends_whatever_is_observed() {
    let look = WriteGoal::observing(WaitScope::Groups(Vec::new()));
    assert_eq!(plan(&look, &there(object(5, 0), members(0)), &fresh(), NOW), ObjectVerdict::Reached);
    assert_eq!(
        plan(&look, &observed(ObjectState::Absent, Vec::new()), &fresh(), NOW),
        ObjectVerdict::Reached
    );
}

#[test]
fn a_cluster_that_was_never_created_is_reported_as_such() {
    let unmade = WriteGoal { unmade: true, ..sized(5) };
    let verdict = plan(&unmade, &observed(ObjectState::Absent, Vec::new()), &fresh(), NOW);
    assert!(words(&verdict).starts_with("it does not exist, because"), "{verdict:?}");
    let made = WriteGoal { unmade: true, ..goal(Write::Create) };
    let verdict = plan(&made, &observed(ObjectState::Absent, Vec::new()), &called(true), NOW);
    assert_eq!(words(&verdict), "the cluster was deleted elsewhere", "it was there");
}

#[rstest]
#[case::scaled(sized(3))]
#[case::restarted_or_recovered(goal(Write::RestartHead))]
fn parts_deleted_elsewhere_are_recreated_by_the_next_change(#[case] goal: WriteGoal) {
    let spec = ObjectSpec { missing: vec!["Service 'fred' (its address)".to_owned()], ..object(3, 7) };
    let verdict = plan(&goal, &there(spec.clone(), members(3)), &fresh(), NOW);
    assert_eq!(verdict, ObjectVerdict::Call);
    assert_eq!(plan(&goal, &there(spec.clone(), members(3)), &called(true), NOW), ObjectVerdict::Reached);
    let message = obstacles(true, &spec, &members(3)).join("; ");
    assert!(message.starts_with("Service 'fred' (its address) was deleted: recover"), "{message}");
    let observing = WriteGoal::observing(WaitScope::Groups(Vec::new()));
    assert_eq!(
        plan(&observing, &there(spec, members(3)), &fresh(), NOW),
        ObjectVerdict::Reached,
        "observing creates nothing"
    );
}
