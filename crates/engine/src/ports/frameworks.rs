//! The port to the frameworks that are installed on this machine.

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use muster_core::cluster::Framework;

/// An environment in which a framework is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameworkEnvironment {
    /// The framework's version.
    pub version: String,
    /// The interpreter of the environment.
    pub interpreter: String,
    /// The place where the interpreter was found.
    pub source: &'static str,
    /// The packages that were added to what Muster installed.
    pub packages: Vec<String>,
}

/// The error of a framework that cannot be used.
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
        /// The environment in which the framework is installed.
        found: FrameworkEnvironment,
        /// True if the framework was installed before.
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

    /// Upgrades an installed framework to the pinned versions, and its added packages to the newest ones that fit.
    /// Environments of older versions stay if `is_used`, since clusters run in them.
    /// The future is awaited right before their removal: a cluster may begin to use them during the upgrade.
    fn upgrade(
        &self,
        framework: Framework,
        is_used: BoxFuture<'static, bool>,
    ) -> Result<Installation, String>;

    /// Returns true if Muster installed the framework, with whatever versions.
    fn is_installed(&self, framework: Framework) -> bool;

    /// Returns true if nodes with this image run in an environment that Muster installed.
    async fn runs_installed(&self, framework: Framework, image: Option<&str>) -> bool;

    /// Removes the installed framework; returns false if there was none.
    async fn remove(&self, framework: Framework) -> Result<bool, String>;
}
