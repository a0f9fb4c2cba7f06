//! Resolves the app that a request names, observes it, and deletes clusters on its behalf.

use muster_core::action::{Action, ActionKind, OnConflict};
use muster_core::app::{App, AppIdentity, AppKind, AppState, EphemeralMark, GivenApp, Process};
use muster_core::change::{Change, Delete};
use muster_core::cluster::Cluster;
use muster_core::ephemeral::{AppStanding, DriverEnd, EphemeralDecision, LeaveRule, MarkState, decide};
use muster_core::ids::InstanceId;
use muster_store::commands::{EndForApp, EndedForApp};
use muster_store::reads::AppQuery;
use muster_store::{Store, StoreError};

use crate::admission::request::{Caller, SubmitError};
use crate::admission::submit;
use crate::context::{Context, Engine};
use crate::ports::provider::{
    AppObservation, AppProvider, ProcessState, Provider, ProviderError, ResolvedApp,
};

/// The observation of the app that a cluster is marked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MarkedApp {
    /// The row of the app, if it has one.
    pub(crate) app: Option<App>,
    /// The standing of the app: it wants its cluster, is gone, or is unknown.
    pub(crate) standing: AppStanding,
    /// The reason why the app is gone or unknown, for users.
    pub(crate) reason: String,
    /// True if pods of an app that is gone still run.
    pub(crate) has_pods: bool,
    /// The app that a mark names which another program wrote, if exactly one matches: such a mark has only a name.
    pub(crate) named: Option<AppIdentity>,
}

impl MarkedApp {
    const fn new(app: Option<App>, standing: AppStanding, reason: String) -> Self {
        Self { app, standing, reason, has_pods: false, named: None }
    }

    fn unknown(app: Option<App>, reason: impl Into<String>) -> Self {
        Self::new(app, AppStanding::Unknown, reason.into())
    }
}

/// The outcome of a deletion on behalf of an app.
#[derive(Debug, Clone)]
pub enum DeletionForApp {
    /// The cluster is being deleted, by this action.
    Deleting(Box<Action>),
    /// The cluster stays, by this rule.
    Left(LeaveRule),
}

/// The app that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundApp {
    /// A command that was registered.
    Command(Box<App>),
    /// An object of the provider.
    Object(Box<ResolvedApp>),
    /// The app certainly does not exist.
    Missing,
    /// The name fits several apps.
    Ambiguous(Vec<AppIdentity>),
}

impl Engine {
    /// Finds the app that a request names, at an instance. An error means *unknown*, never *missing*.
    pub async fn find_app(
        &self,
        instance: &InstanceId,
        namespace: &str,
        given: &GivenApp,
    ) -> Result<FoundApp, SubmitError> {
        Ok(self.context.find_app(instance, namespace, given).await?)
    }

    /// Observes the present state of an app. The row of an app without an ephemeral cluster may be old.
    pub async fn app_state(&self, app: &App) -> AppState {
        match self.context.standing(app).await {
            Ok(AppStanding::Unknown) | Err(_) => AppState::Unobserved,
            Ok(AppStanding::Gone) => AppState::Gone,
            Ok(AppStanding::Wanted(_) | AppStanding::Job(_)) => AppState::Running,
        }
    }

    /// Returns true if a process runs on the host of an instance, and can be watched from here.
    pub fn sees_process(&self, instance: &InstanceId, process: &Process) -> bool {
        let processes = self.provider(instance).and_then(Provider::process_provider);
        processes.and_then(|processes| processes.state(process)) == Some(ProcessState::Running)
    }

    /// Deletes a cluster if the rules for the end of an app's driver allow it.
    pub async fn delete_for_app(
        &self,
        cluster: &Cluster,
        given: &GivenApp,
        end: DriverEnd,
        caller: &Caller,
    ) -> Result<DeletionForApp, SubmitError> {
        let context = &self.context;
        let Some(mark) = cluster.ephemeral.as_deref() else {
            return Ok(DeletionForApp::Left(LeaveRule::NotEphemeral));
        };
        let (state, why) = Box::pin(context.mark_state(cluster, mark, given)).await?;
        let marked = Box::pin(context.marked_app(cluster, mark)).await?;
        let standing = context.standing_with_pods(cluster, mark, &marked).await;
        match decide(state, standing, end) {
            EphemeralDecision::Leave(rule) => Ok(DeletionForApp::Left(rule)),
            EphemeralDecision::Later => {
                let reason = why.unwrap_or(marked.reason);
                let message = format!("app '{mark}' cannot be observed, so the cluster stays: {reason}");
                Err(SubmitError::AppUnknown(message))
            }
            EphemeralDecision::Delete => {
                let change = Change::DeleteCluster(Delete { force: false });
                let mut action = context.action(ActionKind::ClusterDelete, cluster, None, caller);
                (action.version, action.inputs) = (change.version(), change.inputs());
                let accept = submit::accept(action, cluster, OnConflict::Preempt, caller.request_key());
                let command =
                    EndForApp { duty: None, cluster: cluster.id, mark: mark.clone(), app: None, accept };
                match Box::pin(context.store.end_for_app(command)).await? {
                    EndedForApp::Deleting(action) => Ok(DeletionForApp::Deleting(action)),
                    EndedForApp::Spared | EndedForApp::NotOurs => {
                        Ok(DeletionForApp::Left(LeaveRule::NotLinked))
                    }
                }
            }
        }
    }
}

