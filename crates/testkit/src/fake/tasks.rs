//! Tasks of the fake provider: builds of images that have no content, and commands that run until they are stopped.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use muster_core::cluster::Cluster;
use muster_core::ids::TaskId;
use muster_core::image_template::ImageSpec;
use muster_core::job::{CommandEnd, Job, JobSpec};
use muster_engine::ports::images::{BuildProgress, ImageBuild, ImageBuilder};
use muster_engine::ports::jobs::{CommandProgress, JobCall, JobEnd, JobLog, JobRunner, JobStart};
use muster_engine::ports::provider::{LogQuery, ProviderError};

use super::{Fake, Verb};

/// A command that does not exist; all others do.
pub const MISSING_COMMAND: &str = "missing";

#[async_trait]
impl ImageBuilder for Fake {
    fn image_of(&self, namespace: &str, name: &str, _: &ImageSpec) -> Result<String, ProviderError> {
        Ok(format!("{namespace}/{name}"))
    }

    async fn admit(&self, _: &ImageSpec) -> Result<Vec<String>, ProviderError> {
        Ok(Vec::new())
    }

    fn build(&self, _: TaskId, _: ImageBuild) -> BoxStream<'static, BuildProgress> {
        let world = Arc::clone(&self.world);
        let built = async move {
            match world.work(Verb::Build).await {
                Ok(()) => BuildProgress::Done { digest: "fake".to_owned() },
                Err(error) => BuildProgress::Failed(error),
            }
        };
        stream::once(built).boxed()
    }

    async fn remove(
        &self,
        _: TaskId,
        _: &ImageBuild,
        is_used: BoxFuture<'_, bool>,
    ) -> Result<(), ProviderError> {
        is_used.map(|_| Ok(())).await
    }
}

#[async_trait]
impl JobRunner for Fake {
    async fn admit(&self, _: &JobSpec, _: &Cluster) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn start(&self, call: JobCall<'_>, _: JobStart<'_>) -> Result<CommandProgress, ProviderError> {
        self.world.work(Verb::Launch).await?;
        if call.job.spec.command.iter().any(|word| word == MISSING_COMMAND) {
            let message = format!("could not be started: there is no command '{MISSING_COMMAND}'");
            let how = CommandEnd::NotStarted(127);
            return Ok(CommandProgress::Ended(JobEnd { how, message, log: String::new() }));
        }
        Ok(CommandProgress::Running(None))
    }

    async fn adopt(&self, _: JobCall<'_>) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn advance(&self, _: &Job, _: &CommandProgress) -> Result<CommandProgress, ProviderError> {
        self.world.work(Verb::Follow).await?;
        std::future::pending().await
    }

    async fn stop(&self, _: JobCall<'_>) -> Result<JobEnd, ProviderError> {
        let message = "was ended".to_owned();
        Ok(JobEnd { how: CommandEnd::Signaled(15), message, log: String::new() })
    }

    async fn logs(&self, _: &Job, _: LogQuery) -> Result<JobLog, ProviderError> {
        Ok(stream::empty().boxed())
    }
}
