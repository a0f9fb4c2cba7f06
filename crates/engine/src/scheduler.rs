//! Which actions and tasks run when: claiming, running, requeueing with back-off.

pub(crate) mod dispatcher;
mod finish;
pub(crate) mod heartbeat;
pub(crate) mod jobs;
mod requeue;
mod runner;
mod supervised;
pub(crate) mod tasks;
