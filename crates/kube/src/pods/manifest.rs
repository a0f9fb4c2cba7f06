//! From a recipe and a place to a pod.

use muster_core::node::Node;
use muster_core::profile::Profile;
use muster_frameworks::kubernetes::{Manifest, POD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::marks;

/// The label by which pods of a group keep away from each other, or together.
const SERVER_GROUP: &str = "muster.dev/servergroup";

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const MACHINE: &str = "kubernetes.io/hostname";

/// The longest beginning of a pod's name: a hyphen and eight characters of its node's id follow.
const LONGEST_STEM: usize = 54;

/// What a profile of such nodes says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PodRecipe {
    /// A pod template: `metadata` with labels and annotations, and `spec`.
    template: Template,
    /// Where they are made; otherwise where their cluster is.
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

/// The namespace of a profile's pods, without reading the rest of it: every observation asks.
pub(super) fn namespace<'a>(profile: &'a Profile, otherwise: &'a str) -> &'a str {
    profile.properties.get("namespace").and_then(Value::as_str).unwrap_or(otherwise)
}

impl PodRecipe {
    /// Reads the properties of a profile; the sentence says what is wrong.
    pub(super) fn of(profile: &Profile) -> Result<Self, String> {
        let recipe: Self = serde_json::from_value(Value::Object(profile.properties.clone()))
            .map_err(|error| format!("properties of {}: {error}", profile.kind))?;
        let containers = recipe.template.spec.get("containers").and_then(Value::as_array);
        if containers.is_none_or(Vec::is_empty) {
            return Err("template.spec.containers is empty: a pod has one container at least".to_owned());
        }
        Ok(recipe)
    }

    /// The recipe that a pod was made from, as far as that was not added by Kubernetes.
    pub(super) fn of_pod(namespace: &str, pod: &Value) -> Self {
        const ADDED: [&str; 6] = [
            "nodeName",
            "tolerations",
            "priority",
            "preemptionPolicy",
            "serviceAccount",
            "enableServiceLinks",
        ];
        let map = |value: &Value| value.as_object().cloned().unwrap_or_default();
        let mut spec = map(&pod["spec"]);
        spec.retain(|key, _| !ADDED.contains(&key.as_str()));
        let metadata = ["labels", "annotations"].into_iter().filter_map(|key| {
            let said = pod["metadata"].get(key)?.clone();
            Some((key.to_owned(), said))
        });
        let template = Template { metadata: metadata.collect(), spec };
        Self { template, namespace: Some(namespace.to_owned()) }
    }

    /// As a profile holds it.
    pub(super) fn properties(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(properties)) => properties,
            _ => Map::new(),
        }
    }

    /// The pod of a node.
    pub(super) fn manifest(&self, node: &Node, namespace: &str) -> Manifest {
        let Template { metadata, spec } = &self.template;
        let part = |key: &str| metadata.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
        let mut labels = part("labels");
        labels.insert(marks::NODE.to_owned(), node.id.to_string().into());
        let mut spec = spec.clone();
        place(&mut spec, &mut labels, node.data.get("placement").unwrap_or(&Value::Null));
        let metadata = json!({
            "name": name(node), "namespace": namespace, "labels": labels, "annotations": part("annotations"),
        });
        let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        Manifest { kind: &POD, body, owned: false }
    }
}

/// What the pod of a node is called: like the node, as far as pods can be called so, and no two alike.
fn name(node: &Node) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let stem: String = node.name.chars().map(plain).take(LONGEST_STEM).collect();
    let stem = stem.trim_matches('-');
    let stem = if stem.is_empty() { "node" } else { stem };
    format!("{stem}-{}", node.id.short())
}

/// Where it was decided that a node runs, and beside whom.
fn place(spec: &mut Map<String, Value>, labels: &mut Map<String, Value>, placement: &Value) {
    let machines = [(ZONE, &placement["zone"]), (REGION, &placement["region_name"])];
    for (label, wanted) in machines.into_iter().filter(|(_, wanted)| wanted.is_string()) {
        child(spec, "nodeSelector").insert(label.to_owned(), wanted.clone());
    }
    let group = &placement["servergroup"];
    let (Some(id), Some(policy)) = (group["id"].as_str(), group["policy"].as_str()) else { return };
    labels.insert(SERVER_GROUP.to_owned(), id.into());
    let key = if policy == "affinity" { "podAffinity" } else { "podAntiAffinity" };
    let term = json!({"labelSelector": {"matchLabels": {SERVER_GROUP: id}}, "topologyKey": MACHINE});
    let rules = child(child(spec, "affinity"), key);
    match rules.entry("requiredDuringSchedulingIgnoredDuringExecution").or_insert_with(|| json!([])) {
        Value::Array(terms) => terms.push(term),
        other => *other = json!([term]),
    }
}

/// The map under a key, made if it is not there.
fn child<'m>(map: &'m mut Map<String, Value>, key: &str) -> &'m mut Map<String, Value> {
    let value = map.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was just made one")
}

#[cfg(test)]
mod tests {
    use muster_core::sample;

    use super::*;

    fn recipe(properties: &Value) -> Result<PodRecipe, String> {
        let properties = properties.as_object().expect("a map").clone();
        PodRecipe::of(&Profile { properties, ..sample::profile() })
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
    fn a_pod_is_its_template_with_the_nodes_mark() {
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
    fn a_place_that_was_decided_is_asked_for() {
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

    #[test]
    fn what_makes_no_pod_is_refused() {
        let why = recipe(&json!({"template": {"spec": {}}})).expect_err("no containers");
        assert_eq!(why, "template.spec.containers is empty: a pod has one container at least");
        let why = recipe(&json!({"tmplate": {}})).expect_err("a slip");
        assert!(why.contains("unknown field `tmplate`"), "{why}");
    }
}
