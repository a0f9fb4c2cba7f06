//! The lock of a node, whose file stores the highest generation that the node has seen.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use muster_core::action::Fence;

use super::folder::NodeFolder;

/// A reason why the lock of a node was not acquired.
#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    #[error("the folder of the node is gone")]
    Gone,
    #[error("another process holds the lock of the node")]
    Busy,
    #[error("the lock of the node cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// The refusal of a request whose generation is lower than the highest that the node has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("generation {} is stale: the node has already seen generation {}", given.0, highest.0)]
pub struct StaleGeneration {
    /// The generation of the request.
    pub given: Fence,
    /// The highest generation that the node has seen.
    pub highest: Fence,
}

/// Exclusive ownership of a node: no other shim runs it, and no server removes it. The file stores the highest
/// generation.
#[derive(Debug)]
pub(super) struct NodeLock {
    file: File,
    highest: Fence,
}

impl NodeLock {
    /// Acquires the lock if the folder exists and no other process holds it.
    pub(super) fn acquire(folder: &NodeFolder) -> Result<Self, LockError> {
        let path = folder.lock();
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(LockError::Gone),
            file => file?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Busy),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // The previous holder may have removed the folder, and a server may have created it again.
        let is_same = fs::metadata(&path)
            .is_ok_and(|found| file.metadata().is_ok_and(|ours| ours.ino() == found.ino()));
        if !is_same {
            return Err(LockError::Gone);
        }
        let highest = read_generation(&path)?;
        Ok(Self { file, highest })
    }

    pub(super) const fn highest(&self) -> Fence {
        self.highest
    }

    /// Records this generation, so that lower ones are refused from now on. The file is written in place, which
    /// succeeds even on a full disk.
    pub(super) fn raise(&mut self, generation: Fence) -> Result<io::Result<()>, StaleGeneration> {
        if generation < self.highest {
            return Err(StaleGeneration { given: generation, highest: self.highest });
        }
        if generation == self.highest {
            return Ok(Ok(()));
        }
        self.highest = generation;
        Ok(self.file.write_all_at(format!("{:020}\n", generation.0).as_bytes(), 0))
    }
}

/// Reads the highest recorded generation without the lock.
pub(super) fn read_highest_generation(folder: &NodeFolder) -> io::Result<Fence> {
    match read_generation(&folder.lock()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Fence::default()),
        read => read,
    }
}

fn read_generation(path: &Path) -> io::Result<Fence> {
    let text = fs::read_to_string(path)?;
    if text.is_empty() {
        return Ok(Fence::default());
    }
    text.trim().parse().map(Fence).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} contains '{}': must be a generation (a number)", path.display(), text.trim()),
        )
    })
}

#[cfg(test)]
mod tests {
    use muster_core::ids::NodeId;

    use super::*;

    fn folder(parent: &Path) -> NodeFolder {
        let folder = NodeFolder::new(parent, NodeId::from_uuid(uuid::Uuid::from_u128(7)));
        folder.create().unwrap();
        folder
    }

    #[test]
    fn the_highest_generation_outlives_the_holder_of_the_lock() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder(parent.path());
        NodeLock::acquire(&folder).unwrap().raise(Fence(12)).unwrap().unwrap();
        let mut lock = NodeLock::acquire(&folder).unwrap();
        assert_eq!(
            lock.raise(Fence(9)).unwrap_err(),
            StaleGeneration { given: Fence(9), highest: Fence(12) }
        );
        lock.raise(Fence(12)).unwrap().unwrap();
        assert_eq!(read_highest_generation(&folder).unwrap(), Fence(12));
    }

    #[test]
    fn a_lock_has_one_holder() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder(parent.path());
        let lock = NodeLock::acquire(&folder).unwrap();
        assert!(matches!(NodeLock::acquire(&folder), Err(LockError::Busy)));
        drop(lock);
        assert!(NodeLock::acquire(&folder).is_ok());
    }

    #[test]
    fn a_removed_folder_is_not_recreated() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder(parent.path());
        fs::remove_dir(folder.path()).unwrap();
        assert!(matches!(NodeLock::acquire(&folder), Err(LockError::Gone)));
        assert!(!folder.path().exists());
    }
}
