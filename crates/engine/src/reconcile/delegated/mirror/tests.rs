use std::collections::BTreeMap;

use muster_core::action::Fence;
use muster_core::event::ExternalRecord;
use muster_core::principal::Owner;
use muster_core::sample;
use rstest::rstest;

use super::*;
use crate::ports::provider::{ObjectContent, ObjectState};

const NOW: Timestamp = Timestamp::from_micros(1_000_000);

fn cluster(desired: u32) -> Cluster {
    let mut cluster = Cluster { has_head: true, ..sample::cluster(desired, 0, None) };
    cluster.observed.object = Some("o".to_owned());
    cluster.observed.fence = Fence(5);
    cluster
}

fn spec(desired: u32) -> ObjectSpec {
    let bounds = Some(Bounds { min: 0, max: None });
    let group = ObservedGroup {
        name: "default".to_owned(),
        desired,
        bounds,
        floor_differs: false,
        autoscaled: false,
        template: None,
    };
    ObjectSpec { identity: "o".to_owned(), fence: Fence(5), groups: vec![group], ..ObjectSpec::default() }
}

fn member(name: &str) -> ObservedMember {
    ObservedMember {
        id: MemberId { identity: name.to_owned(), uid: format!("{name}-1") },
        name: name.to_owned(),
        role: NodeRole::Worker,
        group: Some("default".to_owned()),
        observation: Observation::Running { physical_id: format!("demo/{name}") },
        reason: String::new(),
        leaving: false,
        outdated: false,
        created_at: None,
    }
}

fn head(name: &str) -> ObservedMember {
    ObservedMember { role: NodeRole::Head, group: None, ..member(name) }
}

fn placeholder(index: u32) -> Node {
    sample::node(index)
}

/// A node that stands for a member that works.
fn bound(index: u32, name: &str) -> Node {
    let mut node = sample::node(index);
    apply_observation(&mut node, &member(name), NOW);
    node
}

fn bound_head(name: &str) -> Node {
    let mut node = Node { role: NodeRole::Head, group: None, index: 0, ..sample::node(0) };
    apply_observation(&mut node, &head(name), NOW);
    node
}

fn look(cluster: &Cluster, nodes: &[Node], members: Vec<ObservedMember>, spec: &ObjectSpec) -> MirroredRows {
    let observed = Observed { members, ..Observed::default() };
    mirror(cluster, nodes, &observed, Some(spec), (None, |_: &Node| false), NOW)
}

