//! Files and folders for their owner only.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde::Serialize;

/// Makes a folder, and those above it; one that is there is what is wanted.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a file as a whole or not at all.
pub(crate) fn write(file: &Path, value: &impl Serialize) -> io::Result<()> {
    let draft = file.with_extension("new");
    let mut open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    open.write_all(&serde_json::to_vec_pretty(value)?)?;
    // Not synced: what runs does not survive the machine, and a process that dies takes no written page along.
    fs::rename(draft, file)
}
