//! The patch of a changed recipe. Only the differences are patched, since other programs write to the same object.

use serde_json::{Map, Value, json};

use super::patch::add;

/// Fields that are replaced as a whole: entries of other programs cannot be recognized in a list of arguments.
const WHOLE: [&str; 3] = ["image", "command", "args"];

/// The fields of a pod spec that decide where the pod runs.
const SELECTOR: &str = "nodeSelector";
const TOLERATIONS: &str = "tolerations";

/// A pod spec in an object before and after a change of its recipe: the first container and the placement.
#[derive(Debug, Clone, PartialEq)]
pub struct PodChange {
    /// The JSON pointer of the pod spec in the object.
    spec: String,
    before: Value,
    after: Value,
}

impl PodChange {
    /// Returns a change of image, command, arguments, resources, variables, selectors or tolerations; `None` if all are
    /// equal.
    pub(super) fn new(spec: impl Into<String>, before: Value, after: Value) -> Option<Self> {
        let differs = {
            let (one, other) = (container(&before), container(&after));
            let mut keys = WHOLE.iter().chain(&["resources", "env"]);
            keys.any(|key| one[*key] != other[*key])
                || [SELECTOR, TOLERATIONS].iter().any(|key| before[*key] != after[*key])
        };
        differs.then(|| Self { spec: spec.into(), before, after })
    }

    /// Returns the JSON patch for the present object; fields and entries of other programs stay.
    pub fn operations(&self, object: &Value) -> Vec<Value> {
        let Self { spec, before, after } = self;
        let present = object.pointer(spec).unwrap_or(&Value::Null);
        let changed = |key: &str, value: Option<Value>| {
            let value = value.filter(|value| present[key] != *value)?;
            Some(add(&format!("{spec}/{key}"), &value))
        };
        let selector = changed_entries(&present[SELECTOR], &before[SELECTOR], &after[SELECTOR]);
        let tolerations =
            changed_tolerations(&present[TOLERATIONS], &before[TOLERATIONS], &after[TOLERATIONS]);
        let mut operations = self.container_operations(container(present));
        operations.extend(changed(SELECTOR, selector));
        operations.extend(changed(TOLERATIONS, tolerations));
        operations
    }

    fn container_operations(&self, present: &Value) -> Vec<Value> {
        let (before, after) = (container(&self.before), container(&self.after));
        let path = format!("{}/containers/0", self.spec);
        let whole = WHOLE.map(|key| {
            // An empty list is not rendered, but the object may have a list that must be emptied.
            let value = if after[key].is_null() { json!([]) } else { after[key].clone() };
            (key, (before[key] != after[key]).then_some(value))
        });
        let resources = changed_resources(&present["resources"], &before["resources"], &after["resources"]);
        let env = changed_variables(&present["env"], &before["env"], &after["env"]);
        whole
            .into_iter()
            .chain([("resources", resources), ("env", env)])
            .filter_map(|(key, value)| value.map(|value| (key, value)))
            .filter(|(key, value)| present[*key] != *value)
            .map(|(key, value)| add(&format!("{path}/{key}"), &value))
            .collect()
    }
}

/// Returns the main container.
fn container(spec: &Value) -> &Value {
    &spec["containers"][0]
}

/// Returns the present map with the changed entries; `None` if no entry changes.
fn changed_entries(present: &Value, before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (before, after) = (object(before), object(after));
    let mut entries = object(present);
    entries.retain(|key, _| after.contains_key(key) || !before.contains_key(key));
    entries.extend(after.into_iter().filter(|(key, value)| before.get(key) != Some(value)));
    Some(Value::Object(entries))
}

/// Returns the present tolerations with the changed ones; `None` if no toleration changes.
fn changed_tolerations(present: &Value, before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (before, after) = (list(before), list(after));
    let is_gone = |toleration: &Value| before.contains(toleration) && !after.contains(toleration);
    let mut all: Vec<Value> =
        list(present).iter().filter(|toleration| !is_gone(toleration)).cloned().collect();
    for toleration in after {
        if !all.contains(toleration) {
            all.push(toleration.clone());
        }
    }
    Some(json!(all))
}

/// Returns the present requests and limits with the changed amounts; `None` if no amount changes.
fn changed_resources(present: &Value, before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let mut resources = object(present);
    // An object without resources also lacks the amounts that the recipe does not change.
    if resources.is_empty() {
        return Some(after.clone());
    }
    for section in ["requests", "limits"] {
        let amounts = resources.get(section).unwrap_or(&Value::Null);
        match changed_entries(amounts, &before[section], &after[section]) {
            Some(Value::Object(empty)) if empty.is_empty() => drop(resources.remove(section)),
            Some(amounts) => drop(resources.insert(section.to_owned(), amounts)),
            None => {}
        }
    }
    Some(Value::Object(resources))
}

