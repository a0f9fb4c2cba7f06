//! A node's lock, and the highest generation that was seen.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use muster_core::action::Fence;

use super::folder::NodeFolder;

/// Why a node's lock was not had.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoLock {
    #[error("the folder of the node is gone")]
    Gone,
    #[error("somebody else has the node")]
    Busy,
    #[error("the lock of the node cannot be used: {0}")]
    Io(#[from] io::Error),
}

/// A generation that came too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("generation {} is refused: generation {} was there before", given.0, highest.0)]
pub struct Refused {
    /// The one that came.
    pub given: Fence,
    /// The highest that was seen.
    pub highest: Fence,
}

/// The node is ours: no other shim, and nobody who removes it. The file keeps the highest generation that was seen.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    highest: Fence,
}

impl Lock {
    /// Takes it if the folder is there and nobody has it.
    pub(super) fn take(folder: &NodeFolder) -> Result<Self, NoLock> {
        let path = folder.lock();
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = match file {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(NoLock::Gone),
            file => file?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(NoLock::Busy),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        // Whoever had it may have removed the folder meanwhile, and somebody may have made it anew.
        let is_same = fs::metadata(&path)
            .is_ok_and(|found| file.metadata().is_ok_and(|ours| ours.ino() == found.ino()));
        if !is_same {
            return Err(NoLock::Gone);
        }
        let highest = read_generation(&path)?;
        Ok(Self { file, highest })
    }

    pub(super) const fn highest(&self) -> Fence {
        self.highest
    }

    /// From now on nothing below `generation` is obeyed. It is written in place, which needs no room on a full disk.
    pub(super) fn raise(&mut self, generation: Fence) -> Result<io::Result<()>, Refused> {
        if generation < self.highest {
            return Err(Refused { given: generation, highest: self.highest });
        }
        if generation == self.highest {
            return Ok(Ok(()));
        }
        self.highest = generation;
        Ok(self.file.write_all_at(format!("{:020}\n", generation.0).as_bytes(), 0))
    }
}

/// The highest generation that was seen, as far as it is written down.
pub(super) fn highest(folder: &NodeFolder) -> io::Result<Fence> {
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
            format!("{} holds '{}' where a generation is expected", path.display(), text.trim()),
        )
    })
}

#[cfg(test)]
mod tests {
    use muster_core::ids::NodeId;

    use super::*;

    fn folder(parent: &Path) -> NodeFolder {
        let folder = NodeFolder::new(parent, NodeId::from_uuid(uuid::Uuid::from_u128(7)));
        folder.make().unwrap();
        folder
    }

    #[test]
    fn the_highest_generation_outlives_whoever_saw_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder(parent.path());
        Lock::take(&folder).unwrap().raise(Fence(12)).unwrap().unwrap();
        let mut lock = Lock::take(&folder).unwrap();
        assert_eq!(lock.raise(Fence(9)).unwrap_err(), Refused { given: Fence(9), highest: Fence(12) });
        lock.raise(Fence(12)).unwrap().unwrap();
        assert_eq!(highest(&folder).unwrap(), Fence(12));
    }

    #[test]
    fn a_node_has_one_owner() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder(parent.path());
        let lock = Lock::take(&folder).unwrap();
        assert!(matches!(Lock::take(&folder), Err(NoLock::Busy)));
        drop(lock);
        assert!(Lock::take(&folder).is_ok());
    }

    #[test]
    fn a_removed_folder_is_not_brought_back() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder(parent.path());
        fs::remove_dir(folder.path()).unwrap();
        assert!(matches!(Lock::take(&folder), Err(NoLock::Gone)));
        assert!(!folder.path().exists());
    }
}