impl Context {
    fn app_provider(&self, instance: &InstanceId) -> Option<std::sync::Arc<dyn AppProvider>> {
        self.provider(instance).and_then(Provider::app_provider)
    }

    async fn find_app(
        &self,
        instance: &InstanceId,
        namespace: &str,
        given: &GivenApp,
    ) -> Result<FoundApp, FindAppError> {
        if given.kind.is_none_or(|kind| kind == AppKind::Command) {
            let registered = self.store.apps_named(namespace, &given.name).await?;
            let command = |app: &App| app.kind == AppKind::Command && app.instance == *instance;
            if let Some(app) = registered.into_iter().find(command) {
                return Ok(FoundApp::Command(Box::new(app)));
            }
        }
        let Some(apps) = self.app_provider(instance) else { return Ok(FoundApp::Missing) };
        let mut found = apps.resolve(namespace, given).await?;
        Ok(match found.len() {
            0 => FoundApp::Missing,
            1 => FoundApp::Object(Box::new(found.remove(0))),
            _ => FoundApp::Ambiguous(found.into_iter().map(|resolved| resolved.app).collect()),
        })
    }

    /// Compares the mark of a cluster with the app that a request names; also returns the reason if that is unknown.
    async fn mark_state(
        &self,
        cluster: &Cluster,
        mark: &EphemeralMark,
        given: &GivenApp,
    ) -> Result<(MarkState, Option<String>), SubmitError> {
        let provider = self.provider(&cluster.instance);
        let unobserved = provider.iter().flat_map(|provider| provider.unobserved());
        if let Some(unobserved) = unobserved.into_iter().find(|unobserved| unobserved.concerns(cluster)) {
            return Ok((MarkState::Unreadable, Some(unobserved.reason)));
        }
        let found = match self.find_app(&cluster.instance, &cluster.namespace, given).await {
            Ok(found) => found,
            // The request names the marked app itself, so the observation of that app decides.
            Err(FindAppError::Provider(_)) if mark.is_named(given) => return Ok((MarkState::OfApp, None)),
            Err(FindAppError::Provider(error)) => return Ok((MarkState::Unreadable, Some(error.message))),
            Err(FindAppError::Store(error)) => return Err(error.into()),
        };
        let is_marked = |app: &AppIdentity| mark.is_of(app);
        let state = match found {
            FoundApp::Ambiguous(candidates) => {
                return Err(SubmitError::Invalid(ambiguous(given, &candidates)));
            }
            _ if mark.is_named(given) => MarkState::OfApp,
            FoundApp::Missing => MarkState::OfUnknown,
            FoundApp::Command(app) if mark.is_of(&app.identity()) => MarkState::OfApp,
            FoundApp::Object(resolved)
                if is_marked(&resolved.app)
                    || resolved.deployment.as_ref().is_some_and(is_marked)
                    || resolved.siblings.iter().any(is_marked) =>
            {
                MarkState::OfApp
            }
            FoundApp::Command(_) | FoundApp::Object(_) => MarkState::OfAnother,
        };
        Ok((state, None))
    }

    /// Observes an app.
    pub(crate) async fn standing(&self, app: &App) -> Result<AppStanding, StoreError> {
        if app.kind == AppKind::Command {
            return Ok(self.command(app.clone()).await?.standing);
        }
        let Some(apps) = self.app_provider(&app.instance) else { return Ok(AppStanding::Unknown) };
        Ok(apps.observe(&app.identity()).await.map_or(AppStanding::Unknown, |observed| observed.standing))
    }

    /// Returns the standing of an app, for a Deployment that wants one driver with the pods that it has now: those of two
    /// rollouts use its cluster at the same time.
    async fn standing_with_pods(
        &self,
        cluster: &Cluster,
        mark: &EphemeralMark,
        marked: &MarkedApp,
    ) -> AppStanding {
        let identity = mark.identity(&cluster.namespace);
        let is_one = matches!(marked.standing, AppStanding::Wanted(None | Some(1)));
        let has_rollouts = mark.kind == Some(AppKind::Deployment);
        match (identity.filter(|_| is_one && has_rollouts), self.app_provider(&cluster.instance)) {
            (Some(identity), Some(apps)) => {
                let count = apps.running_pods(&identity).await;
                count.map_or(AppStanding::Unknown, |count| AppStanding::Wanted(Some(count.max(1))))
            }
            _ => marked.standing,
        }
    }

