//! Claims actions and tasks, runs them, and requeues them with a back-off.

pub(crate) mod dispatcher;
mod finish;
pub(crate) mod heartbeat;
pub(crate) mod jobs;
mod requeue;
mod runner;
mod supervised;
mod task_queue;
pub(crate) mod tasks;
