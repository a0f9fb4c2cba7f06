//! Telling when something in a folder changes.

use std::io;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe::Receiver;

/// Tells of files that are written, made, moved or removed in a folder.
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
        // It is no pipe, and is waited for like one.
        Ok(Self { events: Receiver::from_owned_fd_unchecked(events)? })
    }

    /// Returns when something has changed since the last call.
    pub(crate) async fn changed(&self) -> io::Result<()> {
        let mut told = [0; 4096];
        loop {
            self.events.readable().await?;
            match self.events.try_read(&mut told) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}
