//! Locks that builders inherit: a killed run leaves its lock to the builders that outlive it, and the next run waits
//! for them instead of building into the same folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::io::{FdFlags, fcntl_setfd};

/// A held lock. Dropping it releases it even if child processes inherited it; a kill does not.
#[derive(Debug)]
pub(crate) struct FileLock {
    file: File,
}

impl FileLock {
    /// Locks a file, after waiting for another run; `doing` describes its work in the message.
    pub(crate) fn take(path: &Path, doing: &str) -> Result<Self> {
        let cannot = || format!("cannot lock {}", path.display());
        let file = OpenOptions::new().create(true).append(true).open(path).with_context(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                eprintln!("» waiting for another run that is {doing}, or for what it left running");
                file.lock().with_context(cannot)?;
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
        }
        Self::inherited(file)
    }

    /// Locks an existing file or folder; `None` if another process holds the lock.
    pub(crate) fn try_take(path: &Path) -> Result<Option<Self>> {
        let cannot = || format!("cannot lock {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        match file.try_lock() {
            Ok(()) => Self::inherited(file).map(Some),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(cannot),
        }
    }

    /// Locks a file in shared mode.
    pub(crate) fn share(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot lock {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        file.lock_shared().with_context(cannot)?;
        Self::inherited(file)
    }

    fn inherited(file: File) -> Result<Self> {
        fcntl_setfd(&file, FdFlags::empty())?;
        Ok(Self { file })
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Unlock explicitly: closing the file does not release the lock while a child that inherited it lives.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_or_shared_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = FileLock::take(&path, "testing").unwrap();
        assert!(FileLock::try_take(&path).unwrap().is_none());
        drop(held);
        let shared = FileLock::share(&path).unwrap();
        assert!(FileLock::try_take(&path).unwrap().is_none());
        drop(shared);
        assert!(FileLock::try_take(&path).unwrap().is_some());
    }

    #[test]
    fn a_lock_that_cannot_be_had_is_no_lock_that_another_process_holds() {
        let error = FileLock::try_take(Path::new("/nowhere/lock")).unwrap_err().to_string();
        assert_eq!(error, "cannot lock /nowhere/lock");
    }
}
