//! Placements of new nodes: policies decide them, the action stores them, and new nodes get them in order.

use muster_core::node::Node;
use muster_core::placement::{KEY, Placement};

use crate::action_data::{ActionData, Placements};

/// Returns the placements of new nodes; those that no earlier policy has decided are empty.
pub(crate) fn planned(data: &ActionData, count: u32) -> Vec<Placement> {
    let mut places = places(data);
    places.resize_with(usize::try_from(count).unwrap_or(usize::MAX), Placement::default);
    places
}

/// Records the placements for the step that creates the nodes.
pub(crate) fn plan(data: &mut ActionData, places: Vec<Placement>) {
    let plan = data.placement.get_or_insert_default();
    plan.count = u32::try_from(places.len()).unwrap_or(u32::MAX);
    plan.placements = places;
}

/// Returns the placements that no node has yet. Added nodes are recorded in the same commit as their rows, so that a
/// take-over continues from there.
pub(crate) fn unused(data: &ActionData) -> impl Iterator<Item = Placement> + use<> {
    let added = data.creation.as_ref().map_or(0, |creation| creation.nodes.len());
    places(data).into_iter().skip(added)
}

fn places(data: &ActionData) -> Vec<Placement> {
    data.placement.as_ref().map(|Placements { placements, .. }| placements.clone()).unwrap_or_default()
}

/// Assigns a placement to a new node, if one was decided.
pub(crate) fn assign(mut node: Node, place: Option<Placement>) -> Node {
    if let Some(place) = place.and_then(|place| place.to_data()) {
        node.data.insert(KEY.to_owned(), place);
    }
    node
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use serde_json::json;

    use super::*;

    fn zone(name: &str) -> Placement {
        Placement { zone: Some(name.to_owned()), ..Placement::default() }
    }

    #[test]
    fn a_place_is_taken_once() {
        let mut data = ActionData::default();
        assert_eq!(planned(&data, 2), [Placement::default(), Placement::default()]);
        let places = ["a", "b", "c"].map(zone);
        plan(&mut data, places.to_vec());
        assert_eq!(planned(&data, 3), places, "the next policy sees what was decided");
        assert!(unused(&data).eq(places.clone()));
        data.creation().nodes = vec![sample::node(1).id, sample::node(2).id];
        assert!(unused(&data).eq([zone("c")]));
    }

    #[test]
    fn a_node_has_the_place_that_was_decided_or_none() {
        assert_eq!(assign(sample::node(1), Some(Placement::default())), sample::node(1));
        assert_eq!(assign(sample::node(1), Some(zone("a"))).data[KEY], json!({"zone": "a"}));
    }
}
