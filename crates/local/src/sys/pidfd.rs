//! Processes held by descriptor: a number may become another's, a descriptor does not.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::net::unix::pipe::Receiver;

use super::ProcessId;

/// One process, whatever becomes of its number.
#[derive(Debug, Clone)]
pub(crate) struct Pidfd(Arc<OwnedFd>);

impl Pidfd {
    /// Whatever has this number now; nothing if nobody has.
    pub(crate) fn of_number(pid: i32) -> io::Result<Option<Self>> {
        let Some(pid) = Pid::from_raw(pid) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(fd) => Ok(Some(Self(Arc::new(fd)))),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// This very process; nothing if it has ended.
    pub(crate) fn open(id: ProcessId) -> io::Result<Option<Self>> {
        let held = Self::of_number(id.pid)?;
        // Looked at only once it is held: from here on the number cannot change hands unseen.
        Ok(held.filter(|_| ProcessId::of(id.pid) == Some(id)))
    }

    /// Signals it; that it has ended is no error.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&*self.0, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) -> io::Result<()> {
        // Readable once it has ended. The kind of descriptor does not matter to whoever waits for that alone.
        Receiver::from_owned_fd_unchecked(self.0.try_clone()?)?.readable().await
    }
}
