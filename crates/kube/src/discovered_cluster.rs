//! The description of an external cluster, from its objects, for its first row.

use muster_core::cluster::WorkerGroup;
use muster_core::profile::ProfileType;
use muster_core::recipe::{ClusterRecipe, NodeRecipe};
use muster_core::shape::Shape;
use muster_engine::ports::provider::DiscoveredCluster;
use muster_frameworks::kubernetes::{Flavor, GroupProjection, ObjectProjection, PodTemplate, merge_groups};
use serde_json::{Map, Value};

use crate::content::RootContent;
use crate::projection::parse_timestamp;

/// Describes a cluster by its root object and the projections of all its objects, the root's first.
pub(crate) fn read_discovered_cluster(
    flavor: &dyn Flavor,
    root: &Value,
    projections: &[&ObjectProjection],
) -> DiscoveredCluster {
    let metadata = &root["metadata"];
    let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
    let head = projections.first().map(|root| root.head.clone()).unwrap_or_default();
    let recipe = ClusterRecipe {
        flavor: Some(flavor.name().to_owned()),
        version: projections.first().and_then(|root| root.version.clone()),
        head: node_recipe(&head),
        ..ClusterRecipe::default()
    };
    DiscoveredCluster {
        // The root object of some flavors has another name than the cluster.
        name: projections.first().map_or_else(|| text("name"), |root| root.cluster.clone()),
        namespace: text("namespace"),
        kind: ProfileType::new(&format!("{}.cluster", flavor.framework()), "1.0"),
        properties: properties(&recipe),
        framework: flavor.framework(),
        flavor: flavor.name().to_owned(),
        groups: merge_groups(projections).into_iter().map(worker_group).collect(),
        content: RootContent::read(flavor, root).parse(flavor),
        created_at: parse_timestamp(&text("creationTimestamp")),
    }
}

fn properties(recipe: &ClusterRecipe) -> Map<String, Value> {
    match serde_json::to_value(recipe) {
        Ok(Value::Object(properties)) => properties,
        _ => Map::new(),
    }
}

fn node_recipe(template: &PodTemplate) -> NodeRecipe {
    let Shape { cpu, memory, gpu, .. } = template.shape;
    let image = (!template.image.is_empty()).then(|| template.image.clone());
    NodeRecipe { cpu, memory, gpu, image, ..NodeRecipe::default() }
}

fn worker_group(group: &GroupProjection) -> WorkerGroup {
    let (min, max) = group.bounds.unwrap_or((0, None));
    let image = (!group.template.image.is_empty()).then(|| group.template.image.clone());
    let spec = NodeRecipe { image, ..NodeRecipe::default() }.into_spec();
    WorkerGroup {
        name: group.name.clone(),
        desired: group.desired,
        min,
        max,
        shape: group.template.shape.clone(),
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
    fn a_cluster_has_its_own_name_where_its_root_object_has_another() {
        let flavor = flavors_of(Framework::Spark).next().expect("a flavor of Spark");
        let kind = flavor.watched_kinds()[0].kind;
        let objects = [deployment("fred-m", "master", 1), deployment("fred-w", "worker", 3)];
        let projections =
            objects.clone().map(|object| flavor.read_object(kind, &object).expect("it belongs to a cluster"));
        let found = read_discovered_cluster(flavor, &objects[0], &projections.each_ref());
        assert_eq!((found.name.as_str(), found.namespace.as_str()), ("fred", "demo"));
        assert_eq!((found.groups.len(), found.groups[0].desired), (1, 3));
        assert_eq!(found.properties["head"]["image"], "spark:1");
        assert!(found.created_at.is_some());
    }
}