fn lost(mirror: &MirroredRows) -> Vec<&str> {
    let lost = mirror.events.iter().filter_map(|events| match events {
        ObservationEvent::Lost(node) => Some(node.name.as_str()),
        ObservationEvent::ChangedElsewhere(_) | ObservationEvent::External(..) => None,
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
    spec.groups.push(ObservedGroup { name: "gpu".to_owned(), desired: 1, ..spec.groups[0].clone() });
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
    let observed = Observed { members: vec![head("h2")], ..Observed::default() };
    let mirror = mirror(&cluster(1), &nodes, &observed, Some(&spec(1)), (None, |_: &Node| true), NOW);
    assert!(mirror.events.is_empty(), "{:?}", mirror.events);
}

#[rstest]
#[case::starting(Observation::Starting { physical_id: None }, NodeStatus::Recovering, false)]
#[case::ended(Observation::Exited { reason: "exit status 1".to_owned() }, NodeStatus::Error, true)]
#[case::unknown(Observation::Unknown { reason: "?".to_owned() }, NodeStatus::Active, false)]
fn a_node_is_as_its_member_is_seen(
    #[case] observed: Observation,
    #[case] status: NodeStatus,
    #[case] events: bool,
) {
    let nodes = [bound(1, "a")];
    let mirror =
        look(&cluster(1), &nodes, vec![ObservedMember { observation: observed, ..member("a") }], &spec(1));
    assert_eq!(mirror.nodes(&nodes)[0].status, status);
    assert_eq!(!lost(&mirror).is_empty(), events);
}

#[test]
fn a_member_being_removed_is_lost_once_unless_it_is_surplus() {
    let nodes = [bound(1, "a")];
    let leaving = ObservedMember { leaving: true, ..member("a") };
    let first = look(&cluster(1), &nodes, vec![leaving.clone()], &spec(1));
    assert_eq!((first.changed[0].status, lost(&first)), (NodeStatus::Deleting, vec!["a"]));
    let second = look(&cluster(1), &first.changed, Vec::new(), &spec(1));
    assert_eq!((second.gone.len(), lost(&second)), (1, Vec::<&str>::new()));
    let asked = look(&cluster(0), &nodes, vec![leaving], &spec(0));
    assert_eq!(lost(&asked), Vec::<&str>::new());
}

#[test]
fn a_member_that_is_first_seen_on_its_way_out_gets_no_row() {
    let mirror = look(&cluster(0), &[], vec![ObservedMember { leaving: true, ..member("a") }], &spec(0));
    assert!(mirror.new.is_empty());
}

#[test]
fn the_head_keeps_its_id_when_its_operator_makes_another() {
    let nodes = [bound_head("h")];
    let gone = look(&cluster(0), &nodes, Vec::new(), &spec(0));
    assert_eq!((gone.gone.len(), gone.changed[0].status), (0, NodeStatus::Recovering));
    assert_eq!(lost(&gone), ["h"]);
    let going = ObservedMember { leaving: true, ..head("h") };
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
    let message = "desired size of group 'default' changed from 2 to 4; bounds of group 'default' changed from min 0, no \
                   max to min 1, max 8";
    assert_eq!(mirror.events, [ObservationEvent::ChangedElsewhere(message.to_owned())]);
}

#[rstest]
#[case::by_others(
    Fence(5),
    None,
    true,
    Some(
        "image of group 'default' changed from a:1 to b:2; workers of group 'default' changed from cpu 1 to cpu 2"
    )
)]
#[case::by_an_action_that_has_ended(Fence(6), None, true, None)]
#[case::by_an_action_that_ended_before_this_one(Fence(6), Some(Fence(7)), true, None)]
#[case::by_this_action_which_records_it(Fence(6), Some(Fence(6)), false, None)]
fn templates_changed_elsewhere_are_mirrored(
    #[case] fence: Fence,
    #[case] called: Option<Fence>,
    #[case] is_mirrored: bool,
    #[case] events: Option<&str>,
) {
    let template = |image: &str, cpu: &str| {
        let shape = Shape { cpu: cpu.parse().ok(), ..Shape::default() };
        Some(WorkerTemplate { image: image.to_owned(), shape, ..WorkerTemplate::default() })
    };
    let with = |fence, template| {
        let mut spec = ObjectSpec { fence, ..spec(2) };
        spec.groups[0].template = template;
        spec
    };
    let first = look(&cluster(2), &[], Vec::new(), &with(Fence(5), template("a:1", "1")));
    assert_eq!(first.events, [], "a first observation is not a change");
    assert_eq!(first.cluster.groups, cluster(2).groups);
    let written = with(fence, template("b:2", "2"));
    let observed = Observed { object: ObjectState::Present(written.clone()), ..Observed::default() };
    let changed = mirror(&first.cluster, &[], &observed, Some(&written), (called, |_: &Node| false), NOW);
    let expected: Vec<ObservationEvent> =
        events.map(|events| ObservationEvent::ChangedElsewhere(events.to_owned())).into_iter().collect();
    assert_eq!(changed.events, expected);
    let group = &changed.cluster.groups[0];
    let image = NodeRecipe::stored_in(group).image;
    let (wanted_image, wanted_cpu) = if is_mirrored { (Some("b:2"), "2".parse().ok()) } else { (None, None) };
    assert_eq!((image.as_deref(), group.shape.cpu), (wanted_image, wanted_cpu));
}

#[test]
fn an_unrecorded_write_of_muster_is_not_an_external_change() {
    let mirror = look(&cluster(2), &[], Vec::new(), &ObjectSpec { fence: Fence(6), ..spec(4) });
    assert_eq!((mirror.cluster.desired(), mirror.events.as_slice()), (4, [].as_slice()));
    assert_eq!(mirror.cluster.observed.fence, Fence(6));
}

#[test]
fn bounds_that_the_object_does_not_know_stay() {
    let mut cluster = cluster(2);
    cluster.groups[0].max = Some(9);
    let mut spec = spec(2);
    spec.groups[0].bounds = None;
    let mirror = look(&cluster, &[], Vec::new(), &spec);
    assert_eq!((mirror.cluster.groups[0].max, mirror.events.len()), (Some(9), 0));
}

