//! Deletes ephemeral clusters whose app is gone, and writes on apps' objects which clusters they use.
//!
//! One engine at a time does this for an instance. Changes of apps and commits wake it. An app has to be gone for the
//! whole grace period, as this engine observes it: the period begins again after a start, after another engine had the
//! duty, and whenever the app cannot be observed. A monotonic clock measures it, so that setting the clock deletes
//! nothing.

mod decide;
mod marks;
mod named;
mod shared;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_core::app::{App, AppKind, AppState, EphemeralMark};
use muster_core::cluster::Cluster;
use muster_core::ephemeral::AppStanding;
use muster_core::event::{Event, Level};
use muster_core::ids::{AppId, ClusterId};
use muster_core::time::Timestamp;
use muster_store::StoreError;
use muster_store::commands::{EndForApp, EndedForApp, RecordAppStates};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::admission::apps::MarkedApp;
use crate::admission::submit;
use crate::context::Context;
use crate::events::{self, reason};
use crate::ports::provider::{AppChange, ProcessProvider, Provider};
use crate::watchers::apps::decide::{AppPresence, AppReaction, decide};
use crate::watchers::apps::shared::SharedUsers;
use crate::watchers::change_feed::{ChangeFeed, ChangedClusters};

/// The longest interval between two observations of an app, in case a notification was lost.
const SAFETY_PERIOD: Duration = Duration::from_mins(1);

/// The margin after the end of a lease before it is read: clocks differ a little.
const LEASE_MARGIN: Duration = Duration::from_millis(200);

/// The maximum of concurrent observations.
const MAX_CONCURRENT: usize = 16;

/// Watches the apps of one provider's clusters for as long as the engine runs.
pub(crate) async fn run(context: Arc<Context>, provider: Arc<dyn Provider>) {
    let mut feed = ChangeFeed::new(context.store.subscribe());
    let (ended, mut ends) = mpsc::channel(64);
    let mut changes = changes(&provider);
    let duty = format!("apps/{}", provider.instance());
    let processes = Arc::clone(&provider).process_provider();
    let mut watcher = AppWatcher {
        context: &context,
        provider,
        processes,
        duty,
        watched: HashMap::new(),
        followed: HashMap::new(),
        ended,
        all: true,
        changed: HashSet::new(),
        marks: true,
        shared: SharedUsers::new(),
    };
    loop {
        let working = context.stopping.run_until_cancelled(Box::pin(watcher.work()));
        let Some(worked) = working.await else { return };
        let retry = match worked {
            Ok(ours) => !ours,
            Err(error) => {
                tracing::warn!(%error, "cannot watch over apps");
                true
            }
        };
        if retry {
            // Every grace period begins again when this engine gets the duty.
            watcher.forget();
            tokio::select! {
                () = tokio::time::sleep(context.config.safety_period.into()) => {}
                () = context.stopping.cancelled() => return,
            }
            continue;
        }
        let next = watcher.next();
        tokio::select! {
            () = feed.wait_for_change() => {}
            Some(change) = changes.next() => watcher.app_changed(&change),
            Some(app) = ends.recv() => watcher.process_ended(app),
            () = tokio::time::sleep_until(next) => {}
            () = context.stopping.cancelled() => return,
        }
        watcher.schedule(feed.take_changes());
    }
}

/// Returns the changes of apps that a provider reports, as a stream that does not end.
fn changes(provider: &Arc<dyn Provider>) -> BoxStream<'static, AppChange> {
    match Arc::clone(provider).app_provider() {
        Some(apps) => apps.changes().chain(stream::pending()).boxed(),
        None => stream::pending().boxed(),
    }
}

/// A cluster whose app is watched.
struct Watched {
    mark: EphemeralMark,
    /// The time of the next observation of its app.
    next: Instant,
    /// The time since which its app has been observed as gone and without pods, without interruption. Not stored.
    gone_since: Option<Instant>,
}

struct AppWatcher<'e> {
    context: &'e Context,
    provider: Arc<dyn Provider>,
    processes: Option<Arc<dyn ProcessProvider>>,
    duty: String,
    watched: HashMap<ClusterId, Watched>,
    /// The tasks that wait for the end of processes.
    followed: HashMap<AppId, tokio::task::AbortHandle>,
    ended: mpsc::Sender<AppId>,
    /// True if all ephemeral clusters have to be read.
    all: bool,
    /// Clusters that have to be read.
    changed: HashSet<ClusterId>,
    /// True if marks on objects of apps may be stale.
    marks: bool,
    /// The apps of shared clusters.
    shared: SharedUsers,
}

impl Drop for AppWatcher<'_> {
    fn drop(&mut self) {
        for (_, task) in self.followed.drain() {
            task.abort();
        }
    }
}

