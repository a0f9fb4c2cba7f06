//! The testbed's folder: its creation, its lock, and its removal.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rustix::io::{FdFlags, fcntl_setfd};

use super::output::say;
use super::sweep;

/// The name of the testbed's socket in the folder.
pub(crate) const SOCKET: &str = "testbed.sock";
/// The file whose lock shows that the folder is in use.
pub(super) const LOCK: &str = "testbed.lock";
/// The prefix of the names of folders that the testbed chooses.
pub(super) const PREFIX: &str = "muster-testbed-";
/// The folder with PostgreSQL's data.
pub(super) const POSTGRES: &str = "postgres";

/// The name of the lock file before it is locked.
const LOCK_IN_MAKING: &str = "testbed.lock.new";
/// The content of the lock file in a folder that is removed with the testbed.
const MADE: &str = "made by a testbed\n";
/// The inventory of this machine, for tests that start their own testbed.
const INVENTORY: &str = "inventory.json";
const KUBECONFIG: &str = "kubeconfig";
const KUBERNETES: &str = "kubernetes";
const LOGS: &str = "logs";

/// All files of the testbed; the lock is removed last, because it guards the others.
const OURS: [&str; 8] = [SOCKET, INVENTORY, KUBECONFIG, KUBERNETES, POSTGRES, LOGS, LOCK_IN_MAKING, LOCK];

/// A folder in use. On drop the testbed's files are removed, and the folder, too, if a testbed created it.
#[derive(Debug)]
pub(super) struct TestbedFolder {
    path: PathBuf,
    made: bool,
    _lock: File,
}

impl TestbedFolder {
    /// Creates the folder or uses an existing one, after removing the folders that killed testbeds left in the
    /// temporary folder.
    pub(super) fn make(dir: Option<&Path>) -> Result<Self> {
        let temp = std::env::temp_dir();
        sweep::sweep(&temp);
        let (path, made) = match dir {
            Some(dir) => {
                let dir = std::path::absolute(dir)?;
                let made = claim_folder(&dir).with_context(|| cannot_use(&dir))?;
                (dir, made)
            }
            None => (tempfile::Builder::new().prefix(PREFIX).tempdir_in(&temp)?.keep(), true),
        };
        let lock = prepare(&path, made).inspect_err(|_| clear(&path, made))?;
        Ok(Self { path, made, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    /// Writes the inventory, readable by its owner only, because it may contain a password.
    pub(super) fn write_inventory(&self, text: &str) -> io::Result<()> {
        let path = self.path.join(INVENTORY);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.path.join(KUBECONFIG)
    }

    pub(super) fn kubernetes(&self) -> PathBuf {
        self.path.join(KUBERNETES)
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.path.join(POSTGRES)
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.path.join(LOGS)
    }
}

impl Drop for TestbedFolder {
    fn drop(&mut self) {
        clear(&self.path, self.made);
    }
}

/// Checks if a testbed could use the folder, without a change.
pub(super) fn check(dir: &Path) -> Result<()> {
    let dir = std::path::absolute(dir)?;
    if !dir.exists() {
        return Ok(());
    }
    is_free(&dir).with_context(|| cannot_use(&dir))
}

fn cannot_use(dir: &Path) -> String {
    format!("cannot use the folder {}", dir.display())
}

/// Refuses a folder in which another testbed runs, or that contains files that no testbed created.
fn is_free(dir: &Path) -> Result<()> {
    let left_by_a_testbed = dir.join(LOCK).exists();
    if left_by_a_testbed && !sweep::is_abandoned(dir)? {
        bail!("another testbed runs there");
    }
    let ours = |name: &OsStr| left_by_a_testbed && OURS.iter().any(|ours| name == *ours);
    for entry in fs::read_dir(dir)? {
        if !ours(&entry?.file_name()) {
            bail!("it is not empty");
        }
    }
    Ok(())
}

/// Creates the folder, or checks that it can be used and empties it; true if this testbed or a killed one created it.
fn claim_folder(dir: &Path) -> Result<bool> {
    if !dir.exists() {
        fs::create_dir_all(dir)?;
        return Ok(true);
    }
    is_free(dir)?;
    let lock = fs::read_to_string(dir.join(LOCK)).unwrap_or_default();
    sweep::remove_shared_memory(dir);
    remove_ours(dir)?;
    Ok(lock == MADE)
}

fn prepare(path: &Path, made: bool) -> Result<File> {
    // PostgreSQL may run as another user, who must be able to pass to its data folder but not to list this one.
    fs::set_permissions(path, fs::Permissions::from_mode(0o711))?;
    // Locked before it is renamed, so that a reader that finds the file by its name can trust the lock.
    let unnamed = path.join(LOCK_IN_MAKING);
    let mut lock = File::create(&unnamed)?;
    lock.lock()?;
    if made {
        lock.write_all(MADE.as_bytes())?;
    }
    fs::rename(&unnamed, path.join(LOCK))?;
    // Children inherit the lock, so that a folder is not removed while a dying child still writes to it.
    fcntl_setfd(&lock, FdFlags::empty()).map_err(io::Error::from)?;
    fs::create_dir(path.join(LOGS))?;
    Ok(lock)
}

fn clear(path: &Path, made: bool) {
    let cleared = remove_ours(path).and_then(|()| if made { fs::remove_dir(path) } else { Ok(()) });
    if let Err(error) = cleared {
        say!("testbed: the folder {} is left behind: {error}", path.display());
    }
}

/// Removes only the files that a testbed creates in its folder.
pub(super) fn remove_ours(dir: &Path) -> io::Result<()> {
    for name in OURS {
        let path = dir.join(name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
