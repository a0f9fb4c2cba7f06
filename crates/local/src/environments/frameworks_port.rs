//! Implements the engine's port `Frameworks`.

use std::path::Path;

use async_trait::async_trait;
use futures::future::BoxFuture;
use muster_core::cluster::Framework;
use muster_engine::ports::frameworks::{FrameworkEnvironment, Frameworks, Installation, MissingFramework};
use muster_frameworks::LocalFramework;

use super::requirement::UnmetRequirement;
use super::{Environment, EnvironmentSource, Environments, FrameworkNotFound};

impl Environments {
    /// Converts an environment to the type of the port.
    pub(super) fn describe(
        &self,
        framework: &dyn LocalFramework,
        environment: Environment,
    ) -> FrameworkEnvironment {
        let Environment { python, version, source, .. } = environment;
        let packages = match source {
            EnvironmentSource::Installed => self.added_packages(framework),
            _ => Vec::new(),
        };
        let interpreter = python.to_string_lossy().into_owned();
        FrameworkEnvironment { version, interpreter, source: source.as_str(), packages }
    }
}

impl From<FrameworkNotFound> for MissingFramework {
    fn from(missing: FrameworkNotFound) -> Self {
        Self { what: missing.description(), command: Some(missing.command()) }
    }
}

impl From<UnmetRequirement> for MissingFramework {
    fn from(unmet: UnmetRequirement) -> Self {
        Self { what: unmet.to_string(), command: None }
    }
}

fn not_local_message(framework: Framework) -> String {
    format!("{framework} does not run as local processes")
}

fn find_installable(framework: Framework) -> Result<&'static dyn LocalFramework, String> {
    muster_frameworks::local(framework).ok_or_else(|| {
        let known: Vec<String> =
            muster_frameworks::all_local().map(|local| local.framework().to_string()).collect();
        format!(
            "{}, so there is nothing to install: {} can be installed",
            not_local_message(framework),
            known.join(", ")
        )
    })
}

#[async_trait]
impl Frameworks for Environments {
    async fn environment(&self, framework: Framework) -> Result<FrameworkEnvironment, MissingFramework> {
        let Some(local) = muster_frameworks::local(framework) else {
            return Err(MissingFramework { what: not_local_message(framework), command: None });
        };
        // Probes again instead of using the cache: packages may have been upgraded or removed.
        self.forget_probes(local);
        self.find_requirement(local).await?;
        let found = self.find(local, None).await?;
        Ok(self.describe(local, found))
    }

    fn install(&self, framework: Framework, packages: Vec<String>) -> Result<Installation, String> {
        Ok(Self::install(self, find_installable(framework)?, packages))
    }

    fn upgrade(
        &self,
        framework: Framework,
        is_used: BoxFuture<'static, bool>,
    ) -> Result<Installation, String> {
        Ok(Self::upgrade(self, find_installable(framework)?, is_used))
    }

    fn is_installed(&self, framework: Framework) -> bool {
        muster_frameworks::local(framework).is_some_and(|local| self.was_installed(local))
    }

    async fn runs_installed(&self, framework: Framework, image: Option<&str>) -> bool {
        let Some(local) = muster_frameworks::local(framework) else { return false };
        match self.find(local, image.map(Path::new)).await {
            Ok(found) => self.is_installed_by_muster(&found.python),
            Err(_) => image.is_some_and(|image| self.is_installed_by_muster(Path::new(image))),
        }
    }

    async fn remove(&self, framework: Framework) -> Result<bool, String> {
        Self::remove(self, find_installable(framework)?).await
    }
}
