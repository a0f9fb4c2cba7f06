//! Process descriptors: unlike a process number, a descriptor is never reused for another process.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::net::unix::pipe::Receiver;

use super::ProcessId;

/// A descriptor of one process.
#[derive(Debug, Clone)]
pub(crate) struct Pidfd(Arc<OwnedFd>);

impl Pidfd {
    /// Opens the process that has this number now; `None` if there is none.
    pub(crate) fn open_pid(pid: i32) -> io::Result<Option<Self>> {
        let Some(pid) = Pid::from_raw(pid) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(fd) => Ok(Some(Self(Arc::new(fd)))),
            Err(rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens exactly this process; `None` if it has ended.
    pub(crate) fn open(id: ProcessId) -> io::Result<Option<Self>> {
        let opened = Self::open_pid(id.pid)?;
        // Compared after opening: the open descriptor keeps referring to the process that is compared.
        Ok(opened.filter(|_| ProcessId::find(id.pid) == Some(id)))
    }

    /// Signals the process; succeeds if it has ended.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&*self.0, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the process has ended.
    pub(crate) async fn wait_for_exit(&self) -> io::Result<()> {
        // A pidfd becomes readable when the process ends; tokio needs any pollable descriptor.
        Receiver::from_owned_fd_unchecked(self.0.try_clone()?)?.readable().await
    }
}
