//! The data folder: locked by one server at a time, readable by its owner only.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow};

use crate::announcement::Announcement;
use crate::failure::Failure;
use crate::files::PRIVATE;

/// Returns the data folder that is used if none is given.
pub(crate) fn default_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(base.join("muster"))
}

/// Lock file that the running server holds.
pub(crate) const LOCK_FILE: &str = "lock";

/// Number of attempts to take the lock. A single attempt does not suffice, since a command may hold the lock for a
/// moment to test it.
const TRIES: u32 = 20;
/// Time between two attempts to take the lock.
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// Creates the folder if it is missing, accessible by its owner only.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot create the data folder {}", path.display()))
}

/// A data folder that this process has locked; the kernel releases the lock when it ends.
pub(super) struct DataFolder {
    path: PathBuf,
    _lock: File,
}

impl DataFolder {
    /// Creates the folder if it is missing, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        make_folder(path)?;
        close_to_others(path).with_context(|| format!("cannot read the data folder {}", path.display()))?;
        let file = path.join(LOCK_FILE);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(PRIVATE).open(&file);
        let lock = lock.with_context(|| format!("cannot write to the data folder {}", path.display()))?;
        lock_file(&lock).map_err(|error| not_locked(path, &error))?;
        // A killed server left its announcement: commands must not use its address.
        drop(std::fs::remove_file(Announcement::file(path)));
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the database's file, private: SQLite gives the files beside it the same mode.
    pub(super) fn database(&self) -> Result<PathBuf> {
        let file = self.path.join("muster.db");
        let private =
            OpenOptions::new().create(true).truncate(false).write(true).mode(PRIVATE).open(&file).and_then(
                |_| ["", "-wal", "-shm"].into_iter().try_for_each(|suffix| make_private(&file, suffix)),
            );
        private.with_context(|| format!("cannot make {} private", file.display()))?;
        Ok(file)
    }
}

/// Returns true if a mode gives rights to others than the owner.
const fn is_open(mode: u32) -> bool {
    mode & 0o077 != 0
}

/// Makes an empty folder private. A folder with content may be shared on purpose: it is left unchanged with a warning,
/// and only the files that Muster creates in it are private.
fn close_to_others(folder: &Path) -> io::Result<()> {
    let mode = folder.metadata()?.permissions().mode() & 0o7777;
    if !is_open(mode) {
        return Ok(());
    }
    let empty = folder.read_dir()?.next().is_none();
    if !empty || std::fs::set_permissions(folder, Permissions::from_mode(0o700)).is_err() {
        let folder = folder.display();
        tracing::warn!(mode = %format_args!("{mode:o}"), %folder, "other users can read the data folder: chmod 700 it");
    }
    Ok(())
}

/// Makes a file private that an older server may have created with a wider mode.
fn make_private(file: &Path, suffix: &str) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    match std::fs::metadata(&name) {
        Ok(found) if is_open(found.permissions().mode()) => {
            std::fs::set_permissions(&name, Permissions::from_mode(PRIVATE))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Locks the file; retries, since commands hold the lock for a moment to test it.
fn lock_file(lock: &File) -> Result<(), TryLockError> {
    for _ in 1..TRIES {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_TRIES),
            locked => return locked,
        }
    }
    lock.try_lock()
}

/// Returns the error for a data folder that this process cannot lock.
fn not_locked(path: &Path, error: &TryLockError) -> Error {
    let folder = path.display();
    match error {
        TryLockError::WouldBlock => Failure::in_use(anyhow!(
            "another server uses the data folder {folder}: stop it, or use another folder (--data-dir)"
        ))
        .into(),
        TryLockError::Error(error) => anyhow!(
            "cannot lock the data folder {folder}: {error}: its file system must support file locks; use a folder on a \
             local file system (--data-dir)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_locked_is_not_reported_as_in_use() {
        let error = TryLockError::Error(io::ErrorKind::Unsupported.into());
        let message = not_locked(Path::new("/data"), &error).to_string();
        assert!(message.starts_with("cannot lock the data folder /data: unsupported: "), "{message}");
        assert!(message.contains("file system") && message.contains("--data-dir"), "{message}");
        assert!(!message.contains("another server"), "{message}");
        let used = not_locked(Path::new("/data"), &TryLockError::WouldBlock).to_string();
        assert!(used.starts_with("another server uses the data folder /data: "), "{used}");
    }
}
