//! What a root object says of a cluster that nobody here has a row for.

use muster_core::cluster::WorkerGroup;
use muster_core::profile::ProfileType;
use muster_core::recipe::{ClusterRecipe, NodeRecipe};
use muster_core::shape::Shape;
use muster_engine::ports::provider::DiscoveredCluster;
use muster_frameworks::kubernetes::{Flavor, GroupWords, NodeWords, Words, groups};
use serde_json::{Map, Value};

use crate::content::Content;
use crate::facts::moment;

/// Reads a cluster from its root, and from what all its objects say.
pub(crate) fn describe(flavor: &dyn Flavor, root: &Value, words: &[&Words]) -> DiscoveredCluster {
    let metadata = &root["metadata"];
    let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
    let head = words.first().map(|words| words.head.clone()).unwrap_or_default();
    let recipe = ClusterRecipe {
        flavor: Some(flavor.name().to_owned()),
        version: words.first().and_then(|words| words.version.clone()),
        head: node(&head),
        ..ClusterRecipe::default()
    };
    DiscoveredCluster {
        // What its root is called may be something else.
        name: words.first().map_or_else(|| text("name"), |words| words.cluster.clone()),
        namespace: text("namespace"),
        kind: ProfileType::new(&format!("{}.cluster", flavor.framework()), "1.0"),
        properties: properties(&recipe),
        framework: flavor.framework(),
        flavor: flavor.name().to_owned(),
        groups: groups(words).into_iter().map(group).collect(),
        content: Content::read(flavor, root).parse(flavor),
        created_at: moment(&text("creationTimestamp")),
    }
}

fn properties(recipe: &ClusterRecipe) -> Map<String, Value> {
    match serde_json::to_value(recipe) {
        Ok(Value::Object(properties)) => properties,
        _ => Map::new(),
    }
}

fn node(words: &NodeWords) -> NodeRecipe {
    let Shape { cpu, memory, gpu, .. } = words.shape;
    let image = (!words.image.is_empty()).then(|| words.image.clone());
    NodeRecipe { cpu, memory, gpu, image, ..NodeRecipe::default() }
}

fn group(words: &GroupWords) -> WorkerGroup {
    let (min, max) = words.bounds.unwrap_or((0, None));
    let image = (!words.made_from.image.is_empty()).then(|| words.made_from.image.clone());
    let spec = NodeRecipe { image, ..NodeRecipe::default() }.into_spec();
    WorkerGroup {
        name: words.name.clone(),
        desired: words.desired,
        min,
        max,
        shape: words.made_from.shape.clone(),
        spec,
    }
}

#[cfg(test)]
mod tests {
    use muster_core::cluster::Framework;
    use muster_frameworks::kubernetes::flavors_of;
    use serde_json::json;

    use super::*;

    fn deployment(name: &str, kind: &str, replicas: u32) -> Value {
        json!({
            "metadata": {
                "name": name,
                "namespace": "demo",
                "creationTimestamp": "2026-11-15T12:00:00Z",
                "labels": {"oshinko-cluster": "fred", "oshinko-type": kind},
            },
            "spec": {
                "replicas": replicas,
                "template": {"spec": {"containers": [{"image": "spark:1"}]}},
            },
        })
    }

    #[test]
    fn a_cluster_is_not_called_as_its_root_where_that_has_a_name_of_its_own() {
        let flavor = flavors_of(Framework::Spark).next().expect("a flavor of Spark");
        let kind = flavor.watched()[0].kind;
        let objects = [deployment("fred-m", "master", 1), deployment("fred-w", "worker", 3)];
        let words = objects.clone().map(|object| flavor.read(kind, &object).expect("of a cluster"));
        let found = describe(flavor, &objects[0], &words.each_ref());
        assert_eq!((found.name.as_str(), found.namespace.as_str()), ("fred", "demo"));
        assert_eq!((found.groups.len(), found.groups[0].desired), (1, 3));
        assert_eq!(found.properties["head"]["image"], "spark:1");
        assert!(found.created_at.is_some());
    }
}
