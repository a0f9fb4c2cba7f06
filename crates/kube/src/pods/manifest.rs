//! The recipes of nodes that are pods, and the pods that are created from them.

use muster_core::node::Node;
use muster_core::own_keys::{OWN_DOMAIN, is_own_key};
use muster_core::profile::Profile;
use muster_frameworks::kubernetes::{Manifest, POD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::ownership;

/// The label by which the affinity rules of a server group select its pods.
const SERVER_GROUP: &str = "muster.dev/servergroup";

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const MACHINE: &str = "kubernetes.io/hostname";

/// The limit of a pod's name before the hyphen and the eight characters of its node's id.
const MAX_STEM_LENGTH: usize = 54;

/// The properties of a profile of nodes that are pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodePodRecipe {
    /// A pod template: `metadata` with labels and annotations, and `spec`.
    template: Template,
    /// The namespace of the pods; without it, that of their cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Template {
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    spec: Map<String, Value>,
}

/// Returns the namespace of a profile's pods. Every observation needs it, so the rest of the profile is not read.
pub(super) fn namespace<'a>(profile: &'a Profile, otherwise: &'a str) -> &'a str {
    profile.properties.get("namespace").and_then(Value::as_str).unwrap_or(otherwise)
}

impl NodePodRecipe {
    /// Reads the properties of a profile.
    pub(super) fn read(profile: &Profile) -> Result<Self, String> {
        let recipe: Self = serde_json::from_value(Value::Object(profile.properties.clone()))
            .map_err(|error| format!("properties of {}: {error}", profile.kind))?;
        let containers = recipe.template.spec.get("containers").and_then(Value::as_array);
        if containers.is_none_or(Vec::is_empty) {
            return Err("template.spec.containers is empty: a pod needs at least one container".to_owned());
        }
        Ok(recipe)
    }

    /// Reads the recipe in a request, and refuses labels and annotations that only Muster writes.
    pub(super) fn from_request(profile: &Profile) -> Result<Self, String> {
        let recipe = Self::read(profile)?;
        let places =
            ["labels", "annotations"].iter().filter_map(|place| recipe.template.metadata.get(*place));
        let reserved = places.filter_map(Value::as_object).flat_map(Map::keys).find(|key| is_own_key(key));
        if let Some(key) = reserved {
            return Err(format!(
                "template.metadata has '{key}', which is reserved, because only Muster writes keys of {OWN_DOMAIN}: use \
                 another key"
            ));
        }
        Ok(recipe)
    }

    /// Returns the recipe of an existing pod, without the fields that Kubernetes adds.
    pub(super) fn from_pod(namespace: &str, pod: &Value) -> Self {
        const ADDED: [&str; 5] =
            ["nodeName", "priority", "preemptionPolicy", "serviceAccount", "enableServiceLinks"];
        let map = |value: &Value| value.as_object().cloned().unwrap_or_default();
        let mut spec = map(&pod["spec"]);
        spec.retain(|key, _| !ADDED.contains(&key.as_str()));
        if let Some(Value::Array(tolerations)) = spec.get_mut("tolerations") {
            tolerations.retain(|toleration| !is_default_toleration(toleration));
            if tolerations.is_empty() {
                spec.remove("tolerations");
            }
        }
        let metadata = ["labels", "annotations"].into_iter().filter_map(|place| {
            let mut marks = pod["metadata"].get(place)?.as_object()?.clone();
            marks.retain(|key, _| !is_own_key(key));
            Some((place.to_owned(), Value::Object(marks)))
        });
        let template = Template { metadata: metadata.collect(), spec };
        Self { template, namespace: Some(namespace.to_owned()) }
    }

    /// Returns the properties of a profile with this recipe.
    pub(super) fn properties(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(properties)) => properties,
            _ => Map::new(),
        }
    }

    /// Returns the pod of a node.
    pub(super) fn manifest(&self, node: &Node, namespace: &str) -> Manifest {
        let Template { metadata, spec } = &self.template;
        let part = |key: &str| metadata.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
        let mut labels = part("labels");
        labels.insert(ownership::NODE.to_owned(), node.id.to_string().into());
        let mut spec = spec.clone();
        add_placement(&mut spec, &mut labels, node.data.get("placement").unwrap_or(&Value::Null));
        let metadata = json!({
            "name": pod_name(node), "namespace": namespace, "labels": labels, "annotations": part("annotations"),
        });
        let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        Manifest { kind: &POD, body, owned: false }
    }
}

/// Returns true for a toleration that Kubernetes adds to each pod, so that the pod is not evicted at once from a machine
/// that is not ready.
fn is_default_toleration(toleration: &Value) -> bool {
    const KEYS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    let default =
        |key| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
    KEYS.iter().any(|key| *toleration == default(key))
}

/// Returns the name of a node's pod: the name of the node in allowed characters, and a part of its id, which makes it
/// unique.
fn pod_name(node: &Node) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let stem: String = node.name.chars().map(plain).take(MAX_STEM_LENGTH).collect();
    let stem = stem.trim_matches('-');
    let stem = if stem.is_empty() { "node" } else { stem };
    format!("{stem}-{}", node.id.short())
}

