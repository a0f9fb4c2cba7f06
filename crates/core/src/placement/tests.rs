use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::ids::NodeId;
use crate::sample;

/// `az1:100` or, with a cap, `az1:100:3`.
fn shares(words: &str) -> Vec<Share> {
    let share = |word: &str| {
        let parts: Vec<&str> = word.split(':').collect();
        Share {
            name: parts[0].to_owned(),
            weight: parts[1].parse().expect("a weight"),
            cap: parts.get(2).map(|cap| cap.parse().expect("a cap")),
        }
    };
    words.split_whitespace().map(share).collect()
}

/// `az1:3 az2:1`; zeros are left out.
fn counts(words: &str) -> PlacementCounts {
    let count = |word: &str| {
        let (name, count) = word.split_once(':').expect("a name and a number");
        (name.to_owned(), count.parse().expect("a number"))
    };
    words.split_whitespace().map(count).collect()
}

fn some(counts: PlacementCounts) -> PlacementCounts {
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

#[rstest]
#[case::alike("a:100 b:100 c:100", "", 3, Some("a:1 b:1 c:1"))]
#[case::what_is_left_goes_to_the_first("a:100 b:100 c:100", "", 4, Some("a:2 b:1 c:1"))]
#[case::in_turn("a:100 b:100", "a:1", 1, Some("b:1"))]
#[case::in_turn_again("a:100 b:100", "a:1 b:1", 1, Some("a:1"))]
#[case::by_weight("a:300 b:100", "", 8, Some("a:6 b:2"))]
#[case::the_heavier_one_first("a:100 b:300", "", 1, Some("b:1"))]
#[case::what_is_missing_first("a:100 b:100", "a:5", 3, Some("b:3"))]
#[case::none_comes_without_a_weight("a:100 b:0", "", 5, Some("a:5"))]
#[case::a_cap_leaves_the_rest_to_others("a:100:1 b:100", "", 5, Some("a:1 b:4"))]
#[case::by_weight_among_the_others("a:100:2 b:200 c:100", "", 8, Some("a:2 b:4 c:2"))]
#[case::a_cap_that_is_exceeded_already("a:100:1 b:100", "a:3", 2, Some("b:2"))]
#[case::exactly_the_capacity("a:100:1 b:100:2", "a:1", 2, Some("b:2"))]
#[case::beyond_the_capacity("a:100:1 b:100:2", "a:1", 3, None)]
#[case::beyond_the_capacity_without_a_weight("a:100:1 b:0", "", 2, None)]
#[case::elsewhere_does_not_count("a:100 b:100", "x:7", 2, Some("a:1 b:1"))]
fn new_nodes_come_where_they_are_missing(
    #[case] spread: &str,
    #[case] have: &str,
    #[case] count: u32,
    #[case] plan: Option<&str>,
) {
    let planned = grow(&shares(spread), &counts(have), count);
    assert_eq!(planned.map(some), plan.map(counts));
}

#[rstest]
#[case::alike("a:100 b:100", "a:2 b:2", 0, 2, "a:1 b:1")]
#[case::where_there_are_too_many("a:100 b:100", "a:5 b:2", 0, 3, "a:3")]
#[case::the_lighter_one_first("a:300 b:100", "a:1 b:1", 0, 1, "b:1")]
#[case::the_heavier_one_in_its_turn("a:300 b:100", "a:3 b:1", 0, 1, "a:1")]
#[case::of_equals_the_last("a:100 b:100", "a:1 b:1", 0, 1, "b:1")]
#[case::by_weight("a:300 b:100", "a:6 b:2", 0, 4, "a:3 b:1")]
#[case::all_go_that_have_no_weight("a:100 b:0", "a:3 b:2", 0, 2, "b:2")]
#[case::nodes_elsewhere_are_removed_first("a:100 b:100", "a:1 b:1", 2, 2, "")]
#[case::then_the_others("a:100 b:100", "a:2 b:1", 1, 2, "a:1")]
#[case::beyond_a_cap_first("a:100:1 b:100", "a:3 b:3", 0, 2, "a:2")]
#[case::no_more_than_there_are("a:100 b:100", "a:1 b:1", 1, 9, "a:1 b:1")]
fn nodes_go_from_where_there_are_too_many(
    #[case] spread: &str,
    #[case] have: &str,
    #[case] elsewhere: u32,
    #[case] count: u32,
    #[case] plan: &str,
) {
    assert_eq!(some(shrink(&shares(spread), &counts(have), elsewhere, count)), counts(plan));
}

fn any_shares(caps: bool) -> impl Strategy<Value = Vec<(Share, u32)>> {
    let cap = prop::option::of(0_u32..20).prop_map(move |cap| cap.filter(|_| caps));
    prop::collection::vec((1_u32..500, cap, 0_u32..20), 1..6).prop_map(|shares| {
        let named = |(place, (weight, cap, have)): (usize, (u32, Option<u32>, u32))| {
            (Share { name: format!("z{place}"), weight, cap }, have)
        };
        shares.into_iter().enumerate().map(named).collect()
    })
}

fn split(shares: Vec<(Share, u32)>) -> (Vec<Share>, PlacementCounts) {
    let have = shares.iter().map(|(share, have)| (share.name.clone(), *have)).collect();
    (shares.into_iter().map(|(share, _)| share).collect(), have)
}

proptest! {
    #[test]
    fn either_all_nodes_are_placed_or_none(shares in any_shares(true), count in 0_u32..60) {
        let (shares, have) = split(shares);
        let room = |share: &Share| share.cap.map_or(u32::MAX, |cap| cap.saturating_sub(have[&share.name]));
        let room = shares.iter().map(room).fold(0_u32, u32::saturating_add);
        let plan = grow(&shares, &have, count);
        prop_assert_eq!(plan.is_some(), room >= count);
        for share in plan.iter().flat_map(|_| &shares) {
            let plan = plan.as_ref().unwrap();
            prop_assert_eq!(plan.values().sum::<u32>(), count);
            let after = have[&share.name] + plan[&share.name];
            prop_assert!(plan[&share.name] == 0 || share.cap.is_none_or(|cap| after <= cap), "{plan:?}");
        }
    }

    #[test]
    fn without_caps_no_share_exceeds_its_part(shares in any_shares(false), count in 0_u32..60) {
        let (shares, have) = split(shares);
        let plan = grow(&shares, &have, count).unwrap();
        let total = have.values().sum::<u32>() + count;
        let weights: u32 = shares.iter().map(|share| share.weight).sum();
        for Share { name, weight, .. } in &shares {
            let part = (total * weight).div_ceil(weights);
            prop_assert!(plan[name] == 0 || have[name] + plan[name] <= part, "{name}: {plan:?}");
        }
    }

    #[test]
    fn as_many_go_as_should(shares in any_shares(true), elsewhere in 0_u32..9, count in 0_u32..150) {
        let (shares, have) = split(shares);
        let plan = shrink(&shares, &have, elsewhere, count);
        let going = count.saturating_sub(elsewhere).min(have.values().sum());
        prop_assert_eq!(plan.values().sum::<u32>(), going);
        let (total, weights) = (have.values().sum::<u32>() - going, shares.iter().map(|share| share.weight).sum::<u32>());
        for Share { name, weight, .. } in &shares {
            prop_assert!(plan[name] <= have[name], "{name}: {plan:?}");
            let part = total * weight / weights;
            let capped = shares.iter().any(|share| share.cap.is_some());
            prop_assert!(capped || plan[name] == 0 || have[name] - plan[name] >= part, "{name}: {plan:?}");
        }
    }
}

/// `r1/az1`, or `-/az1` if only the zone was decided.
fn place(word: &str) -> Placement {
    let (region, zone) = word.split_once('/').expect("a region and a zone");
    let known = |name: &str| (name != "-").then(|| name.to_owned());
    Placement { region_name: known(region), zone: known(zone), servergroup: None }
}

fn places(words: &str) -> Vec<Placement> {
    words.split_whitespace().map(place).collect()
}

#[rstest]
#[case::in_turn("a:3 b:3", "", "-/- -/- -/- -/- -/- -/-", "-/a -/b -/a -/b -/a -/b")]
#[case::every_region_has_both("a:2 b:2", "", "r/- s/- r/- s/-", "r/a s/b r/b s/a")]
#[case::what_a_region_lacks("a:1 b:1", "r/a s/b", "r/- s/-", "r/b s/a")]
#[case::the_plan_goes_before_that("a:2 b:0", "r/a r/a", "r/- r/-", "r/a r/a")]
fn zones_are_given_in_turn_within_each_region(
    #[case] plan: &str,
    #[case] present: &str,
    #[case] new: &str,
    #[case] placed: &str,
) {
    let mut new = places(new);
    Axis::Zone.assign(&shares("a:100 b:100"), &counts(plan), &places(present), &mut new);
    assert_eq!(new, places(placed));
}

fn order(words: &str) -> Vec<(NodeId, Placement)> {
    let number = |number: usize| NodeId::from_uuid(Uuid::from_u128(number as u128));
    places(words).into_iter().enumerate().map(|(index, place)| (number(index), place)).collect()
}

#[rstest]
#[case::one_of_each("-/a -/a -/b -/b", 2, None, Some("a:1 b:1"), &[0, 2])]
#[case::elsewhere("-/a -/- -/b -/x", 2, None, Some("a:0 b:0"), &[1, 3])]
#[case::none_is_where_they_should_be_removed("-/a -/a", 1, None, Some("a:0 b:1"), &[0])]
#[case::both_are_kept("r/a s/a r/b s/b", 2, Some("r:1 s:1"), Some("a:1 b:1"), &[0, 3])]
#[case::regions_go_before_zones("r/a r/a s/a s/b", 2, Some("r:2 s:0"), Some("a:1 b:1"), &[0, 1])]
#[case::no_quotas("-/- -/-", 1, None, None, &[0])]
#[case::fewer_than_that("-/a", 3, None, Some("a:3"), &[0])]
fn those_go_that_leave_the_others_spread(
    #[case] nodes: &str,
    #[case] count: u32,
    #[case] regions: Option<&str>,
    #[case] zones: Option<&str>,
    #[case] chosen: &[u128],
) {
    let quota = |axis, words: Option<&str>| words.map(|words| Quota::new(axis, counts(words), count));
    let mut quotas: Vec<Quota> =
        [quota(Axis::Region, regions), quota(Axis::Zone, zones)].into_iter().flatten().collect();
    let ids = choose(order(nodes), count as usize, &mut quotas);
    let ids: Vec<u128> = ids.into_iter().map(|id| id.as_uuid().as_u128()).collect();
    assert_eq!(ids, chosen);
}

#[test]
fn a_node_keeps_its_place_as_others_read_it() {
    let group = ServerGroup { policy: Affinity::Apart, id: "g".to_owned() };
    let place = Placement { servergroup: Some(group), ..place("r1/az1") };
    let kept =
        json!({"zone": "az1", "region_name": "r1", "servergroup": {"policy": "anti-affinity", "id": "g"}});
    assert_eq!(place.to_data(), Some(kept.clone()));
    let mut node = sample::node(1);
    assert_eq!((Placement::from_node(&node), Placement::default().to_data()), (Placement::default(), None));
    node.data.insert(KEY.to_owned(), kept);
    assert_eq!(Placement::from_node(&node), place);
}
