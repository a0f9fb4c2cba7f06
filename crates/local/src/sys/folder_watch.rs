//! Watches of folders, by inotify.

use std::io;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe::Receiver;

/// Watches a folder for files that are written, created, moved or removed.
pub(crate) struct FolderWatch {
    events: Receiver,
}

impl FolderWatch {
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let wanted = WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF;
        inotify::add_watch(&events, folder, wanted)?;
        // inotify descriptors are not pipes, but readiness works the same.
        Ok(Self { events: Receiver::from_owned_fd_unchecked(events)? })
    }

    /// Waits for a change since the last call.
    pub(crate) async fn changed(&self) -> io::Result<()> {
        let mut events = [0; 4096];
        loop {
            self.events.readable().await?;
            match self.events.try_read(&mut events) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}
