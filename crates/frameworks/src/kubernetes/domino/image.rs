//! Images, which Domino's objects name in parts and pods in full.

use serde_json::{Value, json};

use crate::kubernetes::words::text;

/// Where images are whose names say no place.
const HUB: &str = "docker.io";

/// The image that an object names, as its pods do.
pub(super) fn of_object(image: &Value) -> String {
    let part = |key: &str| text(&image[key]);
    let (registry, repository, tag) = (part("registry"), part("repository"), part("tag"));
    if repository.is_empty() {
        return String::new();
    }
    let named = if registry.is_empty() { repository } else { format!("{registry}/{repository}") };
    in_full(&if tag.is_empty() { named } else { format!("{named}:{tag}") })
}

/// An image's name with all that is left out of it usually.
pub(super) fn in_full(image: &str) -> String {
    let (place, rest) = place(image);
    let tag = if rest.contains([':', '@']) { "" } else { ":latest" };
    let folder = if place.is_none() && !rest.contains('/') { "library/" } else { "" };
    format!("{}/{folder}{rest}{tag}", place.unwrap_or(HUB))
}

/// The parts that an object names an image in; the sentence says what they cannot name.
pub(super) fn to_object(image: &str) -> Result<Value, String> {
    let (place, rest) = place(image);
    match rest.rsplit_once(':') {
        Some((repository, tag)) if !rest.contains('@') && !repository.is_empty() => {
            Ok(json!({"registry": place, "repository": repository, "tag": tag}))
        }
        _ => Err(format!(
            "image '{image}' is not possible with Domino: name it with a tag, and without a digest"
        )),
    }
}

/// The place that an image's name begins with, if it does: only places have dots, ports or are this machine.
fn place(image: &str) -> (Option<&str>, &str) {
    match image.split_once('/') {
        Some((place, rest)) if place.contains(['.', ':']) || place == "localhost" => (Some(place), rest),
        _ => (None, image),
    }
}
