//! What is kept of objects: only what is used.

mod object;
mod pod;

pub(crate) use object::{ObjectFacts, is_older};
pub(crate) use pod::{LeanPod, PodFacts};
