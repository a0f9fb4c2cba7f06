//! A changed recipe in an object that others write, too: only what the change is about is written.

use serde_json::{Map, Value, json};

use super::patch::add;

/// What of a container is written as a whole: a list of arguments has no names to tell others' entries by.
const WHOLE: [&str; 3] = ["image", "command", "args"];

/// The first container of a pod's spec in an object, as a recipe made it before and as it makes it now.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerChange {
    /// The path of the pod's spec in the object.
    spec: String,
    before: Value,
    after: Value,
}

impl ContainerChange {
    /// A change of image, command, arguments, amounts or variables; none if the recipes make the same of these.
    pub(super) fn new(spec: impl Into<String>, before: Value, after: Value) -> Option<Self> {
        let mut keys = WHOLE.iter().chain(&["resources", "env"]);
        let differs = keys.any(|key| before[*key] != after[*key]);
        differs.then(|| Self { spec: spec.into(), before, after })
    }

    /// The operations of a JSON patch for an object as it is at present: whatever its container has beside stays.
    pub fn operations(&self, object: &Value) -> Vec<Value> {
        let Self { spec, before, after } = self;
        let path = format!("{spec}/containers/0");
        let present = object.pointer(&path).unwrap_or(&Value::Null);
        let whole = WHOLE.map(|key| {
            // What is empty is not made at all, but may be there.
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

/// Requests and limits with the amounts that differ; none if no amount does.
fn changed_resources(present: &Value, before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let mut resources = present.as_object().cloned().unwrap_or_default();
    for section in ["requests", "limits"] {
        let (before, after) = (object(&before[section]), object(&after[section]));
        let mut amounts = resources.get(section).map(object).unwrap_or_default();
        amounts.retain(|name, _| after.contains_key(name) || !before.contains_key(name));
        amounts.extend(after.into_iter().filter(|(name, amount)| before.get(name) != Some(amount)));
        if amounts.is_empty() {
            resources.remove(section);
        } else {
            resources.insert(section.to_owned(), Value::Object(amounts));
        }
    }
    Some(Value::Object(resources))
}

/// The variables with those that differ, each at its place; none if none does.
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
        let change = ContainerChange::new(SPEC, before.clone(), after.clone()).expect("a change");
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
    fn nothing_is_written_that_is_so_already() {
        let (before, after) = (json!({"image": "a"}), json!({"image": "b"}));
        let change = ContainerChange::new(SPEC, before.clone(), after.clone()).expect("a change");
        let object = |image: &str| json!({"spec": {"head": {"containers": [{"image": image}]}}});
        assert_eq!(change.operations(&object("b")), Vec::<Value>::new());
        assert_eq!(change.operations(&object("c")), [add("/spec/head/containers/0/image", &json!("b"))]);
        assert_eq!(ContainerChange::new(SPEC, before.clone(), before), None);
    }
}
