//! Shared parts of the tests: a real Kubernetes, a real PostgreSQL, real frameworks, and fakes for faults. Linux only.
//!
//! One process, the [`testbed`], owns the real programs for a whole test run. Tests request a program from it, and are
//! skipped with the reason if the program is not available:
//!
//! ```no_run
//! # async fn example() {
//! let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
//! let namespace = kubernetes.namespace().await;
//! # }
//! ```
//!
//! Fakes are for faults only: [`fake`] is a provider that fails on command, [`operator`] a provider whose members are
//! created by an operator, and [`world`] a provider in a separate process, for engines that are killed and stopped.
//! [`outside`] imitates services that the server calls.
//!
//! No program of Muster depends on this crate, and the tests of a single crate are not here. Begin reading at
//! `kubernetes.rs`, `postgres.rs` and `eventually.rs`, which most tests use; `docs/testing.md` has an overview.

mod changes;
mod clock;
mod closed_port;
mod databases;
mod death_signal;
mod dice;
mod disk;
mod domino;
mod eventually;
pub mod fake;
mod helm;
mod kubernetes;
mod logs;
mod openstack;
pub mod operator;
pub mod outside;
mod postgres;
mod process;
mod process_folder;
mod proxy;
mod python;
mod shared;
mod stdin;
pub mod testbed;
mod tls;
mod wire;
pub mod world;

pub use changes::read_change;
pub use clock::ManualClock;
pub use closed_port::ClosedPort;
pub use databases::{DatabaseKind, FreshStore};
pub use dice::Dice;
pub use disk::SmallDisk;
pub use domino::FakeDomino;
pub use eventually::eventually;
pub use helm::helm;
pub use kubernetes::{
    Component, Gate, Kubernetes, Namespace, Operator, Options, OwnKubernetes, RecordedWrite, RunningOperator,
    Side, kubernetes, own_kubernetes, own_kubernetes_with,
};
pub use muster_testkit_macros::database_test;
pub use openstack::{OpenStack, openstack};
pub use postgres::{Database, Postgres, postgres};
pub use process::{Process, lives};
pub use process_folder::ProcessFolder;
pub use proxy::PostgresProxy;
pub use python::{Python, package_index, python};
pub use shared::{request_part, skip};
pub use wire::TestbedAnswer;
