//! The port to apps: workloads that use clusters, where they run.

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::app::{AppIdentity, GivenApp, Process};
use muster_core::ephemeral::AppStanding;
use muster_core::ids::ClusterId;

use crate::ports::provider::ProviderError;

/// Apps that are objects: they are found by name, observed, and say which clusters they use.
#[async_trait]
pub trait AppProvider: Send + Sync {
    /// The apps that a name may mean. An empty list is a definite *not found*; an error is *unknown*.
    async fn resolve(&self, namespace: &str, given: &GivenApp) -> Result<Vec<ResolvedApp>, ProviderError>;

    /// Observes an app by its UID. An error is *unknown*, never *gone*.
    async fn observe(&self, app: &AppIdentity) -> Result<AppObservation, ProviderError>;

    /// Writes on an app's object which clusters it uses; false if the object is gone.
    async fn mark(&self, app: &AppIdentity, marks: &AppMarks) -> Result<bool, ProviderError>;

    /// Publishes changes of marked apps, for as long as it is polled.
    fn changes(&self) -> BoxStream<'static, AppChange>;
}

/// An app that a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedApp {
    /// The app: of a pod its controller, of a Deployment its current replica set.
    pub app: AppIdentity,
    /// The Deployment that it belongs to.
    pub deployment: Option<AppIdentity>,
    /// Other apps that the same name stands for, when a cluster is deleted: all replica sets of a Deployment.
    pub siblings: Vec<AppIdentity>,
    /// The cluster that its object says its drivers use, with its id if Muster wrote that.
    pub cluster: Option<(String, Option<ClusterId>)>,
}

/// What was observed of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppObservation {
    /// Whether it wants its cluster; never unknown.
    pub standing: AppStanding,
    /// Why it does not, for people.
    pub reason: String,
    /// Whether pods of an app that does not want its cluster have not ended.
    pub has_pods: bool,
}

/// What an app's object says of the clusters that it uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppMarks {
    /// The cluster that its next driver uses.
    pub cluster_name: Option<String>,
    /// All clusters that it uses, with their ids.
    pub uses: Vec<(String, ClusterId)>,
}

/// A change of apps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppChange {
    /// The app with this UID changed, or others that belong to it.
    App(String),
    /// Any app may have changed.
    Everything,
}

/// Whether a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// It runs.
    Running,
    /// It has ended, or its host was restarted.
    Ended,
}

/// Apps that are processes of the server's host.
#[async_trait]
pub trait ProcessProvider: Send + Sync {
    /// Whether a process runs; none if it is not a process of this host, as far as it can be seen from here.
    fn state(&self, process: &Process) -> Option<ProcessState>;

    /// Returns when a process has ended.
    async fn wait_for_end(&self, process: &Process);
}
