//! The runtime folder, which contains the sockets: their paths must be short.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use muster_core::ids::{ClusterId, NodeId};

use crate::sys;

/// Longest path of a socket; the kernel's limit is 107 bytes.
const MAX_SOCKET_PATH: usize = 99;

/// Length of a socket's name: a slash and a node id without dashes.
const SOCKET_NAME: usize = 33;

/// Longest path of a cluster's folder for sockets: frameworks add long names below it.
const MAX_SHORT_PATH: usize = 39;

/// The folder of this user's sockets.
#[derive(Debug, Clone)]
pub struct RuntimeFolder(PathBuf);

impl RuntimeFolder {
    /// Uses `$XDG_RUNTIME_DIR/muster` if it is usable, else `/tmp/muster-<uid>`.
    pub fn standard() -> io::Result<Self> {
        let preferred =
            std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        // The variable may name a removed folder, or one of another user.
        preferred.and_then(|base| Self::at(base.join("muster")).ok()).map_or_else(|| Self::at(fallback()), Ok)
    }

    /// Uses this folder and creates it if needed. Refuses a folder that other users could have written to.
    pub fn at(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let refuse =
            |why: String| Err(io::Error::other(format!("the runtime folder {} {why}", path.display())));
        if path.as_os_str().len() + SOCKET_NAME > MAX_SOCKET_PATH {
            return refuse(format!(
                "has a path of more than {} bytes: set XDG_RUNTIME_DIR to a shorter path",
                MAX_SOCKET_PATH - SOCKET_NAME
            ));
        }
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return refuse(format!("cannot be created: {error}"));
            }
            _ => {}
        }
        // Does not follow links: another user could have put one there.
        let found = fs::symlink_metadata(&path)?;
        if !found.is_dir() {
            return refuse("is not a folder: remove it, or set XDG_RUNTIME_DIR to another folder".to_owned());
        }
        if found.uid() != sys::user_id() {
            return refuse(format!(
                "belongs to user {}: set XDG_RUNTIME_DIR to a folder of your own",
                found.uid()
            ));
        }
        if found.mode() & 0o077 != 0 {
            return refuse(format!(
                "is accessible by other users (mode {:o}): run `chmod 700` on it",
                found.mode() & 0o777
            ));
        }
        Ok(Self(path))
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a cluster's folder for sockets of its programs, without creating it.
    pub(crate) fn short(&self, cluster: ClusterId) -> io::Result<PathBuf> {
        let name = &cluster.as_uuid().as_simple().to_string()[20..];
        let path = self.0.join(name);
        if path.as_os_str().len() <= MAX_SHORT_PATH {
            return Ok(path);
        }
        Ok(Self::at(fallback())?.0.join(name))
    }

    pub(super) fn socket(&self, node: NodeId) -> PathBuf {
        self.0.join(node.as_uuid().as_simple().to_string())
    }
}

fn fallback() -> String {
    format!("/tmp/muster-{}", sys::user_id())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_folder_is_made_for_its_owner_only() {
        let base = tempfile::tempdir().unwrap();
        let folder = RuntimeFolder::at(base.path().join("muster")).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
        assert!(RuntimeFolder::at(folder.path()).is_ok());
    }

    #[test]
    fn a_folder_that_others_could_have_written_to_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let open = base.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let refusal = RuntimeFolder::at(&open).unwrap_err().to_string();
        assert!(
            refusal.ends_with("is accessible by other users (mode 777): run `chmod 700` on it"),
            "{refusal}"
        );
    }

    #[test]
    fn a_link_is_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let link = base.path().join("link");
        symlink(base.path(), &link).unwrap();
        assert!(RuntimeFolder::at(&link).unwrap_err().to_string().contains("is not a folder"));
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_refused() {
        let long = format!("/tmp/{}", "x".repeat(80));
        assert!(RuntimeFolder::at(long).unwrap_err().to_string().contains("more than 66 bytes"));
    }

    #[test]
    fn a_folder_for_sockets_is_short_wherever_the_runtime_folder_is() {
        let cluster = ClusterId::from_uuid(uuid::Uuid::from_u128(0xabcd));
        let near = RuntimeFolder("/run/user/1000/muster".into()).short(cluster).unwrap();
        assert_eq!(near, Path::new("/run/user/1000/muster/00000000abcd"));
        let far = RuntimeFolder(format!("/home/{}", "x".repeat(40)).into());
        let short = far.short(cluster).unwrap();
        assert!(short.as_os_str().len() <= MAX_SHORT_PATH && short.ends_with("00000000abcd"), "{short:?}");
    }
}
