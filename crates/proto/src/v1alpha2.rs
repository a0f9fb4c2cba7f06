//! Package `muster.v1alpha2`: generated from `proto/muster/v1alpha2`.

// Generated: what the lints would say cannot be changed here.
#![allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic)]

include!(concat!(env!("OUT_DIR"), "/muster.v1alpha2.rs"));
include!(concat!(env!("OUT_DIR"), "/muster.v1alpha2.serde.rs"));
