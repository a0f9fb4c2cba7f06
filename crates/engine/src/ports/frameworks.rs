//! The port to what local processes run: the frameworks that are on this machine.

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::cluster::Framework;

/// An environment that has a framework.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The framework's version.
    pub version: String,
    /// The interpreter that has it.
    pub interpreter: String,
    /// Where that was found, in words.
    pub source: &'static str,
}

/// Why a framework cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// In a sentence.
    pub what: String,
    /// What to type; nothing if it cannot be installed.
    pub command: Option<String>,
}

/// What is told of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installing {
    /// What is being done now, in a line.
    Doing(String),
    /// It is there, and was before if `already`.
    Done {
        /// What is there.
        found: Found,
        /// Whether nothing had to be done.
        already: bool,
    },
}

/// An installation as it goes on; an error is a sentence and the last. It ends with whoever listens.
pub type Installation = BoxStream<'static, Result<Installing, String>>;

/// The frameworks that local processes can run.
#[async_trait]
pub trait Frameworks: Send + Sync {
    /// What there is of a framework.
    async fn look(&self, framework: Framework) -> Result<Found, Lacking>;

    /// Brings a framework, unless it is there; the sentence says why that is not possible.
    fn install(&self, framework: Framework) -> Result<Installation, String>;
}
