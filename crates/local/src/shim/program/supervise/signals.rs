//! The signals that a shim receives.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A request that was sent as a signal.
pub(super) enum SignalRequest {
    /// SIGTERM or SIGINT: stop the node.
    Stop,
    /// SIGHUP: create the socket again.
    ListenAgain,
}

/// Notifies about exits of children (SIGCHLD).
pub(super) struct ChildExits(Signal);

impl ChildExits {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(signal(SignalKind::child())?))
    }

    /// Waits until one or more children have ended. Cancel safe.
    pub(super) async fn next(&mut self) {
        self.0.recv().await;
    }
}

/// Receives requests of other processes.
pub(super) struct SignalRequests {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl SignalRequests {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next request. Cancel safe.
    pub(super) async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.terminate.recv() => SignalRequest::Stop,
            _ = self.interrupt.recv() => SignalRequest::Stop,
            _ = self.hangup.recv() => SignalRequest::ListenAgain,
        }
    }
}
