//! The label and annotation of an ephemeral cluster's objects, which name the app that the cluster ends with.

use muster_core::app::EphemeralMark;
use muster_core::unknown_fields::UnknownFields;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::object_kind;
use crate::ownership;

/// The label with the name of the app.
const EPHEMERAL: &str = "ephemeral";

/// The annotation with name, kind and UID of the app.
const APP: &str = "muster.dev/app";

/// The length limit of a label's value.
const MAX_LABEL_LENGTH: usize = 63;

/// Returns the label's value for the name of an app. A name that is too long is cut, and ends with a hash of it.
fn label_value(name: &str) -> String {
    if name.len() <= MAX_LABEL_LENGTH {
        return name.to_owned();
    }
    let hash = format!("{:x}", Sha256::digest(name));
    let begin: String = name.chars().take(MAX_LABEL_LENGTH - 9).collect();
    format!("{}-{:.8}", begin.trim_end_matches(['-', '.']), hash)
}

/// Writes the mark of a cluster on one of its objects. The app also becomes an owner of the root.
pub(crate) fn write_mark(object: &mut Value, mark: &EphemeralMark, is_root: bool) {
    let metadata = &mut object["metadata"];
    ownership::add_metadata(metadata, "labels", EPHEMERAL, label_value(&mark.app));
    ownership::add_metadata(metadata, "annotations", APP, json!(mark).to_string());
    let Some(kind) = mark.kind.and_then(object_kind).filter(|_| is_root && !mark.uid.is_empty()) else {
        return;
    };
    metadata["ownerReferences"] = json!([{
        "apiVersion": kind.api_version(), "kind": kind.kind, "name": mark.app, "uid": mark.uid,
    }]);
}

/// Reads the mark of an object. The label decides, and an empty one names no app; the annotation has the kind, the
/// UID and the whole name.
pub(crate) fn mark_of(object: &Value) -> Option<EphemeralMark> {
    let metadata = &object["metadata"];
    let value = metadata["labels"][EPHEMERAL].as_str().filter(|value| !value.is_empty())?;
    let whole = metadata["annotations"][APP].as_str();
    let whole = whole.and_then(|json| serde_json::from_str::<EphemeralMark>(json).ok());
    let alone = || EphemeralMark {
        app: value.to_owned(),
        kind: None,
        uid: String::new(),
        unknown: UnknownFields::default(),
    };
    Some(whole.filter(|mark| label_value(&mark.app) == value).unwrap_or_else(alone))
}

/// Returns the app in the annotation of an object, if the label no longer names it.
pub(crate) fn former_app(object: &Value) -> Option<EphemeralMark> {
    let metadata = &object["metadata"];
    let former: EphemeralMark = serde_json::from_str(metadata["annotations"][APP].as_str()?).ok()?;
    let is_named = metadata["labels"][EPHEMERAL].as_str() == Some(&label_value(&former.app));
    (!is_named).then_some(former)
}

/// Returns the merge patch that removes the ownership of a former app: otherwise Kubernetes would delete the cluster
/// with that app; `None` if the root has no former app.
pub(crate) fn release_patch(root: &Value) -> Option<Value> {
    let metadata = &root["metadata"];
    let former = former_app(root)?;
    let owners = metadata["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let others: Vec<&Value> = owners.iter().filter(|owner| owner["uid"] != former.uid.as_str()).collect();
    // The version makes the API server refuse the patch if the label was changed again.
    Some(json!({"metadata": {
        "resourceVersion": metadata["resourceVersion"],
        "annotations": {APP: Value::Null},
        "ownerReferences": others,
    }}))
}

#[cfg(test)]
mod tests {
    use muster_core::app::AppKind;

    use super::*;

    fn mark(app: &str) -> EphemeralMark {
        EphemeralMark {
            app: app.to_owned(),
            kind: Some(AppKind::ReplicaSet),
            uid: "u-1".to_owned(),
            unknown: UnknownFields::default(),
        }
    }

    #[test]
    fn a_root_names_the_app_that_it_ends_with_and_is_owned_by_it() {
        let mut root = json!({"metadata": {"name": "fred", "labels": {"team": "a"}}});
        write_mark(&mut root, &mark("bob-1"), true);
        let metadata = &root["metadata"];
        assert_eq!(metadata["labels"], json!({"team": "a", "ephemeral": "bob-1"}));
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bob-1", "uid": "u-1"}]);
        assert_eq!(metadata["ownerReferences"], owner);
        assert_eq!(mark_of(&root), Some(mark("bob-1")));
    }

    #[test]
    fn an_object_beside_the_root_is_not_owned_by_the_app() {
        let mut part = json!({"metadata": {"name": "fred-w"}});
        write_mark(&mut part, &mark("bob-1"), false);
        assert!(part["metadata"]["ownerReferences"].is_null());
        assert_eq!(mark_of(&part), Some(mark("bob-1")));
    }

    #[test]
    fn the_annotation_has_the_whole_of_a_long_name() {
        let long = "b".repeat(80);
        let mut root = json!({"metadata": {"name": "fred"}});
        write_mark(&mut root, &mark(&long), true);
        let value = root["metadata"]["labels"][EPHEMERAL].as_str().expect("a label");
        assert!(value.len() <= MAX_LABEL_LENGTH && value.starts_with("bbbb"), "{value}");
        assert_eq!(mark_of(&root), Some(mark(&long)));
    }

    #[test]
    fn the_label_wins_over_the_annotation() {
        let mut root = json!({"metadata": {"name": "fred"}});
        write_mark(&mut root, &mark("bob-1"), true);
        root["metadata"]["labels"][EPHEMERAL] = "ann-7".into();
        let of_label = EphemeralMark { app: "ann-7".to_owned(), kind: None, uid: String::new(), ..mark("") };
        assert_eq!(mark_of(&root), Some(of_label));
        root["metadata"]["labels"] = json!({});
        assert_eq!(mark_of(&root), None, "without the label it is shared");
    }

    #[test]
    fn an_app_that_the_label_no_longer_names_is_removed_as_an_owner() {
        let mut root = json!({"metadata": {"name": "fred", "resourceVersion": "7"}});
        assert_eq!(release_patch(&root), None);
        write_mark(&mut root, &mark("bob-1"), true);
        assert_eq!(release_patch(&root), None);
        let other = json!({"kind": "ConfigMap", "name": "x", "uid": "u-2"});
        root["metadata"]["ownerReferences"].as_array_mut().expect("a list").push(other.clone());
        let freed = json!({"metadata": {
            "resourceVersion": "7", "annotations": {APP: null}, "ownerReferences": [other],
        }});
        for (label, is_marked) in
            [(json!({"ephemeral": "ann-1"}), true), (json!({"ephemeral": ""}), false), (json!({}), false)]
        {
            root["metadata"]["labels"] = label;
            assert_eq!(release_patch(&root), Some(freed.clone()));
            assert_eq!(mark_of(&root).is_some(), is_marked);
        }
    }
}
