//! Package `muster.v1alpha2`: generated from `proto/muster/v1alpha2`.

// The code is generated, so findings of the lints cannot be fixed here.
#![allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic)]

include!(concat!(env!("OUT_DIR"), "/muster.v1alpha2.rs"));
include!(concat!(env!("OUT_DIR"), "/muster.v1alpha2.serde.rs"));
