//! Registers apps, records the clusters that they use, and deletes clusters on their behalf.

use std::collections::HashMap;

use futures::{StreamExt as _, stream};
use muster_core::action::Action;
use muster_core::app::{App, AppIdentity, AppKind, AppState, AppUse, GivenApp, Process};
use muster_core::cluster::Cluster;
use muster_core::ephemeral::DriverEnd;
use muster_core::event::{Event, Level};
use muster_core::ids::{AppId, ClusterId, InstanceId};
use muster_core::time::TimeSpan;
use muster_engine::admission::apps::{self, DeletionForApp, FoundApp};
use muster_engine::ports::provider::ResolvedApp;
use muster_engine::{Caller, new_id};
use muster_store::commands::{AppUseChanged, AppUseRefusal, ChangeAppUse, EndApp, RegisterApp, RenewApp};

use crate::access::Access;
use crate::authorize::Resource;
use crate::error::{ErrorKind, ServiceError};
use crate::find::is_permitted;
use crate::lists::{AppQuery, Authorized, PageRequest, PageWithToken};
use crate::service::Service;
use crate::write_event::{Object, Writer, Written};

/// The largest number of apps that are observed at the same time for a list.
const CONCURRENT: usize = 16;

/// An app with the clusters that it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppWithUses {
    /// The app.
    pub app: App,
    /// The clusters.
    pub uses: Vec<AppUse>,
    /// The name of the Deployment that the app belongs to; none in lists, which do not look it up.
    pub deployment: Option<String>,
    /// The duration of its lease, if it needs one.
    pub lease: Option<TimeSpan>,
}

/// The registration of a driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration<'r> {
    /// The name of the app or of one of its pods, or the name for a command.
    pub app: &'r str,
    /// The process of a command.
    pub process: Option<Process>,
    /// The name of the cluster to record, if the app's object records none.
    pub cluster: &'r str,
    /// True if the app is the Deployment of the named app, so that it includes later rollouts.
    pub across_rollouts: bool,
}

/// Reads how a request names an app.
pub fn given_app(given: &str) -> Result<GivenApp, ServiceError> {
    given.parse().map_err(|error: muster_core::app::InvalidApp| {
        ServiceError::invalid(error.to_string()).code("InvalidApp")
    })
}

fn ambiguous(given: &GivenApp, candidates: &[AppIdentity]) -> ServiceError {
    ServiceError::invalid(apps::ambiguous(given, candidates)).code("AmbiguousApp")
}

fn not_found(app: &str, namespace: &str) -> ServiceError {
    let message = format!("app '{app}' could not be found in namespace '{namespace}'");
    ServiceError::not_found(message).code("AppNotFound")
}

fn no_deployment(app: &AppIdentity) -> ServiceError {
    let message = format!("app {app} does not belong to a Deployment: leave across_rollouts out");
    ServiceError::invalid(message).code("NoDeployment")
}

impl Service {
    /// Registers and returns the app that a new cluster is created for; none if there certainly is no such app.
    pub async fn app_of_new_cluster(
        &self,
        access: &Access,
        cluster: &Cluster,
        app: &str,
        ephemeral: bool,
        across_rollouts: bool,
    ) -> Result<Option<App>, ServiceError> {
        if app.is_empty() {
            if ephemeral {
                let message = "An app value must be supplied if ephemeral is used";
                return Err(ServiceError::invalid(message).code("AppMissing"));
            }
            return Ok(None);
        }
        let (instance, namespace) = (&cluster.instance, cluster.namespace.as_str());
        let found = self.registered_object(access, instance, namespace, app, across_rollouts, None).await?;
        found.map(|(app, _)| check_present(app)).transpose()
    }

