//! The parts of Kubernetes objects that are kept in memory.

mod event;
mod object;
mod pod;

pub(crate) use event::LeanEvent;
pub(crate) use object::{CachedObject, is_older, parse_timestamp};
pub(crate) use pod::{AwaitedSlot, ClusterPod, CrashLoop, LeanPod, NodePod};
