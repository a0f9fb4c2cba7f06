//! Small file systems, for tests of a full disk.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A file system in memory, which is unmounted when this value is dropped.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// Mounts a disk; `None` if the user may not mount: the test is then reported as skipped.
    pub fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "muster-test"]).arg(folder.path());
        match mount.output() {
            Ok(Output { status, .. }) if status.success() => Some(Self { folder }),
            Ok(Output { stderr, .. }) => {
                let why = String::from_utf8_lossy(&stderr);
                crate::skip(&format!("a small disk cannot be mounted: {}", why.trim()));
                None
            }
            Err(error) => {
                crate::skip(&format!("a small disk cannot be mounted: {error}"));
                None
            }
        }
    }

    /// The path of the mount.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Fills a disk by writing this file; removing the file frees the space.
    pub fn fill(file: &Path) {
        let mut file = File::create(file).expect("a file can be made");
        while file.write_all(&[0; 512]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because processes that end soon may still have open files on the disk.
        let unmounted = Command::new("umount").arg("--lazy").arg(self.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted", self.path().display());
        }
    }
}