/// Returns the present variables with the changed ones in their positions; `None` if no variable changes.
fn changed_variables(present: &Value, before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (before, after) = (list(before), list(after));
    let gone = |variable: &Value| find(before, variable).is_some() && find(after, variable).is_none();
    let changed: Vec<&Value> =
        after.iter().filter(|variable| find(before, variable) != Some(*variable)).collect();
    let mut variables: Vec<Value> =
        list(present).iter().filter(|variable| !gone(variable)).cloned().collect();
    for variable in changed {
        match variables.iter_mut().find(|present| present["name"] == variable["name"]) {
            Some(present) => present.clone_from(variable),
            None => variables.push(variable.clone()),
        }
    }
    Some(json!(variables))
}

fn find<'v>(variables: &'v [Value], like: &Value) -> Option<&'v Value> {
    variables.iter().find(|variable| variable["name"] == like["name"])
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "/spec/head";

    fn patched(present: &Value, before: &Value, after: &Value) -> Value {
        let spec = |container: &Value| json!({"containers": [container]});
        let change = PodChange::new(SPEC, spec(before), spec(after)).expect("a change");
        let mut container = present.clone();
        let object = json!({"spec": {"head": {"containers": [present]}}});
        for operation in change.operations(&object) {
            let key = operation["path"].as_str().unwrap().strip_prefix("/spec/head/containers/0/").unwrap();
            container[key] = operation["value"].clone();
        }
        container
    }

    #[test]
    fn variables_that_others_added_stay() {
        let secret = json!({"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "p"}}});
        let variable = |name: &str, value: &str| json!({"name": name, "value": value});
        let present =
            json!({"env": [secret, variable("A", "1"), variable("GONE", "1"), variable("B", "theirs")]});
        let before = json!({"env": [variable("A", "1"), variable("GONE", "1"), variable("B", "1")]});
        let after = json!({"env": [variable("A", "2"), variable("B", "1"), variable("NEW", "1")]});
        let env = json!([secret, variable("A", "2"), variable("B", "theirs"), variable("NEW", "1")]);
        assert_eq!(patched(&present, &before, &after), json!({"env": env}));
    }

    #[test]
    fn amounts_that_do_not_change_stay_as_they_are() {
        let made = |cpu: Option<&str>| {
            let mut amounts = json!({"memory": "4Gi"});
            if let Some(cpu) = cpu {
                amounts["cpu"] = json!(cpu);
            }
            json!({"resources": {"requests": amounts, "limits": amounts}})
        };
        let present = json!({"resources": {
            "requests": {"cpu": "500m", "memory": "3Gi", "ephemeral-storage": "1Gi"},
            "limits": {"cpu": "2", "memory": "4Gi"}, "claims": [{"name": "c"}],
        }});
        let changed = patched(&present, &made(Some("2")), &made(Some("1")));
        assert_eq!(
            changed,
            json!({"resources": {
                "requests": {"cpu": "1", "memory": "3Gi", "ephemeral-storage": "1Gi"},
                "limits": {"cpu": "1", "memory": "4Gi"}, "claims": [{"name": "c"}],
            }})
        );
        let removed = patched(&present, &made(Some("2")), &made(None));
        assert_eq!(removed["resources"]["limits"], json!({"memory": "4Gi"}));
    }

    #[test]
    fn a_container_without_amounts_gets_all_of_them() {
        let made = |memory: &str| {
            let amounts = json!({"cpu": "1", "memory": memory});
            json!({"resources": {"requests": amounts, "limits": amounts}})
        };
        let changed = patched(&json!({}), &made("1Gi"), &made("4Gi"));
        assert_eq!(changed["resources"], made("4Gi")["resources"]);
    }

    #[test]
    fn an_object_that_already_matches_is_not_patched() {
        let spec = |image: &str| json!({"containers": [{"image": image}]});
        let (before, after) = (spec("a"), spec("b"));
        let change = PodChange::new(SPEC, before.clone(), after.clone()).expect("a change");
        let object = |image: &str| json!({"spec": {"head": spec(image)}});
        assert_eq!(change.operations(&object("b")), Vec::<Value>::new());
        assert_eq!(change.operations(&object("c")), [add("/spec/head/containers/0/image", &json!("b"))]);
        assert_eq!(PodChange::new(SPEC, before.clone(), before), None);
    }

    #[test]
    fn selectors_and_tolerations_that_others_added_stay() {
        let toleration = |key: &str| json!({"key": key, "operator": "Exists"});
        let spec =
            |zone: &str, key: &str| json!({"nodeSelector": {"zone": zone}, "tolerations": [toleration(key)]});
        let change = PodChange::new(SPEC, spec("a", "old"), spec("b", "new")).expect("a change");
        let present = json!({
            "nodeSelector": {"zone": "a", "disk": "ssd"}, "tolerations": [toleration("theirs"), toleration("old")],
        });
        let operations = change.operations(&json!({"spec": {"head": present}}));
        let selector = add("/spec/head/nodeSelector", &json!({"zone": "b", "disk": "ssd"}));
        let tolerations = add("/spec/head/tolerations", &json!([toleration("theirs"), toleration("new")]));
        assert_eq!(operations, [selector, tolerations]);
    }
}
