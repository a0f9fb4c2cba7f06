//! Removal of a node's files.

use std::fs;
use std::io;

use muster_core::action::Fence;

use super::Shims;
use crate::shim::folder::NodeFolder;
use crate::shim::lock::{LockError, NodeLock, StaleGeneration};

/// A reason why a node's folder was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// The node has seen a higher generation.
    #[error(transparent)]
    Refused(#[from] StaleGeneration),
    /// The node is running.
    #[error("the node is running: stop it first")]
    Running,
    /// The files cannot be removed.
    #[error("the node's files cannot be removed: {0}")]
    Io(#[from] io::Error),
}

impl Shims {
    /// Removes the folder of a node that does not run, and its socket; succeeds if there is no folder. With
    /// `keep_logs`, logs and the highest generation stay.
    pub async fn remove(
        &self,
        folder: &NodeFolder,
        generation: Fence,
        keep_logs: bool,
    ) -> Result<(), RemoveError> {
        let (shims, folder) = (self.clone(), folder.clone());
        // Folders of frameworks can be large.
        let removed = tokio::task::spawn_blocking(move || shims.remove_now(&folder, generation, keep_logs));
        removed.await.map_err(io::Error::other)?
    }

    fn remove_now(&self, folder: &NodeFolder, generation: Fence, keep_logs: bool) -> Result<(), RemoveError> {
        let mut lock = match NodeLock::acquire(folder) {
            Ok(lock) => lock,
            Err(LockError::Gone) => return Ok(()),
            Err(LockError::Busy) => return Err(RemoveError::Running),
            Err(LockError::Io(error)) => return Err(error.into()),
        };
        lock.raise(generation)??;
        remove_socket(self, folder);
        if keep_logs { Ok(remove_all_but_logs(folder)?) } else { Ok(fs::remove_dir_all(folder.path())?) }
    }
}

/// Removes the socket that a killed shim left in the runtime folder.
pub(super) fn remove_socket(shims: &Shims, folder: &NodeFolder) {
    // Both the recorded and the current path are tried, since the variable of the runtime folder may have changed.
    let recorded = folder.read_state().ok().flatten().map(|state| state.socket);
    for socket in recorded.into_iter().chain([shims.runtime.socket(folder.node())]) {
        let _ = fs::remove_file(socket);
    }
}

fn remove_all_but_logs(folder: &NodeFolder) -> io::Result<()> {
    let mut kept = folder.logs()?;
    kept.extend([folder.lock(), folder.times(), folder.name_file(), folder.framework_name_file()]);
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        if kept.contains(&entry.path()) {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
