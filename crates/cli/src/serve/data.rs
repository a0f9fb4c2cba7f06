//! The data folder: one server at a time.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Where data is kept if nothing is said.
pub(crate) fn default_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(base.join("muster"))
}

/// A folder that is ours until we end, however we end.
pub(super) struct DataFolder {
    path: PathBuf,
    _lock: File,
}

impl DataFolder {
    /// Makes the folder if need be, for its owner only, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("cannot make the data folder {}", path.display()))?;
        let file = path.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&file);
        let lock = lock.with_context(|| format!("cannot write to the data folder {}", path.display()))?;
        if lock.try_lock().is_err() {
            bail!(
                "another server has the data folder {}: stop it, or use another folder (--data-dir)",
                path.display()
            );
        }
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join("muster.db")
    }

    /// Where commands find the server.
    pub(super) fn announcement(&self) -> PathBuf {
        self.path.join("server.json")
    }
}
