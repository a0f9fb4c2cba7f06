use rstest::rstest;
use serde::Deserialize as _;
use serde_json::json;

use super::*;
use crate::cluster::Cluster;
use crate::profile::Profile;
use crate::sample;

/// A cluster that was created with these fields, and the profile that was made from them.
fn created() -> (Cluster, Profile) {
    let shown = json!({
        "version": "2.9",
        "envs": {"ALL": "1", "BOTH": "1"},
        "clusterSpec": {"headGroupSpec": {
            "image": "ray:1", "environment": {"HEAD": "1"}, "args": ["--a"], "serviceType": "NodePort",
            "labels": {"team": "a", "stage": "test"}, "shape": {"cpu": "1", "memory": "2Gi"}, "newer": 1,
        }},
        "profileProperties": {"head": {
            "env": {"OWN": "1", "BOTH": "0"}, "args": ["--own"], "pod": {"labels": {"own": "1", "stage": "dev"}},
        }},
    });
    let cluster =
        Cluster { spec: Map::from_iter([(SHOWN.to_owned(), shown)]), ..sample::cluster(1, 0, None) };
    let below = cluster.spec[SHOWN]["profileProperties"].as_object().cloned().unwrap();
    let below = ClusterRecipe::from_stored(&below).unwrap();
    let made = GivenRecipe::stored_in(&cluster.spec).over(&below.clone(), below);
    let properties = serde_json::to_value(made).unwrap().as_object().cloned().unwrap();
    (cluster, Profile { properties, implicit: true, ..sample::profile() })
}

fn update(inputs: &Value) -> ClusterUpdate {
    ClusterUpdate::deserialize(inputs).expect("an update")
}

fn made(cluster: &Cluster, profile: &Profile) -> Value {
    let recipe = ClusterRecipe::of_cluster(cluster, profile).expect("a recipe");
    json!({"head": recipe.head, "worker": recipe.worker})
}

#[rstest]
#[case::nothing(json!({"labels": {"a": "b"}}), json!({}), json!({}))]
#[case::variable(
    json!({"env": {"keys": {"NEW": "2", "BOTH": null}}}),
    json!({"env": {"OWN": "1", "BOTH": "0", "ALL": "1", "NEW": "2", "HEAD": "1"}}),
    json!({"env": {"ALL": "1", "NEW": "2"}})
)]
#[case::all_variables(
    json!({"env": {"A": "2"}}),
    json!({"env": {"OWN": "1", "BOTH": "0", "A": "2", "HEAD": "1"}}),
    json!({"env": {"A": "2"}})
)]
#[case::variables_of_the_head(
    json!({"head": {"env": {"ALL": "2"}}}),
    json!({"env": {"OWN": "1", "BOTH": "1", "ALL": "2"}}),
    json!({})
)]
#[case::head(
    json!({"head": {"image": null, "args": ["--b"], "shape": {"cpu": "4", "memory": null}}}),
    json!({"image": null, "args": ["--own", "--b"], "cpu": "4", "memory": null}),
    json!({})
)]
#[case::labels_of_the_head(
    json!({"head": {"labels": {"keys": {"team": null, "stage": null, "new": "1"}}}}),
    json!({"pod": {"labels": {"own": "1", "stage": "dev", "new": "1"}}}),
    json!({})
)]
#[case::all_labels_of_the_head(
    json!({"head": {"labels": {}}}),
    json!({"pod": {"labels": {"own": "1", "stage": "dev"}}}),
    json!({})
)]
fn an_update_changes_what_it_names_and_the_profile_applies_to_the_rest(
    #[case] inputs: Value,
    #[case] head: Value,
    #[case] worker: Value,
) {
    let (mut cluster, profile) = created();
    let mut expected = made(&cluster, &profile);
    GivenRecipe::update(&mut cluster.spec, &update(&inputs));
    for (part, changes) in [("head", head), ("worker", worker)] {
        for (key, value) in changes.as_object().cloned().unwrap_or_default() {
            let part = expected[part].as_object_mut().expect("a recipe");
            if value.is_null() { drop(part.remove(&key)) } else { drop(part.insert(key, value)) }
        }
    }
    assert_eq!(made(&cluster, &profile), expected);
}

