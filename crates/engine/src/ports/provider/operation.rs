//! Operations that only some profile types support.

use muster_core::spec::Schema;

/// An operation that nodes of a type support.
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
