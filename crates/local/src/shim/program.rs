//! The shim's side: the program `muster shim`.
//!
//! Each node has such a process for its whole life, so it is small: one thread and no large buffer.

mod log;
mod request_listener;
mod setup;
mod stage;
mod supervise;

use std::io::{self, Write as _};
use std::process::ExitCode;

use self::supervise::Supervisor;
use super::wire::{StartOrder, StartReport};
use crate::sys;

/// The subcommand that runs the shim.
pub(super) const SHIM: &str = "shim";

/// The subcommand that runs the stage, which then executes the node's command.
const STAGE: &str = "shim-stage";

/// Runs the shim or the stage if this process was started as one; returns `None` otherwise.
///
/// Call this first in `main`: work before the call would delay the start of every node.
pub fn run_if_invoked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next()?.to_str()? {
        SHIM => Some(run_shim()),
        STAGE => Some(stage::run_stage(arguments)),
        _ => None,
    }
}

fn run_shim() -> ExitCode {
    let order = match setup::read_order() {
        Ok(order) => order,
        Err(message) => {
            eprintln!("`muster shim` is started by the server, not by hand: {message}");
            return ExitCode::from(2);
        }
    };
    // A single thread is required: the kernel kills the node's process when the thread that started it ends.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(supervise(order)),
        Err(error) => {
            Err(StartReport::Failed { message: format!("the shim cannot start its runtime: {error}") })
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report_start(&failure);
            ExitCode::FAILURE
        }
    }
}

async fn supervise(order: StartOrder) -> Result<(), StartReport> {
    let supervisor = Supervisor::start(order).await?;
    report_start(&StartReport::Started(Box::new(supervisor.state().clone())));
    // The server reads only the start report. A failure here must not end the node.
    let _ = sys::close_stdio();
    supervisor.run_until_end().await;
    Ok(())
}

/// Reports the result of the start to the server.
fn report_start(report: &StartReport) {
    // The write fails if the server was killed; the next server finds the node by its state file.
    let line = serde_json::to_string(report).unwrap_or_default();
    let _ = writeln!(io::stdout(), "{line}");
}
