//! Python environments that have a framework: found, or made.

mod command;
mod images;
mod install;
mod make;
mod port;
mod probe;
mod require;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_core::cluster::Framework;
use muster_engine::ports::keyed_lock::KeyedLock;
use muster_frameworks::{LocalFramework, Program};

use parking_lot::Mutex;
use probe::{Probed, probe};
pub use require::Unmet;

/// The interpreter of an environment, from its folder.
const INTERPRETER: &str = "bin/python";

/// What environments are made of.
const BASE: &str = "python3";

/// Where an environment was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Whoever asked named it.
    Asked,
    /// `MUSTER_PYTHON` of the server.
    Variable,
    /// The virtual environment that was active when the server started.
    Active,
    /// Muster installed it.
    Installed,
}

impl Source {
    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked for",
            Self::Variable => "MUSTER_PYTHON",
            Self::Active => "active virtual environment",
            Self::Installed => "installed by Muster",
        }
    }
}

/// An environment that has a framework.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Its interpreter.
    pub python: PathBuf,
    /// The folder of the framework's package.
    pub package: PathBuf,
    /// The framework's version.
    pub version: String,
    /// Where it was found.
    pub source: Source,
}

impl Environment {
    /// The environment of an interpreter, if it has the framework; otherwise why not.
    pub async fn of(python: PathBuf, source: Source, framework: &dyn LocalFramework) -> Result<Self, String> {
        let Probed { version, package } = probe(&python, framework.package().module).await?;
        Ok(Self { python, package, version, source })
    }
}

/// No environment has the framework.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: `{}` installs it", self.what(), self.command())]
pub struct Missing {
    framework: Framework,
    looked: String,
}

impl Missing {
    /// What is missing, and where it was looked for.
    pub fn what(&self) -> String {
        format!("{} is not installed{}", self.framework, self.looked)
    }

    /// What to type.
    pub fn command(&self) -> String {
        format!("muster framework install {}", self.framework)
    }
}

/// Finds and makes environments. Handles are cheap to clone.
#[derive(Clone)]
pub struct Environments {
    inner: Arc<Inner>,
}

struct Inner {
    /// Where environments are made.
    folder: PathBuf,
    /// The interpreter that they are made of.
    base: PathBuf,
    /// Interpreters of the server's own surroundings.
    around: Vec<(PathBuf, Source)>,
    /// What is known to be there. What is not is looked for again: it may have been installed meanwhile.
    known: Mutex<HashMap<(PathBuf, &'static str), Probed>>,
    /// Programs beside packages that are known to be there, by name.
    programs: Mutex<HashMap<&'static str, Program>>,
    /// Held while an image is made or removed.
    image_turns: KeyedLock<String>,
}

impl Environments {
    /// Environments around this process, and those made below `folder`.
    pub fn new(folder: PathBuf) -> Self {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let own = variable("MUSTER_PYTHON").map(|python| (python, Source::Variable));
        let active = variable("VIRTUAL_ENV").map(|venv| (venv.join(INTERPRETER), Source::Active));
        Self::with(folder, own.into_iter().chain(active).collect())
    }

    /// Environments that are named, and those made below `folder`.
    pub fn with(folder: PathBuf, around: Vec<(PathBuf, Source)>) -> Self {
        Self::of_base(BASE.into(), folder, around)
    }

    fn of_base(base: PathBuf, folder: PathBuf, around: Vec<(PathBuf, Source)>) -> Self {
        Self {
            inner: Arc::new(Inner {
                folder,
                base,
                around,
                known: Mutex::default(),
                programs: Mutex::default(),
                image_turns: KeyedLock::default(),
            }),
        }
    }

    /// The first environment that has the framework: of whoever asks, around the server, made by us.
    pub async fn find(
        &self,
        framework: &dyn LocalFramework,
        asked: Option<&Path>,
    ) -> Result<Environment, Missing> {
        let asked = asked.map(|python| (python.to_owned(), Source::Asked));
        let made = install::made(&self.inner.folder, framework);
        let made = made.into_iter().map(|folder| (folder.join(INTERPRETER), Source::Installed));
        let mut looked = Vec::new();
        for (python, source) in asked.into_iter().chain(self.inner.around.iter().cloned()).chain(made) {
            match self.probe(&python, framework.package().module).await {
                Ok(Probed { version, package }) => {
                    return Ok(Environment { python, package, version, source });
                }
                Err(why) => looked.push(format!("{} ({}): {why}", python.display(), source.as_str())),
            }
        }
        let looked = if looked.is_empty() { String::new() } else { format!(" ({})", looked.join("; ")) };
        Err(Missing { framework: framework.framework(), looked })
    }

    async fn probe(&self, python: &Path, module: &'static str) -> Result<Probed, String> {
        let key = (python.to_owned(), module);
        // An interpreter that has gone since has taken the framework along.
        if let Some(probed) = self.inner.known.lock().get(&key).filter(|_| python.exists()) {
            return Ok(probed.clone());
        }
        let probed = probe(python, module).await?;
        self.inner.known.lock().insert(key, probed.clone());
        Ok(probed)
    }

    /// Asks anew the next time.
    fn forget(&self, framework: &dyn LocalFramework) {
        let module = framework.package().module;
        self.inner.known.lock().retain(|(_, known), _| *known != module);
        if let Some(requirement) = framework.requirement() {
            self.inner.programs.lock().remove(requirement.program);
        }
    }
}

#[cfg(test)]
mod tests;
