//! What tests share: a real Kubernetes, a real PostgreSQL and real frameworks, on Linux.
//!
//! One process, the [`testbed`], owns these for a whole test run. Tests ask it for what they need and get it, or
//! are skipped with the reason:
//!
//! ```no_run
//! # async fn example() {
//! let Some(kubernetes) = muster_testkit::kubernetes().await else { return };
//! let namespace = kubernetes.namespace().await;
//! # }
//! ```
//!
//! Fakes are for faults only: [`fake`] is a provider that fails on command, [`operator`] one whose members an operator
//! makes, and [`world`] one in a process of its own, for engines that are killed and stopped. [`outside`] plays services
//! that the server calls.

mod changes;
mod clock;
mod closed_port;
mod databases;
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
    Component, Gate, Kubernetes, Namespace, Operator, Options, OwnKubernetes, RunningOperator, Side, Written,
    kubernetes, own_kubernetes, own_kubernetes_with,
};
pub use muster_testkit_macros::database_test;
pub use openstack::{OpenStack, openstack};
pub use postgres::{Database, Postgres, postgres};
pub use process::{Process, lives};
pub use proxy::PostgresProxy;
pub use python::{Python, package_index, python};
pub use shared::{ask, skip};
pub use wire::Answer;