    /// Resolves the name of an app, and registers the app in its present state, with its Deployment; none if there
    /// certainly is no such app.
    async fn registered_object(
        &self,
        access: &Access,
        instance: &InstanceId,
        namespace: &str,
        app: &str,
        across_rollouts: bool,
        cluster_name: Option<String>,
    ) -> Result<Option<(App, Option<AppIdentity>)>, ServiceError> {
        let given = given_app(app)?;
        let resolved = match self.engine.find_app(instance, namespace, &given).await? {
            FoundApp::Missing => return Ok(None),
            FoundApp::Ambiguous(candidates) => return Err(ambiguous(&given, &candidates)),
            FoundApp::Command(app) if across_rollouts => return Err(no_deployment(&app.identity())),
            FoundApp::Command(app) => return Ok(Some((*app, None))),
            FoundApp::Object(resolved) => resolved,
        };
        let ResolvedApp { app, deployment, cluster: recorded, .. } = *resolved;
        let identity =
            if across_rollouts { deployment.clone().ok_or_else(|| no_deployment(&app))? } else { app };
        // A cluster name is given only by the registration of a driver.
        let cluster = match cluster_name {
            Some(name) => Some(self.recorded_cluster(namespace, recorded).await?.unwrap_or((name, None))),
            None => None,
        };
        let mut row = self.new_app(access, instance.clone(), identity)?;
        if self.engine.app_state(&row).await == AppState::Gone {
            (row.state, row.ended_at) = (AppState::Gone, Some(self.now()));
        }
        let register = RegisterApp { app: row, lease: None, cluster };
        Ok(Some((self.store().register_app(register).await?, deployment)))
    }

    /// The cluster that an app's object names, if that cluster still exists. Ids are compared, because a later
    /// cluster may have the same name.
    async fn recorded_cluster(
        &self,
        namespace: &str,
        recorded: Option<(String, Option<ClusterId>)>,
    ) -> Result<Option<(String, Option<ClusterId>)>, ServiceError> {
        let Some((name, id)) = recorded else { return Ok(None) };
        let found = self.store().clusters_named(namespace, &name).await?;
        let same = |cluster: &Cluster| id.is_none_or(|id| id == cluster.id);
        Ok(found.into_iter().find(same).map(|cluster| (name, Some(cluster.id))))
    }

    fn new_app(
        &self,
        access: &Access,
        instance: InstanceId,
        identity: AppIdentity,
    ) -> Result<App, ServiceError> {
        let AppIdentity { namespace, kind, name, uid } = identity;
        Ok(App {
            id: AppId::from_uuid(new_id()),
            instance,
            project: self.project_of(&namespace)?.to_owned(),
            namespace,
            name,
            kind,
            uid,
            owner: access.principal().as_owner(),
            process: None,
            lease_until: None,
            cluster_name: String::new(),
            cluster_id: None,
            state: AppState::Running,
            created_at: self.now(),
            ended_at: None,
        })
    }

    /// Registers the app of a driver, and records the cluster that its drivers use.
    pub async fn register_app(
        &self,
        access: &Access,
        instance: &InstanceId,
        namespace: &str,
        registration: Registration<'_>,
    ) -> Result<AppWithUses, ServiceError> {
        self.authorize_namespace(access, namespace)?;
        let Registration { app, process, cluster, across_rollouts } = registration;
        let cluster_name = (!cluster.is_empty()).then(|| cluster.to_owned());
        let Some(process) = process else {
            let found = self
                .registered_object(access, instance, namespace, app, across_rollouts, cluster_name)
                .await?;
            let (app, deployment) = found.ok_or_else(|| not_found(app, namespace))?;
            return self.with_uses(check_present(app)?, deployment).await;
        };
        if process.pid == 0 {
            return Err(ServiceError::invalid("process.pid is 0: must be greater than 0"));
        }
        let given = given_app(app)?;
        if let Some(kind) = given.kind.filter(|kind| *kind != AppKind::Command) {
            let message = format!(
                "app '{app}' is a {kind}, but an app with a process must be a command: give '{}' alone, or leave process out",
                given.name
            );
            return Err(ServiceError::invalid(message).code("NotACommand"));
        }
        let id = AppId::from_uuid(new_id());
        let identity = AppIdentity {
            namespace: namespace.to_owned(),
            kind: AppKind::Command,
            name: given.name,
            uid: id.to_string(),
        };
        let command = App { id, ..self.new_app(access, instance.clone(), identity)? };
        // A process on another host cannot be observed from this server, so it renews a lease instead.
        let process = Some(process).filter(|process| self.engine.sees_process(instance, process));
        let lease = process.is_none().then(|| self.engine.config().app_times.lease);
        let cluster = cluster_name.map(|name| (name, None));
        let register = RegisterApp { app: App { process, ..command }, lease, cluster };
        let registered = self.store().register_app(register).await?;
        self.with_uses(registered, None).await
    }

