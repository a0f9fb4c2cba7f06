//! Fixtures for the tests of all frameworks.

use std::sync::LazyLock;

use muster_core::capacity::Capacity;
use muster_core::quantity::{Cpu, Memory};
use muster_core::shape::Shape;

use crate::{Endpoints, HeadAccess, LaunchContext, ProcessSpec, Secret};

/// A laptop.
const MACHINE: Capacity =
    Capacity { cpu: Cpu::from_millis(4000), memory: Memory::from_bytes(16 << 30), gpu: 0 };

static SECRET: LazyLock<Secret> = LazyLock::new(|| Secret::new("abracadabra"));

/// Returns the context of a node with this shape.
pub(crate) fn launch_context(shape: &Shape) -> LaunchContext<'_> {
    LaunchContext {
        name: "w-1",
        python: "/venv/bin/python",
        package: "/venv/lib/package",
        node_folder: "/node",
        cluster_folder: "/cluster/kept",
        socket_folder: "/run/c",
        shape,
        machine: &MACHINE,
        secret: &SECRET,
    }
}

/// Returns a head at these endpoints.
pub(crate) fn head_access(endpoints: Endpoints) -> HeadAccess {
    HeadAccess { endpoints, secret: SECRET.clone() }
}

/// Returns the argument that follows a flag.
pub(crate) fn argument_after<'c>(process: &'c ProcessSpec, flag: &str) -> &'c str {
    let index = process.command.iter().position(|word| word == flag).expect("the flag is there");
    &process.command[index + 1]
}
