//! Operations that only some profile types support.

use muster_core::spec::Schema;

/// Something that can be done to nodes of a type.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub description: &'static str,
    /// Its parameters.
    pub parameters: Schema,
}

/// The result of moving a node to a new profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The node was updated in place.
    InPlace,
    /// The node has to be recreated.
    MustRecreate,
}
