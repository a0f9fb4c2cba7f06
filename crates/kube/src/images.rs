//! Image builds: each is a Job that builds an image and pushes it to a registry.

mod dockerfile;
mod job;

use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{SinkExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use kube::{Api, Client, Error};
use muster_core::ids::TaskId;
use muster_core::image_template::ImageSpec;
use muster_engine::ports::images::{BuildProgress, ImageBuild, ImageBuilder};
use muster_engine::ports::provider::{INVALID, ProviderError};
use sha2::{Digest as _, Sha256};

use crate::errors;
use crate::logs::lossy_lines;
use crate::writer::with_deadline;
use job::BuildState;

/// The interval between two observations of a build, which takes minutes.
const OBSERVATION_PERIOD: Duration = Duration::from_secs(2);

/// The number of log lines that may wait for a slow reader.
const MAX_WAITING_LINES: usize = 64;

/// The settings of image builds.
#[derive(Debug, Clone)]
pub struct ImageOptions {
    /// The registry to push to, with an optional path; without a registry images cannot be built.
    pub registry: Option<String>,
    /// The image of the builder, which has `BuildKit` and runs without root.
    pub builder: String,
    /// The Secret with the credentials of the registry, in the namespace of the build.
    pub push_secret: Option<String>,
}

impl Default for ImageOptions {
    fn default() -> Self {
        Self { registry: None, builder: "moby/buildkit:rootless".to_owned(), push_secret: None }
    }
}

/// Builds images by Jobs. Handles are cheap to clone.
#[derive(Clone)]
pub(crate) struct Images {
    client: Client,
    options: ImageOptions,
}

impl Images {
    pub(crate) fn new(client: Client, options: ImageOptions) -> Self {
        Self { client, options }
    }

    /// Creates the Job of a build, unless it exists.
    async fn create_job(&self, task: TaskId, build: &ImageBuild) -> Result<(), ProviderError> {
        let what = format!("create the Job of image template '{}/{}'", build.namespace, build.name);
        let job = serde_json::from_value(job::manifest(task, build, &self.options))
            .map_err(|error| ProviderError::permanent(INVALID, error.to_string()))?;
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), &build.namespace);
        match with_deadline(&what, jobs.create(&PostParams::default(), &job)).await? {
            Ok(_) => Ok(()),
            Err(Error::Api(answer)) if answer.reason == "AlreadyExists" => Ok(()),
            Err(error) => Err(errors::request_error(&what, error)),
        }
    }

    /// Observes a build by its pod, or without a pod by its Job. Also returns the name of the pod.
    async fn observe_build(
        &self,
        task: TaskId,
        namespace: &str,
    ) -> Result<(BuildState, String), ProviderError> {
        let what = format!("observe the build '{namespace}/{}'", job::job_name(task));
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let selector = ListParams::default().labels(&format!("{}={task}", job::TASK));
        let found = with_deadline(&what, pods.list(&selector))
            .await?
            .map_err(|error| errors::request_error(&what, error))?;
        if let Some(pod) = found.items.into_iter().next() {
            return Ok((job::build_state(&pod), pod.metadata.name.unwrap_or_default()));
        }
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        let name = job::job_name(task);
        let Some(found) = errors::found(&what, with_deadline(&what, jobs.get(&name)).await?)? else {
            return Err(ProviderError::transient("JobGone", format!("Job '{namespace}/{name}' was deleted")));
        };
        let state = match job::end_without_pod(&found) {
            Some(why) => BuildState::Failed(why),
            None => BuildState::Waiting(self.latest_warning(&found, namespace).await),
        };
        Ok((state, String::new()))
    }

    /// Returns the latest warning about a Job: why its pod cannot be created. Empty if there is none.
    async fn latest_warning(&self, job: &Job, namespace: &str) -> String {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        let about = ListParams::default().fields(&format!("involvedObject.uid={uid},type=Warning"));
        // Without the right to read events, the build is observed all the same.
        let Ok(Ok(found)) = with_deadline("list the events of a Job", events.list(&about)).await else {
            return String::new();
        };
        let at = |event: &Event| event.last_timestamp.clone().map(|time| time.0);
        let latest = found.items.into_iter().max_by_key(at);
        latest.and_then(|event| event.message).unwrap_or_default()
    }

    /// Sends the lines that the builder logs, until the log ends.
    async fn send_log(
        &self,
        namespace: &str,
        pod: &str,
        lines: &mut futures::channel::mpsc::Sender<BuildProgress>,
    ) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let container = Some(job::CONTAINER.to_owned());
        let follow = LogParams { follow: true, container, ..LogParams::default() };
        // A log that cannot be read changes nothing about the build.
        let Ok(log) = pods.log_stream(pod, &follow).await else { return };
        let mut log = std::pin::pin!(lossy_lines(log));
        while let Ok(Some(line)) = log.try_next().await {
            drop(lines.send(BuildProgress::Line(line)).await);
        }
    }

    /// Builds an image, and returns its digest.
    async fn build_image(
        &self,
        task: TaskId,
        build: &ImageBuild,
        lines: &mut futures::channel::mpsc::Sender<BuildProgress>,
    ) -> Result<String, ProviderError> {
        self.create_job(task, build).await?;
        let (mut has_log, mut last) = (false, String::new());
        loop {
            let (state, name) = self.observe_build(task, &build.namespace).await?;
            if !matches!(state, BuildState::Waiting(_)) && !has_log && !name.is_empty() {
                has_log = true;
                self.send_log(&build.namespace, &name, lines).await;
                continue;
            }
            match state {
                BuildState::Succeeded(digest) => return Ok(digest),
                BuildState::Failed(why) => return Err(ProviderError::permanent("BuildFailed", why)),
                BuildState::Waiting(why) if !why.is_empty() && why != last => {
                    drop(lines.send(BuildProgress::Line(why.clone())).await);
                    last = why;
                }
                BuildState::Waiting(_) | BuildState::Running => {}
            }
            tokio::time::sleep(OBSERVATION_PERIOD).await;
        }
    }
}

