use muster_core::action::Fence;
use muster_core::sample;
use rstest::rstest;

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_000_000);

fn cluster(desired: u32) -> Cluster {
    let mut cluster = Cluster { has_head: true, ..sample::cluster(desired, 0, None) };
    cluster.observed.object = Some("o".to_owned());
    cluster.observed.fence = Fence(5);
    cluster
}

fn spec(desired: u32) -> Spec {
    let bounds = Some(Bounds { min: 0, max: None });
    let group = SeenGroup { name: "default".to_owned(), desired, bounds, autoscaled: false, made: None };
    Spec { identity: "o".to_owned(), fence: Fence(5), groups: vec![group], ..Spec::default() }
}

fn member(name: &str) -> SeenMember {
    SeenMember {
        id: MemberId { identity: name.to_owned(), uid: format!("{name}-1") },
        name: name.to_owned(),
        role: NodeRole::Worker,
        group: Some("default".to_owned()),
        seen: Seen::Running { physical_id: format!("demo/{name}") },
        reason: String::new(),
        leaving: false,
        outdated: false,
    }
}

fn head(name: &str) -> SeenMember {
    SeenMember { role: NodeRole::Head, group: None, ..member(name) }
}

fn placeholder(index: u32) -> Node {
    sample::node(index)
}

/// A node that stands for a member that works.
fn bound(index: u32, name: &str) -> Node {
    let mut node = sample::node(index);
    take(&mut node, &member(name), NOW);
    node
}

fn bound_head(name: &str) -> Node {
    let mut node = Node { role: NodeRole::Head, group: None, index: 0, ..sample::node(0) };
    take(&mut node, &head(name), NOW);
    node
}

fn look(cluster: &Cluster, nodes: &[Node], members: Vec<SeenMember>, spec: &Spec) -> Mirror {
    let seen = Observed { members, ..Observed::default() };
    mirror(cluster, nodes, &seen, Some(spec), |_| false, NOW)
}

fn lost(mirror: &Mirror) -> Vec<&str> {
    let lost = mirror.told.iter().filter_map(|told| match told {
        Told::Lost(node) => Some(node.name.as_str()),
        Told::ChangedElsewhere(_) | Told::External(..) => None,
    });
    lost.collect()
}

#[test]
fn an_equal_observation_changes_nothing() {
    let nodes = [bound_head("h"), bound(1, "a")];
    let mut cluster = cluster(1);
    cluster.observed.ready_workers = Some(1);
    cluster.observed.head_ready = Some(true);
    let mirror = look(&cluster, &nodes, vec![head("h"), member("a")], &spec(1));
    assert!(mirror.is_same_as(&cluster), "{mirror:?}");
}

#[test]
fn members_get_rows_when_they_are_seen() {
    let mirror = look(&cluster(2), &[], vec![head("h"), member("b"), member("a")], &spec(2));
    let rows: Vec<_> =
        mirror.new.iter().map(|node| (node.name.as_str(), node.role, node.index, node.status)).collect();
    assert_eq!(
        rows,
        [
            ("h", NodeRole::Head, 0, NodeStatus::Active),
            ("a", NodeRole::Worker, 1, NodeStatus::Active),
            ("b", NodeRole::Worker, 2, NodeStatus::Active)
        ]
    );
    assert_eq!(mirror.new[1].physical_id.as_deref(), Some("demo/a"));
    assert_eq!((mirror.cluster.next_index, mirror.cluster.observed.ready_workers), (3, Some(2)));
}

#[test]
fn a_placeholder_keeps_its_id_and_becomes_the_first_new_member_of_its_group() {
    let other = Node { group: Some("gpu".to_owned()), ..placeholder(1) };
    let nodes = [other, placeholder(3), placeholder(2)];
    let mut spec = spec(2);
    spec.groups.push(SeenGroup { name: "gpu".to_owned(), desired: 1, ..spec.groups[0].clone() });
    let mirror = look(&cluster(2), &nodes, vec![member("b"), member("a")], &spec);
    let names: Vec<_> = mirror.changed.iter().map(|node| (node.index, node.name.as_str())).collect();
    assert_eq!(names, [(2, "a"), (3, "b")]);
    assert!(mirror.new.is_empty() && mirror.gone.is_empty());
    assert_eq!(mirror.changed[0].id, nodes[2].id);
}

#[test]
fn placeholders_never_stand_for_more_than_is_asked_for() {
    let nodes = [bound(1, "a"), placeholder(2), placeholder(3)];
    let mirror = look(&cluster(3), &nodes, vec![member("a")], &spec(2));
    assert_eq!(mirror.gone, [nodes[2].id]);
}