/// Adds the placement that policies decided on: zone, region and server group.
fn add_placement(spec: &mut Map<String, Value>, labels: &mut Map<String, Value>, placement: &Value) {
    let machines = [(ZONE, &placement["zone"]), (REGION, &placement["region_name"])];
    for (label, wanted) in machines.into_iter().filter(|(_, wanted)| wanted.is_string()) {
        child_map(spec, "nodeSelector").insert(label.to_owned(), wanted.clone());
    }
    let group = &placement["servergroup"];
    let (Some(id), Some(policy)) = (group["id"].as_str(), group["policy"].as_str()) else { return };
    labels.insert(SERVER_GROUP.to_owned(), id.into());
    let key = if policy == "affinity" { "podAffinity" } else { "podAntiAffinity" };
    let term = json!({"labelSelector": {"matchLabels": {SERVER_GROUP: id}}, "topologyKey": MACHINE});
    let rules = child_map(child_map(spec, "affinity"), key);
    match rules.entry("requiredDuringSchedulingIgnoredDuringExecution").or_insert_with(|| json!([])) {
        Value::Array(terms) => terms.push(term),
        other => *other = json!([term]),
    }
}

/// Returns the map under a key, which is created if it is missing.
fn child_map<'m>(map: &'m mut Map<String, Value>, key: &str) -> &'m mut Map<String, Value> {
    let value = map.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it is a map by now")
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use rstest::rstest;

    use super::*;

    fn recipe(properties: &Value) -> Result<NodePodRecipe, String> {
        let properties = properties.as_object().expect("a map").clone();
        NodePodRecipe::read(&Profile { properties, ..sample::profile() })
    }

    fn node(placement: Value) -> Node {
        let mut node = sample::node(1);
        "Fred's 1st_Node".clone_into(&mut node.name);
        node.data.insert("placement".to_owned(), placement);
        node
    }

    fn template() -> Value {
        json!({"template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}})
    }

    #[test]
    fn a_pod_is_its_template_with_the_nodes_label() {
        let node = node(json!({}));
        let Manifest { body, .. } = recipe(&template()).expect("a recipe").manifest(&node, "demo");
        let id = node.id.to_string();
        let metadata = json!({
            "name": format!("fred-s-1st-node-{}", node.id.short()), "namespace": "demo", "annotations": {},
            "labels": {"app": "x", "muster.dev/node": id},
        });
        assert_eq!(body["metadata"], metadata);
        assert_eq!(body["spec"], template()["template"]["spec"]);
    }

    #[test]
    fn a_placement_becomes_selectors_and_affinity() {
        let group = json!({"id": "g1", "policy": "anti-affinity"});
        let node = node(json!({"zone": "z1", "region_name": "r1", "servergroup": group}));
        let Manifest { body, .. } = recipe(&template()).expect("a recipe").manifest(&node, "demo");
        assert_eq!(body["spec"]["nodeSelector"], json!({ZONE: "z1", REGION: "r1"}));
        let terms =
            &body["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(
            *terms,
            json!([{"labelSelector": {"matchLabels": {SERVER_GROUP: "g1"}}, "topologyKey": MACHINE}])
        );
        assert_eq!(body["metadata"]["labels"][SERVER_GROUP], "g1");
    }

    #[rstest]
    #[case::none(&json!([]), &json!(null))]
    #[case::of_the_user(
        &json!([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]),
        &json!([{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]),
    )]
    #[case::other_seconds(
        &json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]),
        &json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]),
    )]
    fn the_recipe_of_an_adopted_pod_has_the_tolerations_that_kubernetes_did_not_add(
        #[case] of_user: &Value,
        #[case] expected: &Value,
    ) {
        let added = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        let mut all = of_user.as_array().expect("a list").clone();
        all.extend(["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].map(added));
        let pod = json!({"metadata": {}, "spec": {"nodeName": "m", "containers": [{}], "tolerations": all}});
        let properties = NodePodRecipe::from_pod("demo", &pod).properties();
        let spec = &properties["template"]["spec"];
        assert_eq!(spec["tolerations"], *expected);
        assert_eq!(spec["nodeName"], Value::Null);
    }

    #[rstest]
    #[case("labels", "muster.dev/node", true)]
    #[case("annotations", "muster.dev/fence", true)]
    #[case("labels", "team", false)]
    fn only_muster_writes_its_keys(#[case] place: &str, #[case] key: &str, #[case] is_reserved: bool) {
        let mut properties = template();
        properties["template"]["metadata"][place] = json!({key: "x"});
        let properties = properties.as_object().expect("a map").clone();
        let read = NodePodRecipe::from_request(&Profile { properties, ..sample::profile() });
        assert_eq!(read.is_err_and(|why| why.contains(&format!("'{key}', which is reserved"))), is_reserved);
        let pod = json!({"metadata": {place: {key: "x"}}, "spec": {"containers": [{}]}});
        let adopted = NodePodRecipe::from_pod("demo", &pod).properties();
        assert_eq!(adopted["template"]["metadata"][place][key].is_null(), is_reserved);
    }

    #[test]
    fn properties_that_make_no_pod_are_refused() {
        let why = recipe(&json!({"template": {"spec": {}}})).expect_err("no containers");
        assert_eq!(why, "template.spec.containers is empty: a pod needs at least one container");
        let why = recipe(&json!({"tmplate": {}})).expect_err("a slip");
        assert!(why.contains("unknown field `tmplate`"), "{why}");
    }
}
