//! The shim's side: what runs as `muster shim`.
//!
//! It is one small process a node, for as long as the node lives: one thread, no large buffer, nothing that is not
//! needed for its task.

mod commands;
mod log;
mod setup;
mod stage;
mod supervise;

use std::io::{self, Write as _};
use std::process::ExitCode;

use self::supervise::Shim;
use super::wire::{Begun, Order};
use crate::sys;

/// The subcommand that is the shim.
pub(super) const SHIM: &str = "shim";

/// The subcommand that becomes the node's command.
const STAGE: &str = "shim-stage";

/// Runs the shim, or the stage before a node's command, if this program was started as such. For the first line of
/// `main`: whatever was done before would be paid for by every node.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        SHIM => Some(shim()),
        STAGE => Some(stage::run(arguments)),
        _ => None,
    }
}

fn shim() -> ExitCode {
    let order = match setup::read_order() {
        Ok(order) => order,
        Err(message) => {
            eprintln!("`muster shim` is started by the server, not by hand: {message}");
            return ExitCode::from(2);
        }
    };
    // The one thread matters: the kernel kills the node's process when the thread that started it ends.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let worked = match runtime {
        Ok(runtime) => runtime.block_on(supervise(order)),
        Err(error) => Err(Begun::Failed { message: format!("the shim cannot begin: {error}") }),
    };
    match worked {
        Ok(()) => ExitCode::SUCCESS,
        Err(begun) => {
            tell(&begun);
            ExitCode::FAILURE
        }
    }
}

async fn supervise(order: Order) -> Result<(), Begun> {
    let shim = Shim::begin(order).await?;
    tell(&Begun::Started(Box::new(shim.state().clone())));
    // From here on nobody listens there, and the node goes on also if this fails.
    let _ = sys::close_stdio();
    shim.run().await;
    Ok(())
}

/// Tells whoever started us how that went.
fn tell(begun: &Begun) {
    // Nobody may be left to hear it: a server that was killed finds the node by its state.
    let line = serde_json::to_string(begun).unwrap_or_default();
    let _ = writeln!(io::stdout(), "{line}");
}
