//! Being asked to end.

use std::io::{self, Read as _};
use std::thread;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Everything that asks a program of the testkit to end.
pub(super) struct Ending {
    terminate: Signal,
    eof: oneshot::Receiver<()>,
}

impl Ending {
    /// From here on a request to end is not the end yet.
    pub(super) fn listen() -> io::Result<Self> {
        let (ended, eof) = oneshot::channel();
        // A thread that a runtime need not wait for when it ends.
        thread::Builder::new().name("stdin".to_owned()).spawn(move || {
            let mut buffer = [0; 1024];
            let mut stdin = io::stdin().lock();
            while stdin.read(&mut buffer).is_ok_and(|read| read > 0) {}
            let _ = ended.send(());
        })?;
        Ok(Self { terminate: signal(SignalKind::terminate())?, eof })
    }

    /// Returns on SIGTERM, or once standard input has ended.
    pub(super) async fn wait(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = &mut self.eof => {}
        }
    }
}
