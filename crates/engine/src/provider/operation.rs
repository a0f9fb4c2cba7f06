//! What can be done to nodes of some types only.

use serde_json::{Map, Value};

/// Something that can be done to nodes of a type.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// What it is called.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub description: &'static str,
    /// Its parameters by name: each with `type`, `required`, `description`, and perhaps `default` and `constraints`,
    /// as profile types say it of their properties.
    pub parameters: Map<String, Value>,
}

/// What became of a node that is to follow a new recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Updated {
    /// It follows it now.
    InPlace,
    /// It has to be stopped and started for that.
    MakeAnew,
}
