//! The signals that reach a shim.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What somebody asks for by a signal.
pub(super) enum Asked {
    /// SIGTERM, SIGINT.
    Stop,
    /// SIGHUP.
    ListenAgain,
}

/// The ends of children.
pub(super) struct Ends(Signal);

impl Ends {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(signal(SignalKind::child())?))
    }

    /// Some child has ended, perhaps several. Cancel safe.
    pub(super) async fn next(&mut self) {
        self.0.recv().await;
    }
}

/// What others send.
pub(super) struct Requests {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Requests {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Somebody asks for something. Cancel safe.
    pub(super) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hangup.recv() => Asked::ListenAgain,
        }
    }
}
