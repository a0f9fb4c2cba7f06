//! Image names: Domino's objects have them in parts, pods in full.

use serde_json::{Value, json};

use crate::kubernetes::projection::text;

/// The default registry.
const DEFAULT_REGISTRY: &str = "docker.io";

/// Returns the full name of an object's image, as pods have it.
pub(super) fn of_object(image: &Value) -> String {
    let part = |key: &str| text(&image[key]);
    let (registry, repository, tag) = (part("registry"), part("repository"), part("tag"));
    if repository.is_empty() {
        return String::new();
    }
    let named = if registry.is_empty() { repository } else { format!("{registry}/{repository}") };
    in_full(&if tag.is_empty() { named } else { format!("{named}:{tag}") })
}

/// Returns the full name of an image, with default registry, folder and tag.
pub(super) fn in_full(image: &str) -> String {
    let (registry, rest) = split_registry(image);
    let tag = if rest.contains([':', '@']) { "" } else { ":latest" };
    let folder = if registry.is_none() && !rest.contains('/') { "library/" } else { "" };
    format!("{}/{folder}{rest}{tag}", registry.unwrap_or(DEFAULT_REGISTRY))
}

/// Returns the parts of an image's name for an object; the error explains names that cannot be written in parts.
pub(super) fn to_object(image: &str) -> Result<Value, String> {
    let (registry, rest) = split_registry(image);
    match rest.rsplit_once(':') {
        Some((repository, tag)) if !rest.contains('@') && !repository.is_empty() => {
            Ok(json!({"registry": registry, "repository": repository, "tag": tag}))
        }
        _ => Err(format!("image '{image}' is not possible with Domino: use a tag and no digest")),
    }
}

/// Returns the registry that an image's name begins with, if any: only registries have dots or ports, or are
/// `localhost`.
fn split_registry(image: &str) -> (Option<&str>, &str) {
    match image.split_once('/') {
        Some((registry, rest)) if registry.contains(['.', ':']) || registry == "localhost" => {
            (Some(registry), rest)
        }
        _ => (None, image),
    }
}
