//! The port to the frameworks that are installed on this machine.

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::cluster::Framework;

/// An environment that has a framework.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameworkEnvironment {
    /// The framework's version.
    pub version: String,
    /// The interpreter that has it.
    pub interpreter: String,
    /// Where the interpreter was found.
    pub source: &'static str,
    /// The packages that were added to what Muster installed.
    pub packages: Vec<String>,
}

/// Why a framework cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFramework {
    /// The message.
    pub what: String,
    /// The command that installs it; none if it cannot be installed.
    pub command: Option<String>,
}

/// The progress of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallProgress {
    /// The current step.
    Doing(String),
    /// The framework is installed; `already` if it was before.
    Done {
        /// The environment that has it.
        found: FrameworkEnvironment,
        /// Whether it was installed before.
        already: bool,
    },
}

/// The progress of an installation; an error is the last item. Dropping the stream stops the installation.
pub type Installation = BoxStream<'static, Result<InstallProgress, String>>;

/// The frameworks that local processes can run.
#[async_trait]
pub trait Frameworks: Send + Sync {
    /// Finds the environment of a framework.
    async fn environment(&self, framework: Framework) -> Result<FrameworkEnvironment, MissingFramework>;

    /// Installs a framework, unless it is installed, and adds packages to it; the error says why that is not possible.
    fn install(&self, framework: Framework, packages: Vec<String>) -> Result<Installation, String>;

    /// Brings what was installed to the pinned versions, and its added packages to the newest ones that fit. Environments
    /// of older versions stay while clusters are in use.
    fn upgrade(&self, framework: Framework, is_used: bool) -> Result<Installation, String>;

    /// Whether nodes with this image run in what was installed here.
    async fn runs_installed(&self, framework: Framework, image: Option<&str>) -> bool;

    /// Removes what was installed; returns whether there was something.
    async fn remove(&self, framework: Framework) -> Result<bool, String>;
}