#[async_trait]
impl ImageBuilder for Images {
    fn image_of(&self, namespace: &str, name: &str, spec: &ImageSpec) -> Result<String, ProviderError> {
        let Some(registry) = &self.options.registry else {
            let message =
                "images cannot be built, because there is no registry to push them to: set image_registry";
            return Err(ProviderError::permanent(INVALID, message));
        };
        let digest = format!("{:x}", Sha256::digest(spec.content()));
        Ok(format!("{}/{namespace}/{name}:{digest:.12}", registry.trim_end_matches('/')))
    }

    async fn admit(&self, spec: &ImageSpec) -> Result<Vec<String>, ProviderError> {
        if spec.base_image.is_empty() {
            let message = "base_image is empty: give the image that this one is based on, such as that of the framework";
            return Err(ProviderError::permanent(INVALID, message));
        }
        Ok(Vec::new())
    }

    fn build(&self, task: TaskId, build: ImageBuild) -> BoxStream<'static, BuildProgress> {
        let images = self.clone();
        let (mut sender, lines) = futures::channel::mpsc::channel(MAX_WAITING_LINES);
        let building = async move {
            let built = images.build_image(task, &build, &mut sender.clone()).await;
            let end = match built {
                Ok(digest) => BuildProgress::Done { digest },
                Err(error) => BuildProgress::Failed(error),
            };
            drop(sender.send(end).await);
        };
        let building = futures::stream::once(building).filter_map(|()| std::future::ready(None));
        futures::stream::select(lines, building).boxed()
    }

    async fn remove(
        &self,
        task: TaskId,
        build: &ImageBuild,
        _: BoxFuture<'_, bool>,
    ) -> Result<(), ProviderError> {
        // A pushed image stays in the registry, whose own rules remove it.
        let what = format!("delete the Job of image template '{}/{}'", build.namespace, build.name);
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), &build.namespace);
        match with_deadline(&what, jobs.delete(&job::job_name(task), &DeleteParams::background())).await? {
            Ok(_) => Ok(()),
            Err(error) if errors::is_not_found(&error) => Ok(()),
            Err(error) => Err(errors::request_error(&what, error)),
        }
    }
}
