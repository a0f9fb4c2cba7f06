//! What tests of all frameworks share.

use std::sync::LazyLock;

use muster_core::capacity::Capacity;
use muster_core::quantity::{Cpu, Memory};
use muster_core::shape::Shape;

use crate::{Contact, Endpoints, Launch, Seat, Secret};

/// A laptop.
const MACHINE: Capacity =
    Capacity { cpu: Cpu::from_millis(4000), memory: Memory::from_bytes(16 << 30), gpu: 0 };

static SECRET: LazyLock<Secret> = LazyLock::new(|| Secret::new("abracadabra"));

/// Where a node of this shape runs.
pub(crate) fn seat(shape: &Shape) -> Seat<'_> {
    Seat {
        name: "w-1",
        python: "/venv/bin/python",
        package: "/venv/lib/package",
        folder: "/node",
        kept: "/cluster/kept",
        short: "/run/c",
        shape,
        machine: &MACHINE,
        secret: &SECRET,
    }
}

/// A head that answers there.
pub(crate) fn contact(endpoints: Endpoints) -> Contact {
    Contact { endpoints, secret: SECRET.clone() }
}

/// The word after a flag.
pub(crate) fn after<'c>(launch: &'c Launch, flag: &str) -> &'c str {
    let place = launch.command.iter().position(|word| word == flag).expect("the flag is there");
    &launch.command[place + 1]
}
