//! The `muster` binary.

use std::process::ExitCode;

/// Returns memory to the system after a burst of requests; the allocator of glibc keeps most of it.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // First: a shim lives as long as its node and must not load what only commands need.
    muster_local::shim::run_if_invoked()
        .or_else(muster_local::attached::run_if_invoked)
        .unwrap_or_else(|| muster_cli::Args::read().run())
}
