//! Names of shapes. A name is resolved when it is given, so that a later change of what it stands for does not affect what
//! was made with it. Names of image templates are resolved when a cluster is created.

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

    /// What a name of a shape stands for.
    pub fn shape(&self, name: &str) -> Result<&Shape, ServiceError> {
        let known = self.shapes();
        known.iter().find(|known| known.name == name).map(|known| &known.shape).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
            let choice = if names.is_empty() {
                "none is configured".to_owned()
            } else {
                format!("there are {}", names.join(", "))
            };
            let message = format!(
                "there is no shape '{name}': {choice}; or give amounts, such as cpu=2,memory=4Gi,gpu=1"
            );
            ServiceError::invalid(message).code("UnknownShape")
        })
    }

    /// Completes the recipe in a profile by the shapes that it names; what it gives beside a name wins.
    pub fn resolve_names(
        &self,
        kind: &ProfileType,
        properties: &mut Map<String, Value>,
    ) -> Result<(), ServiceError> {
        if framework_of(kind).is_none() {
            return Ok(());
        }
        for node in NODES {
            let Some(given) = properties.get_mut(node) else { continue };
            // What is no recipe is refused with the other properties.
            let Ok(recipe) = NodeRecipe::deserialize(&*given) else { continue };
            if let Some(name) = &recipe.shape {
                let shape = recipe.shape().or(self.shape(name)?.clone());
                shape.check().map_err(|why| ServiceError::invalid(format!("{node}: {why}")))?;
                *given = serde_json::to_value(recipe.with_shape(shape)).unwrap_or_default();
            }
        }
        Ok(())
    }
}
