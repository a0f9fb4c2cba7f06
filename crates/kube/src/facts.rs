//! What is kept of objects: only what is used.

mod event;
mod object;
mod pod;

pub(crate) use event::LeanEvent;
pub(crate) use object::{ObjectFacts, is_older, moment};
pub(crate) use pod::{Crashed, LeanPod, NodePod, PodFacts};
