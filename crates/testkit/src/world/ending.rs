//! The signals that end the programs of the testkit.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::stdin::end_of_stdin;

/// The signals and events that end a program of the testkit.
pub(super) struct Ending {
    terminate: Signal,
    eof: oneshot::Receiver<()>,
}

impl Ending {
    /// Installs the handler of SIGTERM, which no longer kills the process.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, eof: end_of_stdin()? })
    }

    /// Returns on SIGTERM, or once standard input has ended.
    pub(super) async fn wait(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = &mut self.eof => {}
        }
    }
}