#[test]
fn groups_come_and_go_as_the_object_says() {
    let mut spec = spec(1);
    spec.groups[0].name = "gpu".to_owned();
    let mirror = look(&cluster(2), &[placeholder(1)], Vec::new(), &spec);
    let names: Vec<_> = mirror.cluster.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!((names, mirror.gone.len()), (vec!["gpu"], 1));
    assert_eq!(mirror.events.len(), 1);
}

#[test]
fn external_events_are_imported_once_for_their_nodes() {
    let cluster = sample::cluster(1, 0, None);
    let external = |version: u64, object: &str| ExternalEvent {
        id: uuid::Uuid::from_u128(version.into()),
        version,
        kind: "Pod".to_owned(),
        object: object.to_owned(),
        reason: "FailedScheduling".to_owned(),
        message: "0/3 nodes are available".to_owned(),
        is_warning: true,
        at: NOW,
        record: ExternalRecord::default(),
    };
    let events = |cluster: &Cluster, external: Vec<ExternalEvent>| {
        let observed = Observed { external_events: external, ..Observed::default() };
        mirror(cluster, &[], &observed, None, (None, |_: &Node| false), NOW)
    };
    let first = events(&cluster, vec![external(7, "a"), external(9, "b")]);
    let about: Vec<&str> = first
        .events
        .iter()
        .filter_map(|events| match events {
            ObservationEvent::External(external, None) => Some(external.object.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!((about, first.cluster.observed.last_external_event), (vec!["a", "b"], 9));
    let again = events(&first.cluster, vec![external(7, "a"), external(9, "b"), external(10, "a")]);
    assert_eq!(again.events.len(), 1, "{:?}", again.events);
}

#[test]
fn an_object_that_is_there_in_part_does_not_say_how_many_there_should_be() {
    let cluster = cluster(3);
    let part = ObjectSpec { unfinished: true, groups: Vec::new(), ..spec(0) };
    let mirror = look(&cluster, &[], Vec::new(), &part);
    assert_eq!(mirror.cluster.groups, cluster.groups);
    assert_eq!(mirror.cluster.observed.object, Some(part.identity));
}

fn content(user: &str) -> ObjectContent {
    ObjectContent {
        digest: format!("of {user}"),
        labels: [("team".to_owned(), user.to_owned())].into(),
        annotations: [("note".to_owned(), user.to_owned())].into(),
        owner: Owner::of_scheme("kuberay", user),
        user: user.to_owned(),
        ephemeral: None,
        shown: Some(user.into()),
    }
}

#[rstest]
#[case::external(true)]
#[case::managed(false)]
fn an_external_cluster_follows_its_object_and_a_managed_one_keeps_what_it_was_given(#[case] external: bool) {
    let mut cluster = cluster(0);
    let identity = if external { cluster.id.to_string() } else { "o".to_owned() };
    cluster.observed.object = Some(identity.clone());
    cluster.user = "before".to_owned();
    let spec = ObjectSpec { identity, content: Some(Box::new(content("ada"))), ..spec(0) };
    let mirror = look(&cluster, &[], Vec::new(), &spec);
    assert_eq!(mirror.object, Some("ada".into()));
    assert_eq!(mirror.cluster.observed.object_content, "of ada");
    let followed = ["team", "note"].map(|key| (key.to_owned(), "ada".to_owned()));
    let [labels, annotations] = followed.map(|pair| BTreeMap::from([pair]));
    let expected = if external {
        (labels, annotations, Owner::of_scheme("kuberay", "ada"), "ada".to_owned())
    } else {
        (cluster.labels, cluster.annotations, cluster.owner, "before".to_owned())
    };
    let Cluster { labels, annotations, owner, user, .. } = mirror.cluster;
    assert_eq!((labels, annotations, owner, user), expected);
}

#[test]
fn the_content_that_is_stored_is_not_stored_again() {
    let mut cluster = cluster(0);
    cluster.observed.object_content = "of ada".to_owned();
    let mirror = look(&cluster, &[], Vec::new(), &spec(0));
    assert_eq!((mirror.object, mirror.cluster.observed.object_content.as_str()), (None, "of ada"));
}
