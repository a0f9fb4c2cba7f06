//! Contexts: the servers that a user has logged in to, and which of them commands use.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::config_folder::config_folder;
use crate::failure::{Exit, Failure};
use crate::files::write_private;

/// Name of the file in the configuration folder.
const FILE: &str = "contexts.toml";

/// All contexts of a user.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Contexts {
    /// The name of the context that commands use; empty for the server of the data folder.
    pub(crate) current: String,
    #[serde(rename = "context")]
    pub(crate) all: Vec<SavedContext>,
}

/// A server and the user's token for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SavedContext {
    pub(crate) name: String,
    pub(crate) server: String,
    #[serde(default)]
    pub(crate) token: String,
}

impl Contexts {
    fn file() -> Result<PathBuf, Failure> {
        let folder = config_folder();
        folder.map(|folder| folder.join(FILE)).ok_or_else(|| {
            Failure::new(Exit::Usage, "contexts need a configuration folder: set HOME or XDG_CONFIG_HOME")
        })
    }

    /// Reads the contexts; empty if there is no configuration folder.
    pub(crate) fn read() -> Result<Self, Failure> {
        let Ok(file) = Self::file() else { return Ok(Self::default()) };
        let failed = |why: String| {
            Failure::new(Exit::Failed, format!("{} cannot be used: {why}", file.display()))
                .hint("fix or remove the file, then log in again with `muster login URL`")
        };
        match std::fs::read_to_string(&file) {
            Ok(text) => toml::from_str(&text).map_err(|error| failed(error.message().to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Writes the file, readable by its owner only.
    pub(crate) fn write(&self) -> Result<()> {
        let file = Self::file()?;
        if let Some(folder) = file.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.with_context(|| format!("cannot create folder {}", folder.display()))?;
        }
        write_private(&file, toml::to_string_pretty(self)?.as_bytes())
    }

    /// Returns the context that commands use; `None` means the server of the data folder.
    pub(crate) fn current(&self) -> Option<&SavedContext> {
        self.all.iter().find(|context| context.name == self.current)
    }

    /// Finds a context by name.
    pub(crate) fn named(&self, name: &str) -> Result<&SavedContext, Failure> {
        self.all.iter().find(|context| context.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.all.iter().map(|context| context.name.as_str()).collect();
            let there = if names.is_empty() {
                "there are none".to_owned()
            } else {
                format!("there are: {}", names.join(", "))
            };
            Failure::new(Exit::NotFound, format!("context '{name}' not found: {there}"))
                .hint("`muster login URL` creates one")
        })
    }

    /// Adds a context, replacing one of the same name, and makes it the current one.
    pub(crate) fn add(&mut self, context: SavedContext) {
        self.current.clone_from(&context.name);
        self.all.retain(|known| known.name != context.name);
        self.all.push(context);
        self.all.sort_by(|a, b| a.name.cmp(&b.name));
    }
}