    /// Renews the lease of a command, or records its present process.
    pub async fn renew_app(
        &self,
        access: &Access,
        namespace: &str,
        id: &str,
        process: Option<Process>,
    ) -> Result<AppWithUses, ServiceError> {
        let app = self.own_app(access, namespace, id).await?;
        if app.kind != AppKind::Command {
            let message = format!("app {} is an object of Kubernetes: it has no lease", app.identity());
            return Err(ServiceError::invalid(message).code("NoLease"));
        }
        if app.state == AppState::Gone && app.process.is_none() && app.lease_until.is_none() {
            let message = format!("app {} has ended: register another one", app.identity());
            return Err(ServiceError::impossible(message).code("AppGone"));
        }
        let process = process.filter(|process| self.engine.sees_process(&app.instance, process));
        let needs_lease = process.is_none() && app.process.is_none();
        let lease = needs_lease.then(|| self.engine.config().app_times.lease);
        let renewed = self.store().renew_app(RenewApp { id: app.id, lease, process }).await?;
        self.with_uses(renewed, None).await
    }

    /// Ends a command.
    pub async fn end_app(
        &self,
        access: &Access,
        namespace: &str,
        id: &str,
    ) -> Result<AppWithUses, ServiceError> {
        let app = self.own_app(access, namespace, id).await?;
        if app.kind != AppKind::Command {
            let message = format!("app {} is an object of Kubernetes: delete the object", app.identity());
            return Err(ServiceError::invalid(message).code("NotACommand"));
        }
        let ended = self.store().end_app(EndApp { id: app.id, now: self.now() }).await?;
        self.with_uses(ended, None).await
    }

    /// The app with this id, if the caller may perform the operation on it.
    async fn own_app(&self, access: &Access, namespace: &str, id: &str) -> Result<App, ServiceError> {
        let missing = || not_found(id, namespace);
        let parsed: AppId = id
            .parse()
            .map_err(|error: muster_core::ids::InvalidId| ServiceError::invalid(format!("id: {error}")))?;
        let app = self.store().app(parsed).await?.filter(|app| app.namespace == namespace);
        let app = app.ok_or_else(missing)?;
        let what = format!("app '{}'", app.name);
        let on = Resource { what: &what, project: &app.project, owner: &app.owner };
        if is_permitted(access, on)? { Ok(app) } else { Err(missing()) }
    }

    async fn with_uses(
        &self,
        app: App,
        deployment: Option<AppIdentity>,
    ) -> Result<AppWithUses, ServiceError> {
        let uses = self.store().app_uses(&[app.id]).await?;
        let lease = app.lease_until.map(|_| self.engine.config().app_times.lease);
        let deployment = deployment.map(|deployment| deployment.name);
        Ok(AppWithUses { app, uses, deployment, lease })
    }

    /// Attaches an app to a cluster, or detaches it.
    pub async fn change_app_use(
        &self,
        access: &Access,
        writer: &Writer,
        cluster: &Cluster,
        app: &str,
        uses: bool,
    ) -> Result<AppWithUses, ServiceError> {
        let found =
            self.registered_object(access, &cluster.instance, &cluster.namespace, app, false, None).await?;
        let (found, deployment) = found.unzip();
        let deployment = deployment.flatten();
        let present = found.as_ref().map(|app| app.id);
        let apps = match found {
            Some(found) if uses => vec![found],
            None if uses => Vec::new(),
            found => self.apps_to_detach(cluster, app, found).await?,
        };
        for app in &apps {
            let events = vec![self.use_event(writer, app, cluster, uses)];
            // An earlier app of the same name belonged to an earlier Deployment.
            let deployment = deployment.clone().filter(|_| present == Some(app.id));
            let command =
                ChangeAppUse { app: app.id, deployment, cluster: cluster.id, uses, now: self.now(), events };
            match self.store().change_app_use(command).await? {
                AppUseChanged::Changed => self.write_marks(&cluster.instance).await,
                AppUseChanged::Unchanged => {}
                AppUseChanged::Refused(refusal) => return Err(refused(app, cluster, refusal)),
            }
        }
        let app = apps.into_iter().next().ok_or_else(|| not_found(app, &cluster.namespace))?;
        self.with_uses(app, deployment).await
    }