#[test]
fn a_member_that_is_not_listed_loses_its_row_with_an_event() {
    let nodes = [bound(1, "a"), bound(2, "b")];
    let mirror = look(&cluster(2), &nodes, vec![member("b")], &spec(2));
    assert_eq!((mirror.gone.as_slice(), lost(&mirror)), ([nodes[0].id].as_slice(), vec!["a"]));
}

#[test]
fn surplus_members_are_removed_without_an_event() {
    let nodes = [bound(1, "a"), bound(2, "b"), bound(3, "c")];
    let mirror = look(&cluster(1), &nodes, vec![member("b")], &spec(1));
    assert_eq!((mirror.gone.len(), lost(&mirror)), (2, Vec::<&str>::new()));
}

#[test]
fn replaced_members_are_removed_without_an_event() {
    let nodes = [bound_head("h"), bound(1, "a")];
    let seen = Observed { members: vec![head("h2")], ..Observed::default() };
    let mirror = mirror(&cluster(1), &nodes, &seen, Some(&spec(1)), |_| true, NOW);
    assert!(mirror.told.is_empty(), "{:?}", mirror.told);
}

#[rstest]
#[case::starting(Seen::Starting { physical_id: None }, NodeStatus::Recovering, false)]
#[case::ended(Seen::Exited { reason: "exit status 1".to_owned() }, NodeStatus::Error, true)]
#[case::unknown(Seen::Unknown { reason: "?".to_owned() }, NodeStatus::Active, false)]
fn a_node_is_as_its_member_is_seen(#[case] seen: Seen, #[case] status: NodeStatus, #[case] told: bool) {
    let nodes = [bound(1, "a")];
    let mirror = look(&cluster(1), &nodes, vec![SeenMember { seen, ..member("a") }], &spec(1));
    assert_eq!(mirror.nodes(&nodes)[0].status, status);
    assert_eq!(!lost(&mirror).is_empty(), told);
}

#[test]
fn a_member_being_removed_is_lost_once_unless_it_is_surplus() {
    let nodes = [bound(1, "a")];
    let leaving = SeenMember { leaving: true, ..member("a") };
    let first = look(&cluster(1), &nodes, vec![leaving.clone()], &spec(1));
    assert_eq!((first.changed[0].status, lost(&first)), (NodeStatus::Deleting, vec!["a"]));
    let second = look(&cluster(1), &first.changed, Vec::new(), &spec(1));
    assert_eq!((second.gone.len(), lost(&second)), (1, Vec::<&str>::new()));
    let asked = look(&cluster(0), &nodes, vec![leaving], &spec(0));
    assert_eq!(lost(&asked), Vec::<&str>::new());
}

#[test]
fn a_member_that_is_first_seen_on_its_way_out_gets_no_row() {
    let mirror = look(&cluster(0), &[], vec![SeenMember { leaving: true, ..member("a") }], &spec(0));
    assert!(mirror.new.is_empty());
}

#[test]
fn the_head_keeps_its_id_when_its_operator_makes_another() {
    let nodes = [bound_head("h")];
    let gone = look(&cluster(0), &nodes, Vec::new(), &spec(0));
    assert_eq!((gone.gone.len(), gone.changed[0].status), (0, NodeStatus::Recovering));
    assert_eq!(lost(&gone), ["h"]);
    let going = SeenMember { leaving: true, ..head("h") };
    let back = look(&cluster(0), &gone.changed, vec![going, head("h2")], &spec(0));
    let row = &back.changed[0];
    assert_eq!((row.id, row.name.as_str(), row.status), (nodes[0].id, "h2", NodeStatus::Active));
    assert!(back.new.is_empty());
}

#[test]
fn a_recreated_member_in_the_same_place_is_the_same_node() {
    let nodes = [bound(1, "a")];
    let mut again = member("a");
    again.id.uid = "a-2".to_owned();
    let mirror = look(&cluster(1), &nodes, vec![again], &spec(1));
    assert_eq!((mirror.changed.len(), mirror.new.len(), mirror.gone.len()), (1, 0, 0));
    assert_eq!(MemberId::of(&mirror.changed[0]).map(|member| member.uid).as_deref(), Some("a-2"));
}

#[test]
fn sizes_and_bounds_changed_elsewhere_are_mirrored_with_an_event() {
    let mut spec = spec(4);
    spec.groups[0].bounds = Some(Bounds { min: 1, max: Some(8) });
    let before = cluster(2);
    let mirror = look(&before, &[], Vec::new(), &spec);
    let group = &mirror.cluster.groups[0];
    assert_eq!((group.desired, group.min, group.max), (4, 1, Some(8)));
    assert_eq!(mirror.cluster.generation, before.generation + 1);
    let words = "group 'default' shall have 4 workers, not 2; group 'default' has the bounds 1 to 8, not 0 to any number";
    assert_eq!(mirror.told, [Told::ChangedElsewhere(words.to_owned())]);
}

