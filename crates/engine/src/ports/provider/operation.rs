//! Operations that only some profile types support.

use muster_core::spec::Schema;

/// Something that can be done to nodes of a type.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// What it is called.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub description: &'static str,
    /// What it can be told.
    pub parameters: Schema,
}

/// What became of a node that is to follow a new recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Updated {
    /// It follows it now.
    InPlace,
    /// It has to be stopped and started for that.
    MakeAnew,
}
