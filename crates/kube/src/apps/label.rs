//! What objects of a cluster say of the app that the cluster ends with.

use std::collections::BTreeMap;

use muster_core::app::EphemeralMark;
use muster_core::unknown_fields::UnknownFields;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::object_kind;
use crate::marks;

/// The label with the name of the app.
const EPHEMERAL: &str = "ephemeral";

/// The annotation with name, kind and UID of the app.
const APP: &str = "muster.dev/app";

/// The longest value of a label.
const LONGEST: usize = 63;

/// The name of an app as a label allows it: what is too long ends with a hash of it.
fn label(name: &str) -> String {
    if name.len() <= LONGEST {
        return name.to_owned();
    }
    let hash = format!("{:x}", Sha256::digest(name));
    let begin: String = name.chars().take(LONGEST - 9).collect();
    format!("{}-{:.8}", begin.trim_end_matches(['-', '.']), hash)
}

/// Writes the mark of a cluster on an object of it; the root is owned by the app too.
pub(crate) fn write_mark(object: &mut Value, mark: &EphemeralMark, is_root: bool) {
    let metadata = &mut object["metadata"];
    marks::add(metadata, "labels", EPHEMERAL, label(&mark.app));
    marks::add(metadata, "annotations", APP, json!(mark).to_string());
    let Some(kind) = mark.kind.and_then(object_kind).filter(|_| is_root && !mark.uid.is_empty()) else {
        return;
    };
    metadata["ownerReferences"] = json!([{
        "apiVersion": kind.api_version(), "kind": kind.kind, "name": mark.app, "uid": mark.uid,
    }]);
}

/// The mark that an object has. The label decides; the annotation adds to it what a label cannot hold.
pub(crate) fn mark_of(
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Option<EphemeralMark> {
    let value = labels.get(EPHEMERAL)?;
    let whole = annotations.get(APP).and_then(|json| serde_json::from_str::<EphemeralMark>(json).ok());
    let alone = || EphemeralMark {
        app: value.clone(),
        kind: None,
        uid: String::new(),
        unknown: UnknownFields::default(),
    };
    Some(whole.filter(|mark| label(&mark.app) == *value).unwrap_or_else(alone))
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

    fn read(object: &Value) -> Option<EphemeralMark> {
        let texts =
            |place: &str| serde_json::from_value(object["metadata"][place].clone()).unwrap_or_default();
        mark_of(&texts("labels"), &texts("annotations"))
    }

    #[test]
    fn a_root_says_which_app_it_ends_with_and_is_owned_by_it() {
        let mut root = json!({"metadata": {"name": "fred", "labels": {"team": "a"}}});
        write_mark(&mut root, &mark("bob-1"), true);
        let metadata = &root["metadata"];
        assert_eq!(metadata["labels"], json!({"team": "a", "ephemeral": "bob-1"}));
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "bob-1", "uid": "u-1"}]);
        assert_eq!(metadata["ownerReferences"], owner);
        assert_eq!(read(&root), Some(mark("bob-1")));
    }

    #[test]
    fn a_part_is_not_owned_by_the_app() {
        let mut part = json!({"metadata": {"name": "fred-w"}});
        write_mark(&mut part, &mark("bob-1"), false);
        assert!(part["metadata"]["ownerReferences"].is_null());
        assert_eq!(read(&part), Some(mark("bob-1")));
    }

    #[test]
    fn a_long_name_stands_whole_in_the_annotation() {
        let long = "b".repeat(80);
        let mut root = json!({"metadata": {"name": "fred"}});
        write_mark(&mut root, &mark(&long), true);
        let value = root["metadata"]["labels"][EPHEMERAL].as_str().expect("a label");
        assert!(value.len() <= LONGEST && value.starts_with("bbbb"), "{value}");
        assert_eq!(read(&root), Some(mark(&long)));
    }

    #[test]
    fn the_label_wins_over_the_annotation() {
        let mut root = json!({"metadata": {"name": "fred"}});
        write_mark(&mut root, &mark("bob-1"), true);
        root["metadata"]["labels"][EPHEMERAL] = "ann-7".into();
        let of_label = EphemeralMark { app: "ann-7".to_owned(), kind: None, uid: String::new(), ..mark("") };
        assert_eq!(read(&root), Some(of_label));
        root["metadata"]["labels"] = json!({});
        assert_eq!(read(&root), None, "without the label it is shared");
    }
}
