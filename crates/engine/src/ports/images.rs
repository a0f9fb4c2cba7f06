//! The port to where images are built.

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use muster_core::ids::TaskId;
use muster_core::image_template::ImageSpec;
use muster_core::shape::Shape;
use muster_core::time::TimeSpan;
use serde::{Deserialize, Serialize};

use crate::ports::provider::ProviderError;

/// How long a build may take.
pub const BUILD_LIMIT: TimeSpan = TimeSpan::from_secs(3600);

/// The build of an image, as its task stores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageBuild {
    /// The namespace of the template.
    pub namespace: String,
    /// The name of the template.
    pub name: String,
    /// The image that is built.
    pub image: String,
    /// Its content.
    pub spec: ImageSpec,
    /// What the build may use, on Kubernetes.
    pub shape: Shape,
}

/// How a build goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildProgress {
    /// A line of its log.
    Line(String),
    /// The image can be used.
    Done {
        /// Identifies its content.
        digest: String,
    },
    /// It failed; a transient failure is tried again.
    Failed(ProviderError),
}

/// Builds images of one provider instance.
#[async_trait]
pub trait ImageBuilder: Send + Sync {
    /// The image that a template of this content gets.
    fn image_of(&self, namespace: &str, name: &str, spec: &ImageSpec) -> Result<String, ProviderError>;

    /// Refuses what cannot be built here; returns what is not applied, in sentences.
    async fn admit(&self, spec: &ImageSpec) -> Result<Vec<String>, ProviderError>;

    /// Builds an image, or goes on with a build that another engine began: each image is built once. A build ends when
    /// the stream is dropped.
    fn build(&self, task: TaskId, build: ImageBuild) -> BoxStream<'static, BuildProgress>;

    /// Removes an image, and what is left of its build, unless it is used by now.
    async fn remove(
        &self,
        task: TaskId,
        build: &ImageBuild,
        is_used: BoxFuture<'_, bool>,
    ) -> Result<(), ProviderError>;
}
