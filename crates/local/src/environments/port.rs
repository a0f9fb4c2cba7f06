//! Environments as the engine's port sees them.

use async_trait::async_trait;
use muster_core::cluster::Framework;
use muster_engine::ports::frameworks::{FrameworkEnvironment, Frameworks, Installation, MissingFramework};

use super::require::Unmet;
use super::{Environment, Environments, Missing};

impl From<Environment> for FrameworkEnvironment {
    fn from(Environment { python, version, source, .. }: Environment) -> Self {
        Self { version, interpreter: python.to_string_lossy().into_owned(), source: source.as_str() }
    }
}

impl From<Missing> for MissingFramework {
    fn from(missing: Missing) -> Self {
        Self { what: missing.what(), command: Some(missing.command()) }
    }
}

impl From<Unmet> for MissingFramework {
    fn from(unmet: Unmet) -> Self {
        Self { what: unmet.to_string(), command: None }
    }
}

fn not_local(framework: Framework) -> String {
    format!("{framework} does not run as local processes yet")
}

#[async_trait]
impl Frameworks for Environments {
    async fn environment(&self, framework: Framework) -> Result<FrameworkEnvironment, MissingFramework> {
        let Some(local) = muster_frameworks::local(framework) else {
            return Err(MissingFramework { what: not_local(framework), command: None });
        };
        // Whoever looks wants to know how it is now: packages may have been upgraded or removed since.
        self.forget(local);
        self.require(local).await?;
        Ok(self.find(local, None).await?.into())
    }

    fn install(&self, framework: Framework) -> Result<Installation, String> {
        let local = muster_frameworks::local(framework).ok_or_else(|| {
            let known: Vec<String> =
                muster_frameworks::all_local().map(|local| local.framework().to_string()).collect();
            format!(
                "{}, so there is nothing to install: {} can be installed",
                not_local(framework),
                known.join(", ")
            )
        })?;
        Ok(Self::install(self, local))
    }
}
