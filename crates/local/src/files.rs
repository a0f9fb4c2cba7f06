//! Files and folders for their owner only.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::Path;

use serde::Serialize;

/// Makes a folder, and those above it; one that is there is what is wanted.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Makes a folder with nothing in it: what an earlier start left there would be taken for the next one's.
pub(crate) fn make_empty_folder(folder: &Path) -> io::Result<()> {
    remove_folder(folder)?;
    make_folder(folder)
}

/// Removes all that is in a folder, but for one entry.
pub(crate) fn remove_all_but(folder: &Path, stays: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == stays {
            continue;
        }
        if entry.file_type()?.is_dir() {
            remove_folder(&entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Makes a link to a folder, which is a shorter name for it. One that is there stays: somebody may use it now.
pub(crate) fn make_link(link: &Path, folder: &Path) -> io::Result<()> {
    if fs::read_link(link).is_ok_and(|target| target == folder) {
        return Ok(());
    }
    remove_folder(link)?;
    if let Some(parent) = link.parent() {
        make_folder(parent)?;
    }
    symlink(folder, link)
}

/// Removes a folder with all that is in it, or a link to one; one that is not there is what is wanted.
pub(crate) fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a file as a whole or not at all.
pub(crate) fn write(file: &Path, value: &impl Serialize) -> io::Result<()> {
    let draft = file.with_extension("new");
    let mut open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    open.write_all(&serde_json::to_vec_pretty(value)?)?;
    // Not synced: what runs does not survive the machine, and a process that dies takes no written page along.
    fs::rename(draft, file)
}