impl AppWatcher<'_> {
    fn schedule(&mut self, ChangedClusters { all, clusters, apps }: ChangedClusters) {
        self.all |= all;
        self.changed.extend(clusters);
        if all || apps {
            self.marks = true;
            self.observe_commands();
        }
    }

    /// Schedules the observation of all commands, since rows of commands or their processes have changed.
    fn observe_commands(&mut self) {
        let now = Instant::now();
        let is_command = |watched: &&mut Watched| watched.mark.kind == Some(AppKind::Command);
        let commands = self.watched.values_mut().filter(is_command);
        commands.for_each(|watched| watched.next = now);
    }

    fn app_changed(&mut self, change: &AppChange) {
        self.shared.app_changed(change);
        let now = Instant::now();
        for watched in self.watched.values_mut() {
            let concerns = match change {
                AppChange::App(uid) => watched.mark.uid.is_empty() || watched.mark.uid == *uid,
                AppChange::Everything => true,
            };
            if concerns {
                watched.next = now;
            }
        }
    }

    fn process_ended(&mut self, app: AppId) {
        self.followed.remove(&app);
        self.observe_commands();
    }

    fn forget(&mut self) {
        self.watched.clear();
        self.shared = SharedUsers::new();
        (self.all, self.marks) = (true, true);
    }

    fn next(&self) -> Instant {
        let safety = Instant::now() + SAFETY_PERIOD;
        self.watched
            .values()
            .map(|watched| watched.next)
            .chain([self.shared.next, safety])
            .min()
            .unwrap_or(safety)
    }

    /// Evaluates every due cluster; returns false if another engine holds the duty.
    async fn work(&mut self) -> Result<bool, StoreError> {
        let now = Instant::now();
        if self.shared.next <= now && !self.record_ended_users(now).await? {
            return Ok(false);
        }
        let instance = self.provider.instance();
        if self.marks {
            self.marks = false;
            let unmarked = self.context.store.unmarked_apps(instance).await?;
            if !unmarked.is_empty() {
                if !self.context.holds_duty(&self.duty).await? {
                    return Ok(false);
                }
                self.marks = !marks::write(self.context, &self.provider, &unmarked).await?;
            }
        }
        let now = Instant::now();
        let mut ids = std::mem::take(&mut self.changed);
        if std::mem::take(&mut self.all) {
            ids.extend(self.context.store.ephemeral(instance).await?);
            ids.extend(self.watched.keys());
        }
        ids.extend(self.watched.iter().filter(|(_, watched)| watched.next <= now).map(|(id, _)| *id));
        if ids.is_empty() {
            return Ok(true);
        }
        let ids: Vec<ClusterId> = ids.into_iter().collect();
        let clusters = self.context.store.ephemeral_among(instance, &ids).await?;
        self.refresh(&ids, &clusters, now);
        let due = |cluster: &Cluster| self.watched.get(&cluster.id).is_some_and(|known| known.next <= now);
        let due: Vec<Cluster> = clusters.into_iter().filter(due).collect();
        if due.is_empty() {
            return Ok(true);
        }
        Ok(self.context.holds_duty(&self.duty).await? && self.evaluate(due).await?)
    }

    /// Begins to watch new clusters, and stops to watch those of `ids` that do not end with an app any more.
    fn refresh(&mut self, ids: &[ClusterId], clusters: &[Cluster], now: Instant) {
        let mut before: HashMap<ClusterId, Watched> =
            ids.iter().filter_map(|id| self.watched.remove_entry(id)).collect();
        for cluster in clusters {
            let Some(mark) = cluster.ephemeral.as_deref().filter(|_| !cluster.is_external()) else {
                continue;
            };
            let known = before.remove(&cluster.id).filter(|known| known.mark == *mark);
            let new = || Watched { mark: mark.clone(), next: now, gone_since: None };
            self.watched.insert(cluster.id, known.unwrap_or_else(new));
        }
    }

    /// Observes the apps of some clusters, decides and records; returns false if another engine holds the duty now.
    async fn evaluate(&mut self, clusters: Vec<Cluster>) -> Result<bool, StoreError> {
        let context = self.context;
        let observe = |cluster: Cluster| async move {
            let Some(mark) = cluster.ephemeral.as_deref().cloned() else { return Ok(None) };
            let marked = context.marked_app(&cluster, &mark).await?;
            Ok(Some((cluster, mark, marked)))
        };
        let observed: Vec<Result<_, StoreError>> =
            stream::iter(clusters.into_iter().map(observe)).buffer_unordered(MAX_CONCURRENT).collect().await;
        for found in observed {
            let Some((cluster, mark, marked)) = found? else { continue };
            if !self.conclude(&cluster, &mark, &marked).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn conclude(
        &mut self,
        cluster: &Cluster,
        mark: &EphemeralMark,
        marked: &MarkedApp,
    ) -> Result<bool, StoreError> {
        let now = Instant::now();
        let grace: Duration = self.context.config.app_times.grace.into();
        let before = self.watched.get(&cluster.id).and_then(|known| known.gone_since);
        let presence = presence(marked);
        let (gone_since, step) = decide(before, presence, grace, now);
        let next = match (presence, gone_since) {
            (AppPresence::Gone { has_pods: false }, Some(since)) if now < since + grace => since + grace,
            (AppPresence::Gone { .. } | AppPresence::Unknown, _) => {
                now + Duration::from(self.context.config.safety_period)
            }
            (AppPresence::Present, _) => now + self.next_observation(marked),
        };
        if let Some(app) = &marked.app {
            self.follow(app, presence);
        }
        if let (Some(identity), AppPresence::Present) = (&marked.named, presence)
            && named::register(self.context, cluster, identity, marked.app.as_ref()).await?
        {
            // The provider watches apps by a label, which only a mark writes.
            self.marks = true;
        }
        let warning = (step == AppReaction::Warn).then(|| self.warning(cluster, mark, &marked.reason));
        let states = marked.app.as_ref().and_then(|app| self.changed_state(app, presence));
        if !self.record(states, warning).await? {
            return Ok(false);
        }
        if step == AppReaction::End && !self.end(cluster, mark, marked).await? {
            return Ok(false);
        }
        if let Some(known) = self.watched.get_mut(&cluster.id) {
            (known.next, known.gone_since) = (next, gone_since);
        }
        Ok(true)
    }

    /// Returns the delay until the next observation: a lease is read again when it may have expired.
    fn next_observation(&self, marked: &MarkedApp) -> Duration {
        let Some(until) = marked.app.as_ref().and_then(|app| app.lease_until) else { return SAFETY_PERIOD };
        let left: Duration = until.since(self.context.clock.now()).into();
        left.min(SAFETY_PERIOD) + LEASE_MARGIN
    }

    /// Waits for the end of a command's process, in the background.
    fn follow(&mut self, app: &App, presence: AppPresence) {
        let (Some(processes), Some(process), AppPresence::Present) =
            (&self.processes, &app.process, presence)
        else {
            return;
        };
        let (processes, process, ended, id) =
            (Arc::clone(processes), process.clone(), self.ended.clone(), app.id);
        let waiting = async move {
            processes.wait_for_end(&process).await;
            // Sending fails only if the watcher has ended.
            let _ = ended.send(id).await;
        };
        // The command of an app may be another process than its launcher, which was followed first.
        if let Some(before) = self.followed.insert(app.id, tokio::spawn(waiting).abort_handle()) {
            before.abort();
        }
    }

    /// Returns the observed state of an app, if its row differs.
    fn changed_state(
        &self,
        app: &App,
        presence: AppPresence,
    ) -> Option<(AppId, AppState, Option<Timestamp>)> {
        let (state, ended_at) = match presence {
            AppPresence::Present => (AppState::Running, None),
            AppPresence::Gone { .. } => {
                (AppState::Gone, app.ended_at.or_else(|| Some(self.context.clock.now())))
            }
            AppPresence::Unknown => (AppState::Unobserved, app.ended_at),
        };
        ((state, ended_at) != (app.state, app.ended_at)).then_some((app.id, state, ended_at))
    }

    /// Records what was observed; returns false if another engine holds the duty now.
    async fn record(
        &self,
        state: Option<(AppId, AppState, Option<Timestamp>)>,
        warning: Option<Event>,
    ) -> Result<bool, StoreError> {
        if state.is_none() && warning.is_none() {
            return Ok(true);
        }
        let (duty, engine) = (self.duty.clone(), self.context.lease().id);
        let (states, events) = (state.into_iter().collect(), warning.into_iter().collect());
        self.context.store.record_app_states(RecordAppStates { duty, engine, states, events }).await
    }

    fn warning(&self, cluster: &Cluster, mark: &EphemeralMark, why: &str) -> Event {
        let (now, grace) = (self.context.clock.now(), self.context.config.app_times.grace);
        let message =
            format!("its app '{mark}' is gone: {why}; it is deleted in {grace} unless the app comes back");
        events::of_cluster(None, cluster, Level::Warn, reason::APP_GONE, &message, now)
    }

    /// Deletes the cluster of an app that is gone; returns false if another engine holds the duty now.
    async fn end(
        &self,
        cluster: &Cluster,
        mark: &EphemeralMark,
        marked: &MarkedApp,
    ) -> Result<bool, StoreError> {
        let grace = self.context.config.app_times.grace;
        let message = format!("its app '{mark}' has been gone for {grace}: {}", marked.reason);
        let command = EndForApp {
            duty: Some((self.duty.clone(), self.context.lease().id)),
            cluster: cluster.id,
            mark: mark.clone(),
            app: marked.app.as_ref().map(|app| app.id),
            accept: submit::deletion(self.context, cluster, reason::DELETED_WITH_APP, &message),
        };
        match self.context.store.end_for_app(command).await {
            Ok(EndedForApp::NotOurs) => Ok(false),
            Ok(EndedForApp::Deleting(action)) => {
                tracing::info!(action = %action.id, cluster = %cluster.id, app = %mark, "its app is gone");
                Ok(true)
            }
            Ok(EndedForApp::Spared) | Err(StoreError::NotFound { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Classifies an app for the decision. An app that Kubernetes does not have is gone, even if its mark was written by
/// hand.
fn presence(marked: &MarkedApp) -> AppPresence {
    match marked.standing {
        AppStanding::Unknown => AppPresence::Unknown,
        AppStanding::Gone | AppStanding::Wanted(Some(0)) => AppPresence::Gone { has_pods: marked.has_pods },
        AppStanding::Wanted(_) | AppStanding::Job(_) => AppPresence::Present,
    }
}
