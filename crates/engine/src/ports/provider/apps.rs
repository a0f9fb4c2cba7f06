//! The ports to apps, which are workloads that use clusters: objects and processes.

use async_trait::async_trait;
use futures::stream::BoxStream;
use muster_core::app::{AppIdentity, GivenApp, Process};
use muster_core::ephemeral::AppStanding;
use muster_core::ids::ClusterId;

use crate::ports::provider::ProviderError;

/// Resolves, observes and marks apps that are objects of the provider.
#[async_trait]
pub trait AppProvider: Send + Sync {
    /// Returns the apps that a name may mean. An empty list means that no app exists; an error means *unknown*.
    async fn resolve(&self, namespace: &str, given: &GivenApp) -> Result<Vec<ResolvedApp>, ProviderError>;

    /// Observes an app by its UID. An error is *unknown*, never *gone*.
    async fn observe(&self, app: &AppIdentity) -> Result<AppObservation, ProviderError>;

    /// Counts the pods of an app that have not ended: while an app is rolled out, more than it wants.
    async fn running_pods(&self, app: &AppIdentity) -> Result<u32, ProviderError>;

    /// Writes on an app's object which clusters it uses; returns false if the object is gone.
    async fn mark(&self, app: &AppIdentity, marks: &AppMarks) -> Result<bool, ProviderError>;

    /// Publishes changes of marked apps, for as long as it is polled.
    fn changes(&self) -> BoxStream<'static, AppChange>;
}

/// An app that was resolved from a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedApp {
    /// The app: the controller of a pod, the current replica set of a Deployment.
    pub app: AppIdentity,
    /// The Deployment that the app belongs to.
    pub deployment: Option<AppIdentity>,
    /// Other apps that the name also stands for when a cluster is deleted: all replica sets of a Deployment.
    pub siblings: Vec<AppIdentity>,
    /// The name of the cluster that the app's drivers use, as its object says, with the id if Muster wrote it.
    pub cluster: Option<(String, Option<ClusterId>)>,
}

/// The observation of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppObservation {
    /// The standing of the app: it wants its cluster, or is gone; never unknown.
    pub standing: AppStanding,
    /// The reason why the app does not want its cluster, for users.
    pub reason: String,
    /// True if pods of an app that does not want its cluster have not ended.
    pub has_pods: bool,
}

/// The marks that an app's object gets for the clusters that the app uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppMarks {
    /// The name of the cluster that the app's next driver uses.
    pub cluster_name: Option<String>,
    /// The names and ids of all clusters that the app uses.
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

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// The process runs.
    Running,
    /// The process has ended, or its host was restarted.
    Ended,
}

/// Observes apps that are processes of the server's host.
#[async_trait]
pub trait ProcessProvider: Send + Sync {
    /// Returns the state of a process; none if it is not a process of this host, or cannot be observed from here.
    fn state(&self, process: &Process) -> Option<ProcessState>;

    /// Returns when a process has ended.
    async fn wait_for_end(&self, process: &Process);
}
