//! Resolves names of shapes. A name is resolved when it is given, so that a later change of the shape does not affect
//! existing profiles and clusters. Names of image templates are resolved when a cluster is created.

use muster_core::profile::ProfileType;
use muster_core::recipe::NodeRecipe;
use muster_core::shape::{NamedShape, Shape};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::error::ServiceError;
use crate::placement::framework_of;
use crate::service::Service;

/// The parts of a recipe that can name a shape.
const NODES: [&str; 2] = ["head", "worker"];

impl Service {
    /// The shapes that requests can name.
    pub fn shapes(&self) -> &[NamedShape] {
        &self.shapes
    }

    /// The configured shape with this name, if there is one.
    pub(crate) fn find_shape(&self, name: &str) -> Option<&Shape> {
        self.shapes().iter().find(|known| known.name == name).map(|known| &known.shape)
    }

    /// The error of a name that neither a configured shape nor a compute template of the namespace has.
    pub(crate) fn unknown_shape(&self, name: &str, namespace: &str) -> ServiceError {
        let names: Vec<&str> = self.shapes().iter().map(|known| known.name.as_str()).collect();
        let remedies = [
            Some("create it with `muster shape create`".to_owned()),
            (!names.is_empty()).then(|| format!("use one of {}", names.join(", "))),
            Some("give amounts such as cpu=2,memory=4Gi,gpu=1".to_owned()),
        ];
        let remedies: Vec<String> = remedies.into_iter().flatten().collect();
        let message =
            format!("shape '{name}' not found in namespace '{namespace}': {}", remedies.join(", or "));
        ServiceError::invalid(message).code("UnknownShape")
    }

    /// Completes the recipe in a profile by the shapes, compute templates of the namespace and machine types that it
    /// names. Amounts in the recipe take precedence over those of a named shape.
    pub async fn resolve_names(
        &self,
        kind: &ProfileType,
        namespace: &str,
        properties: &mut Map<String, Value>,
    ) -> Result<(), ServiceError> {
        let Some(framework) = framework_of(kind) else { return Ok(()) };
        let namespace = properties.get("namespace").and_then(Value::as_str).unwrap_or(namespace).to_owned();
        for node in NODES {
            let Some(given) = properties.get_mut(node) else { continue };
            // Invalid recipes are refused with the other properties.
            let Ok(recipe) = NodeRecipe::deserialize(&*given) else { continue };
            if let Some(name) = &recipe.shape {
                let shape = recipe.shape().or(self.named_shape(&namespace, name).await?);
                shape.check().map_err(|why| ServiceError::invalid(format!("{node}: {why}")))?;
                *given = serde_json::to_value(recipe.with_shape(shape)).unwrap_or_default();
            } else if let Some(guest) = self.guest_recipe(node, framework, &namespace, &recipe)? {
                *given = serde_json::to_value(guest).unwrap_or_default();
            }
        }
        Ok(())
    }
}
