//! Tests of REST and gRPC over real sockets, with services whose responses repeat the request.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests, too")]

mod fake;
mod grpc;
mod harness;
mod rest;
mod streams;
