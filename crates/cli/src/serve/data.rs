//! The data folder: one server at a time, for its owner only.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};

use crate::announcement::Announcement;
use crate::failure::Failure;
use crate::files::PRIVATE;

/// Where data is kept if nothing is said.
pub(crate) fn default_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(base.join("muster"))
}

/// Held by the server that has the folder.
pub(crate) const LOCK_FILE: &str = "lock";

/// How often a lock is tried that a command may just be looking at, and how long it waits in between.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// Makes the folder if need be, for its owner only.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("cannot make the data folder {}", path.display()))
}

/// A folder that is ours until we end, however we end.
pub(super) struct DataFolder {
    path: PathBuf,
    _lock: File,
}

impl DataFolder {
    /// Makes the folder if need be, for its owner only, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        make_folder(path)?;
        close_to_others(path)
            .with_context(|| format!("cannot look into the data folder {}", path.display()))?;
        let file = path.join(LOCK_FILE);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(PRIVATE).open(&file);
        let lock = lock.with_context(|| format!("cannot write to the data folder {}", path.display()))?;
        if !locked(&lock) {
            let sentence = format!(
                "another server has the data folder {}: stop it, or use another folder (--data-dir)",
                path.display()
            );
            return Err(Failure::in_use(anyhow!(sentence)).into());
        }
        // What a killed server said is not true of this one: nobody may look for it there.
        drop(std::fs::remove_file(Announcement::file(path)));
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The database's file, there and private: what SQLite puts beside it has the same mode.
    pub(super) fn database(&self) -> Result<PathBuf> {
        let file = self.path.join("muster.db");
        let private =
            OpenOptions::new().create(true).truncate(false).write(true).mode(PRIVATE).open(&file).and_then(
                |_| ["", "-wal", "-shm"].into_iter().try_for_each(|suffix| make_private(&file, suffix)),
            );
        private.with_context(|| format!("cannot keep {} to its owner", file.display()))?;
        Ok(file)
    }
}

/// Whether others than the owner may do anything with it.
const fn is_open(mode: u32) -> bool {
    mode & 0o077 != 0
}

/// A folder that was made for us, and is still empty, is closed to others. One that holds other things may be shared
/// on purpose: it stays as it is, loudly, and our files in it are private.
fn close_to_others(folder: &Path) -> io::Result<()> {
    let mode = folder.metadata()?.permissions().mode() & 0o7777;
    if !is_open(mode) {
        return Ok(());
    }
    let empty = folder.read_dir()?.next().is_none();
    if !empty || std::fs::set_permissions(folder, Permissions::from_mode(0o700)).is_err() {
        let folder = folder.display();
        tracing::warn!(mode = %format_args!("{mode:o}"), %folder, "others can look into the data folder: chmod 700 it");
    }
    Ok(())
}

/// What an older server left may be open to others.
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

/// Takes the lock. Commands that look whether it is held share it for a moment: no reason to give up.
fn locked(lock: &File) -> bool {
    (0..TRIES).any(|_| match lock.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => {
            std::thread::sleep(BETWEEN_TRIES);
            false
        }
        Err(TryLockError::Error(_)) => false,
    })
}
