//! Scheme `local`: a caller that can read the token file of the data folder is the user that the server runs as.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use async_trait::async_trait;
use muster_core::principal::{Principal, Role};

use super::secret::{hash, new_token, same_hash};
use super::{AuthError, Authenticator, UnauthenticatedCaller};

/// The file in the data folder that holds the token.
pub const TOKEN_FILE: &str = "token";

/// The scheme's name.
pub const LOCAL_SCHEME: &str = "local";

/// The project of the server's user.
const PROJECT: &str = "default";

/// A user of the operating system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsUser {
    /// The user id.
    pub uid: u32,
    /// The name, or the user id if there is no name.
    pub name: String,
}

impl OsUser {
    /// The user that this process runs as.
    pub fn current() -> Self {
        let uid = rustix::process::getuid().as_raw();
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let name =
            name_of(uid, &users).or_else(|| std::env::var("USER").ok()).filter(|name| !name.is_empty());
        Self { uid, name: name.unwrap_or_else(|| uid.to_string()) }
    }
}

pub(super) fn name_of(uid: u32, users: &str) -> Option<String> {
    users.lines().find_map(|line| {
        let mut parts = line.split(':');
        let (name, _, number) = (parts.next()?, parts.next()?, parts.next()?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// Authenticates callers by the token of a data folder.
#[derive(Debug)]
pub struct Local {
    hash: String,
    user: OsUser,
}

impl Local {
    /// Reads the folder's token, or creates it.
    pub fn open(data_dir: &Path, user: OsUser) -> io::Result<Self> {
        let token = match Self::read_token(data_dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_new(data_dir)?;
                Self::read_token(data_dir)?
            }
            read => read?,
        };
        Ok(Self { hash: hash(&token), user })
    }

    fn principal(&self) -> Principal {
        Principal {
            scheme: LOCAL_SCHEME.to_owned(),
            id: self.user.uid.to_string(),
            name: self.user.name.clone(),
            project: PROJECT.to_owned(),
            roles: BTreeSet::from([Role::Admin]),
        }
    }

    /// Reads the token of a folder. A file that other users may read is refused.
    pub fn read_token(data_dir: &Path) -> io::Result<String> {
        let path = data_dir.join(TOKEN_FILE);
        let mode = fs::metadata(&path)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{} has mode {mode:o}, so others can read the token: delete it and start the server again",
                    path.display()
                ),
            ));
        }
        let token = fs::read_to_string(&path)?.trim().to_owned();
        if token.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} is empty: delete it and start the server again", path.display()),
            ));
        }
        Ok(token)
    }
}

/// Creates the token under another name and links it: no reader reads half a token, and of two writers one wins.
fn write_new(data_dir: &Path) -> io::Result<()> {
    let token = new_token()?;
    let draft = data_dir.join(format!("{TOKEN_FILE}.{}", std::process::id()));
    // A draft that a killed server of the same process id left may have any mode.
    let _ = fs::remove_file(&draft);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(token.as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, data_dir.join(TOKEN_FILE));
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[async_trait]
impl Authenticator for Local {
    fn scheme(&self) -> &'static str {
        LOCAL_SCHEME
    }

    async fn authenticate(&self, caller: UnauthenticatedCaller<'_>) -> Result<Option<Principal>, AuthError> {
        if !caller.token().is_some_and(|token| same_hash(&hash(token), &self.hash)) {
            return Ok(None);
        }
        Ok(Some(self.principal()))
    }

    async fn resolve(&self, known: &Principal) -> Result<Option<Principal>, AuthError> {
        let own = self.principal();
        Ok((own.id == known.id).then_some(own))
    }
}
