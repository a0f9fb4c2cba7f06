//! The version of Ray in an object, and the token that depends on it.

use muster_core::recipe::ClusterRecipe;
use muster_core::software::{ImageTag, major_and_minor};
use serde_json::{Value, json};

use super::super::patch::{add, remove};
use super::super::pod;
use super::DesiredCluster;
use super::manifests::default_image;

/// The label with the version, as KubeRay's own API server writes it.
pub(super) const RAY_VERSION: &str = "ray.io/version";

/// The first version of Ray that supports tokens. The operator rejects tokens of objects without a version, or with an
/// older one.
const FIRST_WITH_TOKEN: (u32, u32) = (2, 52);

/// The part of a version that is larger than that of any Ray version: such a tag is a date.
const NO_MAJOR: u32 = 1000;

/// Returns the version of a new cluster: as given, or that of the head's image. An empty version is a value of its own:
/// existing clients may send it, and expect it back.
pub(super) fn of_new_cluster(recipe: &ClusterRecipe) -> Option<String> {
    recipe.version.clone().or_else(|| of_head(recipe))
}

/// Returns the authentication options of a head with this version; `None` if it requires no token.
pub(super) fn token(recipe: &ClusterRecipe, version: Option<&str>) -> Option<Value> {
    let supports =
        |version: &str| major_and_minor(version).is_some_and(|version| version >= FIRST_WITH_TOKEN);
    let has_image_with_token = of_head(recipe).is_none_or(|version| supports(&version));
    let requires = recipe.token.unwrap_or(true) && version.is_some_and(supports) && has_image_with_token;
    requires.then(|| json!({"mode": "token"}))
}

/// Returns the operations that update version and token of an object with the `observed` version, if its head gets
/// another image or version.
pub(super) fn operations(
    before: DesiredCluster<'_>,
    after: DesiredCluster<'_>,
    observed: Option<&str>,
) -> Vec<Value> {
    let is_external = after.cluster.is_external();
    let (old, new) = (before.recipe, after.recipe);
    let is_same =
        (&old.version, old.token) == (&new.version, new.token) && old.head().image == new.head().image;
    if is_same {
        return Vec::new();
    }
    // The image that an update names says more than the version of the create request.
    let version =
        if old.version == new.version { of_head(new).or(new.version.clone()) } else { of_new_cluster(new) };
    let mut operations = Vec::new();
    if version.as_deref() != observed && !(is_external && version.is_none()) {
        if !is_external {
            let label = pod::label_safe(version.as_deref().unwrap_or_default());
            operations
                .push(add(&format!("/metadata/labels/{}", RAY_VERSION.replace('/', "~1")), &label.into()));
        }
        operations.extend(replaced("/spec/rayVersion", version.clone().map(Value::from), &json!("")));
    }
    // The token of an external cluster is not Muster's.
    let (was, token) = (token(old, observed), token(new, version.as_deref()));
    if was != token && !is_external {
        operations.extend(replaced("/spec/authOptions", token, &json!({})));
    }
    operations
}

/// Writes a field, or removes it.
fn replaced(path: &str, value: Option<Value>, empty: &Value) -> Vec<Value> {
    match value {
        Some(value) => vec![add(path, &value)],
        None => remove(path, empty).into(),
    }
}

/// Returns the version in the tag of the head's image, or of the default image if none is given.
fn of_head(recipe: &ClusterRecipe) -> Option<String> {
    let image = recipe.head().image.unwrap_or_else(|| default_image(recipe.version.as_deref()));
    let version = ImageTag::of(&image)?.version()?;
    major_and_minor(version).filter(|(major, _)| *major < NO_MAJOR).map(|_| version.to_owned())
}