#[rstest]
#[case::by_others(
    Fence(5),
    Some(
        "group 'default' is made from image b:2, not a:1; workers of group 'default' have cpu 2, not cpu 1"
    )
)]
#[case::by_ourselves(Fence(6), None)]
fn templates_changed_elsewhere_are_mirrored(#[case] fence: Fence, #[case] told: Option<&str>) {
    let made = |image: &str, cpu: &str| {
        let shape = Shape { cpu: cpu.parse().ok(), ..Shape::default() };
        Some(Made { image: image.to_owned(), shape, ..Made::default() })
    };
    let with = |fence, made| {
        let mut spec = Spec { fence, ..spec(2) };
        spec.groups[0].made = made;
        spec
    };
    let first = look(&cluster(2), &[], Vec::new(), &with(Fence(5), made("a:1", "1")));
    assert_eq!(first.told, [], "a first observation is not a change");
    assert_eq!(first.cluster.groups, cluster(2).groups);
    let changed = look(&first.cluster, &[], Vec::new(), &with(fence, made("b:2", "2")));
    let words: Vec<Told> = told.map(|told| Told::ChangedElsewhere(told.to_owned())).into_iter().collect();
    assert_eq!(changed.told, words);
    let group = &changed.cluster.groups[0];
    let image = NodeRecipe::kept(group).image;
    assert_eq!((image.as_deref(), group.shape.cpu), (told.map(|_| "b:2"), told.and("2".parse().ok())));
}

#[test]
fn an_unrecorded_write_of_muster_is_not_an_external_change() {
    let mirror = look(&cluster(2), &[], Vec::new(), &Spec { fence: Fence(6), ..spec(4) });
    assert_eq!((mirror.cluster.desired(), mirror.told.as_slice()), (4, [].as_slice()));
    assert_eq!(mirror.cluster.observed.fence, Fence(6));
}

#[test]
fn bounds_that_the_object_does_not_know_stay() {
    let mut cluster = cluster(2);
    cluster.groups[0].max = Some(9);
    let mut spec = spec(2);
    spec.groups[0].bounds = None;
    let mirror = look(&cluster, &[], Vec::new(), &spec);
    assert_eq!((mirror.cluster.groups[0].max, mirror.told.len()), (Some(9), 0));
}

#[test]
fn groups_come_and_go_as_the_object_says() {
    let mut spec = spec(1);
    spec.groups[0].name = "gpu".to_owned();
    let mirror = look(&cluster(2), &[placeholder(1)], Vec::new(), &spec);
    let names: Vec<_> = mirror.cluster.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!((names, mirror.gone.len()), (vec!["gpu"], 1));
    assert_eq!(mirror.told.len(), 1);
}

#[test]
fn external_events_are_imported_once_for_their_nodes() {
    let cluster = sample::cluster(1, 0, None);
    let heard = |version: u64, object: &str| ExternalEvent {
        id: uuid::Uuid::from_u128(version.into()),
        version,
        kind: "Pod".to_owned(),
        object: object.to_owned(),
        reason: "FailedScheduling".to_owned(),
        message: "0/3 nodes are available".to_owned(),
        is_warning: true,
        at: NOW,
    };
    let told = |cluster: &Cluster, heard: Vec<ExternalEvent>| {
        let seen = Observed { external_events: heard, ..Observed::default() };
        mirror(cluster, &[], &seen, None, |_| false, NOW)
    };
    let first = told(&cluster, vec![heard(7, "a"), heard(9, "b")]);
    let about: Vec<&str> = first
        .told
        .iter()
        .filter_map(|told| match told {
            Told::External(heard, None) => Some(heard.object.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((about, first.cluster.observed.heard), (vec!["a", "b"], 9));
    let again = told(&first.cluster, vec![heard(7, "a"), heard(9, "b"), heard(10, "a")]);
    assert_eq!(again.told.len(), 1, "{:?}", again.told);
}

#[test]
fn an_object_that_is_there_in_part_does_not_say_how_many_there_should_be() {
    let cluster = cluster(3);
    let part = Spec { unfinished: true, groups: Vec::new(), ..spec(0) };
    let mirror = look(&cluster, &[], Vec::new(), &part);
    assert_eq!(mirror.cluster.groups, cluster.groups);
    assert_eq!(mirror.cluster.observed.object, Some(part.identity));
}
