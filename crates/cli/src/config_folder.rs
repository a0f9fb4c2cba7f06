//! The user's configuration folder.

use std::path::{Path, PathBuf};

/// Returns `$XDG_CONFIG_HOME/muster`, else `~/.config/muster`; `None` if neither variable is an absolute path.
pub(crate) fn config_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("muster"))
}

/// Returns the configuration file that a server reads if none is given.
pub(crate) fn default_settings() -> Option<PathBuf> {
    config_folder().map(|folder| folder.join("muster.toml"))
}

/// Returns the configuration file of servers that commands start, as messages name it.
pub(crate) fn settings_of_own_server() -> String {
    let given = std::env::var_os("MUSTER_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
    let file = given.or_else(default_settings);
    file.as_deref().map_or_else(|| "the server's configuration file".to_owned(), display_path)
}

fn display_path(file: &Path) -> String {
    file.display().to_string()
}
