//! Descriptions of the memory limits of local nodes. No control group limits them, only each framework by its own
//! means.

use muster_core::cluster::Framework;

/// Describes the memory limit of a framework's local nodes; none for a framework that this version does not know.
pub const fn local_memory_limit(framework: Framework) -> Option<&'static str> {
    Some(match framework {
        Framework::Dask => {
            "Dask's own: a worker spills at 60 % of its --memory-limit and pauses at 80 %; the scheduler has no limit"
        }
        Framework::Ray => {
            "Ray's own: objects by --object-store-memory; tasks are placed by --memory, and killed when the machine is \
             nearly full"
        }
        Framework::Spark => "Spark's own: executors by the heap of Java; Python beside them has no limit",
        Framework::Unknown(_) => return None,
    })
}
