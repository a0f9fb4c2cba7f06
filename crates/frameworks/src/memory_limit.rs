//! What limits the memory of local nodes: no control group does, so it is what each framework does by itself.

use muster_core::cluster::Framework;

/// What limits the memory of the local nodes of a framework, in a sentence; none for nodes of no framework.
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
