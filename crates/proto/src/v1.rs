//! Package `proto`, the API of existing KubeRay clients: generated from `proto/kuberay`.

// Generated: what the lints would say cannot be changed here.
#![allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic)]

include!(concat!(env!("OUT_DIR"), "/proto.rs"));
include!(concat!(env!("OUT_DIR"), "/proto.serde.rs"));
