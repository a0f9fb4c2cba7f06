//! Package `proto`, the API of existing KubeRay clients: generated from `proto/kuberay`.

// The code is generated, so findings of the lints cannot be fixed here.
#![allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all, clippy::pedantic)]

include!(concat!(env!("OUT_DIR"), "/proto.rs"));
include!(concat!(env!("OUT_DIR"), "/proto.serde.rs"));