    /// Observes the app that a cluster is marked with.
    pub(crate) async fn marked_app(
        &self,
        cluster: &Cluster,
        mark: &EphemeralMark,
    ) -> Result<MarkedApp, StoreError> {
        let row = match mark.uid.as_str() {
            "" => None,
            uid => self.store.app_by_uid(&cluster.instance, uid).await?,
        };
        if mark.kind == Some(AppKind::Command) {
            return match row {
                Some(app) => self.command(app).await,
                None => Ok(MarkedApp::unknown(None, "no such command is registered")),
            };
        }
        let Some(apps) = self.app_provider(&cluster.instance) else {
            return Ok(MarkedApp::unknown(row, "apps of its provider cannot be observed from this server"));
        };
        let observed = match mark.identity(&cluster.namespace) {
            Some(identity) => apps.observe(&identity).await.map(|observed| (observed, None)),
            None => observe_named(&self.store, apps.as_ref(), cluster, mark).await,
        };
        let (AppObservation { standing, reason, has_pods }, named) = match observed {
            Ok(observed) => observed,
            Err(error) => return Ok(MarkedApp::unknown(row, error.message)),
        };
        let app = match (row, &named) {
            (None, Some(identity)) => self.store.app_by_uid(&cluster.instance, &identity.uid).await?,
            (row, _) => row,
        };
        Ok(MarkedApp { app, standing, reason, has_pods, named })
    }

    /// Observes a command by its process or its lease.
    async fn command(&self, app: App) -> Result<MarkedApp, StoreError> {
        let gone = |app: App, reason: &str| MarkedApp::new(Some(app), AppStanding::Gone, reason.to_owned());
        if app.state == AppState::Gone && app.process.is_none() && app.lease_until.is_none() {
            return Ok(gone(app, "it has ended"));
        }
        if let Some(process) = &app.process {
            let processes = self.provider(&app.instance).and_then(Provider::process_provider);
            return Ok(match processes.and_then(|processes| processes.state(process)) {
                Some(ProcessState::Running) => {
                    MarkedApp::new(Some(app), AppStanding::Wanted(Some(1)), String::new())
                }
                Some(ProcessState::Ended) => gone(app, "its process has ended"),
                None => MarkedApp::unknown(Some(app), "its process cannot be observed from this server"),
            });
        }
        match app.lease_until {
            Some(until) if until < self.store.database_time().await? => {
                Ok(gone(app, "its lease has expired"))
            }
            Some(_) => Ok(MarkedApp::new(Some(app), AppStanding::Wanted(Some(1)), String::new())),
            None => Ok(MarkedApp::unknown(Some(app), "it has neither a process nor a lease")),
        }
    }
}

/// Observes the app of a mark that another program wrote, of which only the name is known. Also returns the identity of
/// the app, if exactly one matches.
async fn observe_named(
    store: &Store,
    apps: &dyn AppProvider,
    cluster: &Cluster,
    mark: &EphemeralMark,
) -> Result<(AppObservation, Option<AppIdentity>), ProviderError> {
    let given = GivenApp { kind: mark.kind, name: mark.app.clone() };
    match apps.resolve(&cluster.namespace, &given).await?.as_slice() {
        [] => match last_known(store, cluster, mark).await? {
            // Its pods may outlive it.
            Some(known) => Ok((apps.observe(&known).await?, Some(known))),
            None => {
                let reason = "it does not exist".to_owned();
                Ok((AppObservation { standing: AppStanding::Gone, reason, has_pods: false }, None))
            }
        },
        [one] => {
            let meant = [Some(&one.app), one.deployment.as_ref()];
            let named = meant.into_iter().flatten().find(|identity| mark.is_of(identity)).cloned();
            Ok((apps.observe(&one.app).await?, named))
        }
        several => {
            let apps = several.iter().map(|resolved| &resolved.app);
            Err(ProviderError::transient("AppUnknown", ambiguous(&given, apps)))
        }
    }
}

/// Returns the app that a mark with only a name meant when the app was last observed.
async fn last_known(
    store: &Store,
    cluster: &Cluster,
    mark: &EphemeralMark,
) -> Result<Option<AppIdentity>, ProviderError> {
    let query = AppQuery { cluster: Some(cluster.id), ..AppQuery::default() };
    let users = store.apps(&query).await;
    let users = users.map_err(|error| ProviderError::transient("AppUnknown", error.to_string()))?.items;
    let meant = users.into_iter().filter(|app| app.kind != AppKind::Command && mark.is_of(&app.identity()));
    Ok(meant.max_by_key(|app| app.created_at).map(|app| app.identity()))
}

/// Returns the message that refuses a name that fits several apps.
pub fn ambiguous<'a>(given: &GivenApp, candidates: impl IntoIterator<Item = &'a AppIdentity>) -> String {
    let candidates: Vec<String> = candidates.into_iter().map(ToString::to_string).collect();
    format!("app '{}' is ambiguous: give one of {}", given.name, candidates.join(", "))
}

#[derive(Debug, thiserror::Error)]
enum FindAppError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl From<FindAppError> for SubmitError {
    fn from(error: FindAppError) -> Self {
        match error {
            FindAppError::Store(error) => error.into(),
            FindAppError::Provider(error) => Self::AppUnknown(error.message),
        }
    }
}