    /// The apps of a name that use a cluster: a use outlives its app, and an app that is recreated under the same name
    /// has another row. If none of them uses the cluster, the present app, else the latest one of that name.
    async fn apps_to_detach(
        &self,
        cluster: &Cluster,
        given: &str,
        found: Option<App>,
    ) -> Result<Vec<App>, ServiceError> {
        let given = match &found {
            Some(App { kind, name, .. }) => GivenApp { kind: Some(*kind), name: name.clone() },
            None => given_app(given)?,
        };
        let is_meant =
            |app: &App| app.instance == cluster.instance && given.kind.is_none_or(|kind| kind == app.kind);
        let mut named = self.store().apps_named(&cluster.namespace, &given.name).await?;
        named.retain(is_meant);
        let ids: Vec<AppId> = named.iter().map(|app| app.id).collect();
        let uses = self.store().app_uses(&ids).await?;
        let is_user = |app: &App| uses.iter().any(|used| used.app == app.id && used.cluster == cluster.id);
        let (users, others): (Vec<App>, Vec<App>) = named.into_iter().partition(is_user);
        if !users.is_empty() {
            return Ok(users);
        }
        Ok(found.or(others.into_iter().next()).into_iter().collect())
    }

    /// Writes the clusters that apps use on the objects of the apps. The engine retries later what cannot be written
    /// now.
    pub async fn write_marks(&self, instance: &InstanceId) {
        /// A request waits no longer, because the engine writes the marks later in any case.
        const AT_MOST: std::time::Duration = std::time::Duration::from_secs(5);
        match tokio::time::timeout(AT_MOST, self.engine.write_app_marks(instance)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot write which clusters apps use"),
            Err(_) => tracing::warn!("writing which clusters apps use takes long"),
        }
    }

    fn use_event(&self, writer: &Writer, app: &App, cluster: &Cluster, uses: bool) -> Event {
        let (written, reason, verb) = if uses {
            (Written::Created, "AppAttached", "was attached to")
        } else {
            (Written::Deleted, "AppDetached", "was detached from")
        };
        let object = Object {
            kind: "App",
            id: cluster.id.to_string(),
            name: &cluster.name,
            project: &cluster.project,
        };
        let event = self.write_event(writer, written, &object);
        Event {
            cluster_id: Some(cluster.id),
            object_kind: muster_core::event::ObjectKind::Cluster,
            level: Level::Info,
            reason: reason.to_owned(),
            message: format!("app {} {verb} it by {}", app.identity(), writer.principal.name),
            ..event
        }
    }

    /// A page of apps with the clusters that they use. `app` limits the list to one app: instance, namespace and
    /// name.
    pub async fn list_apps(
        &self,
        query: AppQuery,
        access: &Access,
        app: Option<(&InstanceId, &str, &str)>,
        page: PageRequest<'_>,
    ) -> Result<PageWithToken<AppWithUses>, ServiceError> {
        let mut query = query;
        if let Some((instance, namespace, given)) = app {
            self.authorize_namespace(access, namespace)?;
            query.ids = self.apps_meant(instance, namespace, given).await?;
            if query.ids.is_empty() {
                return Ok(PageWithToken { items: Vec::new(), next_token: String::new(), total: None });
            }
        }
        let query: Authorized<AppQuery> = access.visible(query);
        let PageWithToken { items, next_token, total } = self.list_page(&query, page).await?;
        let ids: Vec<AppId> = items.iter().map(|app| app.id).collect();
        let mut uses: HashMap<AppId, Vec<AppUse>> = HashMap::new();
        for used in self.store().app_uses(&ids).await? {
            uses.entry(used.app).or_default().push(used);
        }
        let lease = self.engine.config().app_times.lease;
        let with_uses = |app: App| AppWithUses {
            uses: uses.remove(&app.id).unwrap_or_default(),
            deployment: None,
            lease: app.lease_until.map(|_| lease),
            app,
        };
        let items = items.into_iter().map(with_uses).map(|app| self.with_state(app));
        let items = stream::iter(items).buffered(CONCURRENT).collect().await;
        Ok(PageWithToken { items, next_token, total })
    }

