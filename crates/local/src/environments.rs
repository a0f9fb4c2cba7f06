//! Python environments with a framework: finds those of the user and the server, installs others, and builds images.

mod command;
mod framework_build;
mod frameworks_port;
mod images;
mod install;
mod packages;
mod probe;
mod requirement;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_core::cluster::Framework;
use muster_engine::ports::keyed_lock::KeyedLock;
use muster_frameworks::{InstalledProgram, LocalFramework};

use parking_lot::Mutex;
use probe::{ProbedPackage, probe};
pub use requirement::UnmetRequirement;

/// The variable that names a Python interpreter. Server and commands use it; programs that use a cluster get the
/// interpreter of the cluster in it.
pub const PYTHON_VARIABLE: &str = "MUSTER_PYTHON";

/// The module search path of Python.
pub const MODULE_PATH_VARIABLE: &str = "PYTHONPATH";

/// The interpreter of an environment, relative to its folder.
const INTERPRETER: &str = "bin/python";

/// The interpreter that creates environments.
const BASE: &str = "python3";

/// The origin of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvironmentSource {
    /// The caller named it.
    Requested,
    /// The variable `MUSTER_PYTHON` names it.
    Variable,
    /// The active virtual environment.
    Active,
    /// The active conda environment of a command.
    Conda,
    /// The `python` on the `PATH` of a command.
    Path,
    /// An environment that Muster installed.
    Installed,
}

impl EnvironmentSource {
    /// Returns the text for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Variable => "MUSTER_PYTHON",
            Self::Active => "active virtual environment",
            Self::Conda => "active conda environment",
            Self::Path => "python on PATH",
            Self::Installed => "installed by Muster",
        }
    }
}

/// A Python environment that has a framework.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The path of the interpreter.
    pub python: PathBuf,
    /// The folder of the framework's package.
    pub package: PathBuf,
    /// The framework's version.
    pub version: String,
    /// The version of Python; empty if it is unknown.
    pub python_version: String,
    /// The origin of the environment.
    pub source: EnvironmentSource,
}

impl Environment {
    /// Probes an interpreter for the framework. The error says why it cannot be used.
    pub async fn probe(
        python: PathBuf,
        source: EnvironmentSource,
        framework: &dyn LocalFramework,
    ) -> Result<Self, String> {
        let ProbedPackage { version, package, python_version } =
            probe(&python, framework.package().module).await?;
        Ok(Self { python, package, version, python_version, source })
    }
}

/// The error of a search: no environment has the framework.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: `{}` installs it", self.description(), self.command())]
pub struct FrameworkNotFound {
    framework: Framework,
    searched: String,
}

impl FrameworkNotFound {
    /// Returns what is missing, with the interpreters that were searched.
    pub fn description(&self) -> String {
        format!("{} is not installed (searched: {})", self.framework, self.searched)
    }

    /// Returns the command that installs the framework.
    pub fn command(&self) -> String {
        format!("muster framework install {}", self.framework)
    }
}

/// Finds and installs environments. Handles are cheap to clone.
#[derive(Clone)]
pub struct Environments {
    inner: Arc<EnvironmentsInner>,
}

struct EnvironmentsInner {
    /// The folder of installed environments.
    folder: PathBuf,
    /// The interpreter that creates them.
    base: PathBuf,
    /// Interpreters that the server's environment names, in order of preference.
    preferred: Vec<(PathBuf, EnvironmentSource)>,
    /// Successful probes. Failures are not cached: the framework may be installed meanwhile.
    probes: Mutex<HashMap<(PathBuf, &'static str), ProbedPackage>>,
    /// Required programs that were found, by name.
    programs: Mutex<HashMap<&'static str, InstalledProgram>>,
    /// Held while an image is built or removed.
    image_locks: KeyedLock<String>,
}

impl Environments {
    /// Uses the interpreters that the variables of this process name, and environments installed in `folder`.
    pub fn new(folder: PathBuf) -> Self {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let own = variable(PYTHON_VARIABLE).map(|python| (python, EnvironmentSource::Variable));
        let active = variable("VIRTUAL_ENV").map(|venv| (venv.join(INTERPRETER), EnvironmentSource::Active));
        Self::with_interpreters(folder, own.into_iter().chain(active).collect())
    }

    /// Uses the given interpreters, and environments installed in `folder`.
    pub fn with_interpreters(folder: PathBuf, preferred: Vec<(PathBuf, EnvironmentSource)>) -> Self {
        Self::with_base(BASE.into(), folder, preferred)
    }

    fn with_base(base: PathBuf, folder: PathBuf, preferred: Vec<(PathBuf, EnvironmentSource)>) -> Self {
        Self {
            inner: Arc::new(EnvironmentsInner {
                folder,
                base,
                preferred,
                probes: Mutex::default(),
                programs: Mutex::default(),
                image_locks: KeyedLock::default(),
            }),
        }
    }

    /// Finds the first environment that has the framework: the requested one, one of the server's, or an installed one.
    pub async fn find(
        &self,
        framework: &dyn LocalFramework,
        requested: Option<&Path>,
    ) -> Result<Environment, FrameworkNotFound> {
        let requested = requested.map(|python| (python.to_owned(), EnvironmentSource::Requested));
        let installed = install::complete_environment(&self.inner.folder, framework);
        let installed =
            installed.into_iter().map(|folder| (folder.join(INTERPRETER), EnvironmentSource::Installed));
        let mut searched = Vec::new();
        for (python, source) in
            requested.into_iter().chain(self.inner.preferred.iter().cloned()).chain(installed)
        {
            match self.probe(&python, framework.package().module).await {
                Ok(ProbedPackage { version, package, python_version }) => {
                    return Ok(Environment { python, package, version, python_version, source });
                }
                Err(why) => searched.push(format!("{} ({}): {why}", python.display(), source.as_str())),
            }
        }
        searched.extend(self.missing_places(framework));
        Err(FrameworkNotFound { framework: framework.framework(), searched: searched.join("; ") })
    }

    /// Describes the places of a search that name no interpreter.
    fn missing_places(&self, framework: &dyn LocalFramework) -> Vec<String> {
        let of_server = [
            (EnvironmentSource::Variable, "MUSTER_PYTHON of the server: not set"),
            (EnvironmentSource::Active, "virtual environment of the server: none was active when it started"),
        ];
        let is_given = |source| self.inner.preferred.iter().any(|(_, known)| *known == source);
        let mut missing: Vec<String> = of_server
            .into_iter()
            .filter(|(source, _)| !is_given(*source))
            .map(|(_, place)| place.to_owned())
            .collect();
        if install::complete_environment(&self.inner.folder, framework).is_none() {
            missing.push(format!("{}: nothing was installed by Muster", self.inner.folder.display()));
        }
        missing
    }

    async fn probe(&self, python: &Path, module: &'static str) -> Result<ProbedPackage, String> {
        let key = (python.to_owned(), module);
        // A cached probe is invalid once its interpreter was removed.
        if let Some(probed) = self.inner.probes.lock().get(&key).filter(|_| python.exists()) {
            return Ok(probed.clone());
        }
        let probed = probe(python, module).await?;
        self.inner.probes.lock().insert(key, probed.clone());
        Ok(probed)
    }

    /// Drops cached probes, so that the next search runs them again.
    fn forget_probes(&self, framework: &dyn LocalFramework) {
        let module = framework.package().module;
        self.inner.probes.lock().retain(|(_, known), _| *known != module);
        if let Some(requirement) = framework.requirement() {
            self.inner.programs.lock().remove(requirement.program);
        }
    }
}

#[cfg(test)]
mod tests;
