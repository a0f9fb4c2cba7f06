//! Writing files that only their owner can read.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result};

/// File mode: readable and writable by the owner only.
pub(crate) const PRIVATE: u32 = 0o600;

/// Writes a file atomically, by rename: readers and a crash of the machine never see half of it.
pub(crate) fn write_private(file: &Path, bytes: &[u8]) -> Result<()> {
    let draft = file.with_extension("new");
    let written = write_draft(&draft, bytes).and_then(|()| std::fs::rename(&draft, file));
    written.with_context(|| format!("cannot write {}", file.display()))
}

fn write_draft(draft: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut opened = OpenOptions::new().create(true).truncate(true).write(true).mode(PRIVATE).open(draft)?;
    // A draft left by an earlier failure keeps its old mode.
    opened.set_permissions(Permissions::from_mode(PRIVATE))?;
    opened.write_all(bytes)?;
    opened.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leftover_draft_that_others_can_read_does_not_make_the_file_readable() {
        let folder = tempfile::tempdir().unwrap();
        let (file, draft) = (folder.path().join("tokens.toml"), folder.path().join("tokens.new"));
        std::fs::write(&draft, "half a to").unwrap();
        std::fs::set_permissions(&draft, Permissions::from_mode(0o644)).unwrap();
        write_private(&file, b"whole").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"whole");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, PRIVATE);
        assert!(!draft.exists());
    }
}