    /// The app with its present state. The state of apps with ephemeral clusters and of commands is in the row
    /// already, because the engine watches those apps.
    async fn with_state(&self, mut shown: AppWithUses) -> AppWithUses {
        let is_watched = shown.uses.iter().any(|used| used.ephemeral);
        if !is_watched && shown.app.kind != AppKind::Command {
            shown.app.state = self.engine.app_state(&shown.app).await;
        }
        shown
    }

    /// The ids of all registered apps that a name may mean, including apps of this name that are gone.
    async fn apps_meant(
        &self,
        instance: &InstanceId,
        namespace: &str,
        given: &str,
    ) -> Result<Vec<AppId>, ServiceError> {
        let given = given_app(given)?;
        let resolved = match self.engine.find_app(instance, namespace, &given).await {
            Ok(FoundApp::Ambiguous(candidates)) => return Err(ambiguous(&given, &candidates)),
            Ok(FoundApp::Command(app)) => return Ok(vec![app.id]),
            Ok(FoundApp::Object(resolved)) => Some(resolved),
            // An app that is missing or cannot be observed may still have a row.
            Ok(FoundApp::Missing) | Err(_) => None,
        };
        let Some(resolved) = resolved else {
            let named = self.store().apps_named(namespace, &given.name).await?;
            let fits = |app: &&App| given.kind.is_none_or(|kind| kind == app.kind);
            return Ok(named.iter().filter(fits).map(|app| app.id).collect());
        };
        let mut ids = Vec::new();
        for identity in std::iter::once(resolved.app).chain(resolved.deployment) {
            ids.extend(self.store().app_by_uid(instance, &identity.uid).await?.map(|app| app.id));
        }
        Ok(ids)
    }

    /// Deletes a cluster on behalf of an app, if the rules for the end of a driver allow that.
    pub async fn delete_cluster_for_app(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        app: &str,
        end: DriverEnd,
    ) -> Result<Action, ServiceError> {
        match self.engine.delete_for_app(cluster, &given_app(app)?, end, caller).await? {
            DeletionForApp::Deleting(action) => Ok(*action),
            DeletionForApp::Left(rule) => Err(ServiceError::impossible(rule.message()).code(rule.as_str())),
        }
    }
}

fn refused(app: &App, cluster: &Cluster, refusal: AppUseRefusal) -> ServiceError {
    let (name, app) = (&cluster.name, app.identity());
    match refusal {
        AppUseRefusal::Leaving => {
            let message = format!("cluster '{name}' is being deleted: app {app} cannot use it");
            ServiceError::new(ErrorKind::Conflict, message).code("ClusterLeaving")
        }
        AppUseRefusal::OfAnother(mark) => {
            let message = format!(
                "cluster '{name}' is ephemeral and belongs to app '{mark}': only that app may use it"
            );
            ServiceError::impossible(message).code("OfAnotherApp")
        }
        AppUseRefusal::OfThis(owner) => {
            let message =
                format!("cluster '{name}' ends with app {owner}, which cannot leave it: delete the cluster");
            ServiceError::impossible(message).code("OwnEphemeralCluster")
        }
        AppUseRefusal::AppGone => gone(&app),
    }
}

fn gone(app: &AppIdentity) -> ServiceError {
    ServiceError::impossible(format!("app {app} has ended, so it cannot use a cluster: register another one"))
        .code("AppGone")
}

/// Refuses an app that is gone or is being deleted: its cluster would be deleted at once.
fn check_present(app: App) -> Result<App, ServiceError> {
    if app.state == AppState::Gone { Err(gone(&app.identity())) } else { Ok(app) }
}
