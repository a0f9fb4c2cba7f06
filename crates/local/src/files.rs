//! Files and folders that only their owner can read.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::Path;

use serde::Serialize;

/// Makes a folder and its parents; succeeds if it exists.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Makes an empty folder: files of an earlier start could be mistaken for files of the next one.
pub(crate) fn make_empty_folder(folder: &Path) -> io::Result<()> {
    remove_folder(folder)?;
    make_folder(folder)
}

/// Removes everything in a folder except one entry.
pub(crate) fn remove_all_but(folder: &Path, kept: &str) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == kept {
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

/// Makes a symbolic link to a folder. A link with the same target is left in place, since processes may be using it.
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

/// Removes a folder and its contents, or a link to a folder; succeeds if there is none.
pub(crate) fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Writes a value as JSON; readers find the old or the new file, never a part of one.
pub(crate) fn write(file: &Path, value: &impl Serialize) -> io::Result<()> {
    let draft = file.with_extension("new");
    let mut open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    open.write_all(&serde_json::to_vec_pretty(value)?)?;
    // No fsync: the file describes processes, which end with the machine; written pages survive the death of this
    // process.
    fs::rename(draft, file)
}