#[test]
fn a_guest_stays_a_guest_of_the_machine_type_that_the_profile_names() {
    let (mut cluster, mut profile) = created();
    let of_guest = GUEST_LABELS.map(|key| (key.to_owned(), json!("x")));
    let labels = profile.properties["head"]["pod"]["labels"].as_object_mut().expect("labels");
    labels.extend(of_guest.clone());
    GivenRecipe::update(&mut cluster.spec, &update(&json!({"head": {"labels": {}}})));
    let own = [("own".to_owned(), json!("1")), ("stage".to_owned(), json!("dev"))];
    let expected: Map<String, Value> = of_guest.into_iter().chain(own).collect();
    assert_eq!(made(&cluster, &profile)["head"]["pod"]["labels"], Value::Object(expected));
}

#[test]
fn what_no_update_changes_stays_as_it_is_stored() {
    let (mut cluster, _) = created();
    let before = cluster.spec[SHOWN].clone();
    GivenRecipe::update(&mut cluster.spec, &update(&json!({"head": {"image": "ray:2"}})));
    let mut expected = before;
    expected["clusterSpec"]["headGroupSpec"]["image"] = json!("ray:2");
    assert_eq!(cluster.spec[SHOWN], expected, "fields of the API and of newer versions too");
}

#[test]
fn what_cannot_be_read_stays_as_it_is_stored() {
    let (mut cluster, _) = created();
    let shown = json!({
        "envs": {"values": 1}, "version": 7, "clusterSpec": {"headGroupSpec": {"shape": {"cpu": [], "memory": "1Gi"}}},
    });
    cluster.spec.insert(SHOWN.to_owned(), shown.clone());
    GivenRecipe::update(
        &mut cluster.spec,
        &update(&json!({"head": {"args": ["--z"], "shape": {"memory": null}}})),
    );
    let mut expected = shown;
    expected["clusterSpec"]["headGroupSpec"] = json!({"shape": {"cpu": []}, "args": ["--z"]});
    assert_eq!(cluster.spec[SHOWN], expected);
}

#[test]
fn what_was_given_goes_before_a_profile_of_its_own() {
    let properties = json!({"image": "all:1", "head": {"env": {"OWN": "1"}}, "worker": {"args": ["--x"]}});
    let properties = properties.as_object().cloned().unwrap();
    let profile = Profile { properties, implicit: false, ..sample::profile() };
    let mut cluster = sample::cluster(1, 0, None);
    GivenRecipe::update(&mut cluster.spec, &update(&json!({"env": {"A": "1"}})));
    let expected =
        json!({"head": {"env": {"OWN": "1", "A": "1"}}, "worker": {"env": {"A": "1"}, "args": ["--x"]}});
    assert_eq!(made(&cluster, &profile), expected);
    GivenRecipe::drop(&mut cluster.spec);
    assert_eq!(
        ClusterRecipe::of_cluster(&cluster, &profile),
        ClusterRecipe::from_stored(&profile.properties)
    );
}

#[test]
fn what_does_not_concern_the_nodes_outlives_a_change_of_the_profile() {
    let (mut cluster, _) = created();
    cluster.spec[SHOWN]["app"] = json!("a1");
    cluster.spec[SHOWN]["ephemeral"] = json!(true);
    GivenRecipe::update(&mut cluster.spec, &update(&json!({"env": {"A": "1"}})));
    GivenRecipe::drop(&mut cluster.spec);
    let head = json!({"serviceType": "NodePort", "newer": 1});
    let left = json!({"app": "a1", "ephemeral": true, "clusterSpec": {"headGroupSpec": head}});
    assert_eq!(Value::Object(cluster.spec), json!({SHOWN: left}));
}
