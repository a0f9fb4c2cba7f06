//! Locks that builders inherit: a killed run leaves its lock to the builders that outlive it, and the next run waits
//! for them instead of building into the same folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::io::{FdFlags, fcntl_setfd};

/// A held lock. Dropping it releases it even if child processes inherited it; a kill does not.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of a file, after waiting for a run that is `doing` the same.
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

    /// Takes the lock of a file or folder that is there, unless another process holds it.
    pub(crate) fn try_take(path: &Path) -> Result<Option<Self>> {
        let cannot = || format!("cannot lock {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        match file.try_lock() {
            Ok(()) => Self::inherited(file).map(Some),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error).with_context(cannot),
        }
    }

    /// Holds the lock of a file together with others who only share it.
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

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing it is not enough while a child that inherited it lives; if it fails, closing is what is left.
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
        let held = Lock::take(&path, "testing").unwrap();
        assert!(Lock::try_take(&path).unwrap().is_none());
        drop(held);
        let shared = Lock::share(&path).unwrap();
        assert!(Lock::try_take(&path).unwrap().is_none());
        drop(shared);
        assert!(Lock::try_take(&path).unwrap().is_some());
    }

    #[test]
    fn a_lock_that_cannot_be_had_is_no_lock_that_another_process_holds() {
        let error = Lock::try_take(Path::new("/nowhere/lock")).unwrap_err().to_string();
        assert_eq!(error, "cannot lock /nowhere/lock");
    }
}
