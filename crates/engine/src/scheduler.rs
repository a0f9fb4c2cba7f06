//! Which actions and tasks run when: claiming, running, requeueing with back-off.

pub(crate) mod dispatcher;
mod finish;
pub(crate) mod heartbeat;
mod requeue;
mod runner;
mod supervised;
pub(crate) mod tasks;
