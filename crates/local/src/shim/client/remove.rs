//! Removing what a node leaves on the disk.

use std::fs;
use std::io;

use muster_core::action::Fence;

use super::Shims;
use crate::shim::folder::NodeFolder;
use crate::shim::lock::{Lock, NoLock, Refused};

/// Why a node's folder was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// Somebody with a higher generation was there before.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It runs.
    #[error("the node runs: stop it first")]
    Running,
    /// Its files cannot be removed.
    #[error("the node's files cannot be removed: {0}")]
    Io(#[from] io::Error),
}

impl Shims {
    /// Removes the folder of a node that does not run, and its socket. With `keep_logs` its logs stay, and with them
    /// the highest generation that was seen. No folder is what is wanted.
    pub async fn remove(
        &self,
        folder: &NodeFolder,
        generation: Fence,
        keep_logs: bool,
    ) -> Result<(), RemoveError> {
        let (shims, folder) = (self.clone(), folder.clone());
        // Frameworks leave large folders.
        let removed = tokio::task::spawn_blocking(move || shims.remove_now(&folder, generation, keep_logs));
        removed.await.map_err(io::Error::other)?
    }

    fn remove_now(&self, folder: &NodeFolder, generation: Fence, keep_logs: bool) -> Result<(), RemoveError> {
        let mut lock = match Lock::take(folder) {
            Ok(lock) => lock,
            Err(NoLock::Gone) => return Ok(()),
            Err(NoLock::Busy) => return Err(RemoveError::Running),
            Err(NoLock::Io(error)) => return Err(error.into()),
        };
        lock.raise(generation)??;
        remove_socket(self, folder);
        if keep_logs { Ok(remove_all_but_logs(folder)?) } else { Ok(fs::remove_dir_all(folder.path())?) }
    }
}

/// What a shim that was killed left in the runtime folder.
pub(super) fn remove_socket(shims: &Shims, folder: &NodeFolder) {
    // Where it was, and where it would be: the variable that says so may have changed.
    let recorded = folder.read_state().ok().flatten().map(|state| state.socket);
    for socket in recorded.into_iter().chain([shims.runtime.socket(folder.node())]) {
        let _ = fs::remove_file(socket);
    }
}

fn remove_all_but_logs(folder: &NodeFolder) -> io::Result<()> {
    let mut stays = folder.logs()?;
    stays.push(folder.lock());
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        if stays.contains(&entry.path()) {
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
