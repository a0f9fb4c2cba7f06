//! The port that builds images.

use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use muster_core::ids::TaskId;
use muster_core::image_template::ImageSpec;
use muster_core::shape::Shape;
use muster_core::time::TimeSpan;
use serde::{Deserialize, Serialize};

use crate::ports::provider::ProviderError;

/// The timeout of a build.
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
    /// The resources that the build may use, on Kubernetes.
    pub shape: Shape,
}

/// The progress of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildProgress {
    /// A line of its log.
    Line(String),
    /// The image can be used.
    Done {
        /// The digest of its content.
        digest: String,
    },
    /// The build failed; a transient failure is retried.
    Failed(ProviderError),
}

/// Builds images of one provider instance.
#[async_trait]
pub trait ImageBuilder: Send + Sync {
    /// Returns the name of the image that is built from a template of this content.
    fn image_of(&self, namespace: &str, name: &str, spec: &ImageSpec) -> Result<String, ProviderError>;

    /// Refuses a spec that cannot be built here; otherwise returns sentences about parts of it that are not applied.
    async fn admit(&self, spec: &ImageSpec) -> Result<Vec<String>, ProviderError>;

    /// Builds an image, or continues a build that another engine began: each image is built once. Dropping the stream
    /// ends the build.
    fn build(&self, task: TaskId, build: ImageBuild) -> BoxStream<'static, BuildProgress>;

    /// Removes an image and the remains of its build, unless `is_used`.
    async fn remove(
        &self,
        task: TaskId,
        build: &ImageBuild,
        is_used: BoxFuture<'_, bool>,
    ) -> Result<(), ProviderError>;
}
