//! The folder of one run, which contains the temporary folder of its tests.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

use crate::lock::FileLock;

/// The prefix of folders of runs: short, because paths of sockets have at most 107 bytes.
const PREFIX: &str = "muster-run-";

/// The mode of the folder: PostgreSQL, which may run as another user, can traverse the folder but not list it.
const PASSABLE: u32 = 0o711;

/// The folder of a run, which is removed when this value is dropped. The lock keeps later runs from removing it.
pub(crate) struct RunFolder {
    folder: TempDir,
    _lock: FileLock,
}

impl RunFolder {
    /// Creates the folder, after removing those of killed runs.
    pub(crate) fn make(parent: &Path) -> Result<Self> {
        sweep(parent);
        loop {
            let permissions = Permissions::from_mode(PASSABLE);
            let folder =
                tempfile::Builder::new().prefix(PREFIX).permissions(permissions).tempdir_in(parent)?;
            let lock = FileLock::try_take(folder.path());
            // Another run may have removed the folder before it was locked.
            if let Ok(Some(lock)) = lock
                && folder.path().exists()
            {
                let made = Self { folder, _lock: lock };
                fs::create_dir(made.temp())?;
                fs::set_permissions(made.temp(), Permissions::from_mode(PASSABLE))?;
                return Ok(made);
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The temporary folder of the tests.
    pub(super) fn temp(&self) -> PathBuf {
        self.path().join("tmp")
    }

    /// The file in which tests record that they were skipped.
    pub(super) fn skips(&self) -> PathBuf {
        self.path().join("skips")
    }

    /// Removes leftovers of tests from their temporary folder, and returns their names.
    pub(super) fn remove_leftovers(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.temp())? {
            let entry = entry?;
            names.push(entry.file_name().to_string_lossy().into_owned());
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Removes the folders of runs that are not in use; folders that cannot be removed are left to the next run.
fn sweep(parent: &Path) {
    let me = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        // The metadata of the entry itself: links are not followed.
        if !named || !entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == me) {
            continue;
        }
        if let Ok(Some(_lock)) = FileLock::try_take(&entry.path())
            && fs::remove_dir_all(entry.path()).is_ok()
        {
            eprintln!("» removed {}, which a killed run had left", entry.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_run() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::make(parent.path()).unwrap();
        fs::write(folder.temp().join("x"), "").unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_run_left_goes_with_the_next_run_and_what_is_in_use_stays() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("muster-run-killed");
        fs::create_dir(&left).unwrap();
        let other = parent.path().join("thesis");
        fs::create_dir(&other).unwrap();
        let used = RunFolder::make(parent.path()).unwrap();
        let next = RunFolder::make(parent.path()).unwrap();
        assert!(!left.exists());
        assert!(other.exists() && used.temp().exists() && next.temp().exists());
    }

    #[test]
    fn leftovers_are_named_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::make(parent.path()).unwrap();
        fs::create_dir_all(folder.temp().join("scratch/deep")).unwrap();
        fs::write(folder.temp().join("core"), "").unwrap();
        assert_eq!(folder.remove_leftovers().unwrap(), ["core", "scratch"]);
        assert_eq!(folder.remove_leftovers().unwrap(), [] as [&str; 0]);
    }
}
