//! The `muster` binary.

use std::process::ExitCode;

use clap::Parser;

/// Returns memory to the system after a burst of requests; the allocator of glibc keeps most of it.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // First of all: a shim lives as long as its node, and must not pay for what commands need.
    muster_local::shim::run_if_asked()
        .or_else(muster_local::attached::run_if_asked)
        .unwrap_or_else(|| muster_cli::Args::parse().run())
}
