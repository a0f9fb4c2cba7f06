//! Places of new nodes: policies decide them, the action keeps them, and nodes take them one after the other.

use muster_core::node::Node;
use muster_core::placement::{KEY, Place};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

/// The places of so many new nodes, as far as policies before have decided them.
pub(crate) fn planned(data: &Map<String, Value>, count: u32) -> Vec<Place> {
    let mut places = read(data);
    places.resize_with(usize::try_from(count).unwrap_or(usize::MAX), Place::default);
    places
}

/// Leaves them for whoever makes the nodes.
pub(crate) fn plan(data: &mut Map<String, Value>, places: &[Place]) {
    data.insert(KEY.to_owned(), json!({"count": places.len(), "placements": places}));
}

/// Those that no node has yet. Who came is written in the same commit as the nodes: a take-over goes on from there.
pub(crate) fn left(data: &Map<String, Value>) -> impl Iterator<Item = Place> + use<> {
    let came = data.get("creation").and_then(|creation| creation.get("nodes")).and_then(Value::as_array);
    read(data).into_iter().skip(came.map_or(0, Vec::len))
}

/// A new node with its place, if that was decided.
pub(crate) fn put(mut node: Node, place: Option<Place>) -> Node {
    if let Some(place) = place.and_then(|place| place.kept()) {
        node.data.insert(KEY.to_owned(), place);
    }
    node
}

fn read(data: &Map<String, Value>) -> Vec<Place> {
    let places = data.get(KEY).and_then(|plan| plan.get("placements"));
    places.and_then(|places| Vec::deserialize(places).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use muster_core::sample;

    use super::*;

    fn zone(name: &str) -> Place {
        Place { zone: Some(name.to_owned()), ..Place::default() }
    }

    #[test]
    fn a_place_is_taken_once() {
        let mut data = Map::new();
        assert_eq!(planned(&data, 2), [Place::default(), Place::default()]);
        let places = ["a", "b", "c"].map(zone);
        plan(&mut data, &places);
        assert_eq!(planned(&data, 3), places, "whoever decides next sees what was decided");
        assert!(left(&data).eq(places.clone()));
        data.insert("creation".to_owned(), json!({"nodes": ["x", "y"]}));
        assert!(left(&data).eq([zone("c")]));
    }

    #[test]
    fn a_node_has_the_place_that_was_decided_or_none() {
        assert_eq!(put(sample::node(1), Some(Place::default())), sample::node(1));
        assert_eq!(put(sample::node(1), Some(zone("a"))).data[KEY], json!({"zone": "a"}));
    }
}
