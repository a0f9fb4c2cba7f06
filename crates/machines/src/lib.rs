//! Machines: named machine types whose capacity is held by reservations until a guest takes a slot.
//!
//! The crate is a Kubernetes controller of its own custom resources. It does not know clusters: a guest is any pod
//! whose labels name a machine type. Clusters get such labels from their recipes, in `muster-frameworks`.
//!
//! Begin reading at [`types`] (the custom resources) and [`decide`], which is pure: every function takes observations and
//! returns a list of writes. [`run`] has the I/O: watches, writes, the webhook, the Lease and the certificate.

pub mod amounts;
pub mod decide;
pub mod keys;
pub mod placement;
pub mod run;
pub mod types;
