//! Records the end of apps that use shared clusters only: their rows are removed together with the history.

use std::collections::HashSet;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use muster_core::app::{App, AppKind};
use muster_core::ephemeral::AppStanding;
use muster_store::StoreError;
use muster_store::reads::AppQuery;
use tokio::time::Instant;

use super::{AppWatcher, MAX_CONCURRENT};
use crate::ports::provider::AppChange;
use crate::watchers::apps::decide::AppPresence;

/// The number of safety periods between two observations: a minute by default.
const PERIODS: u32 = 12;

/// The apps that have to be observed.
pub(super) struct SharedUsers {
    /// The time of the next observation.
    pub(super) next: Instant,
    /// True if all apps have to be observed.
    all: bool,
    /// The UIDs of apps that may have changed.
    changed: HashSet<String>,
}

impl SharedUsers {
    pub(super) fn new() -> Self {
        Self { next: Instant::now(), all: true, changed: HashSet::new() }
    }

    pub(super) fn app_changed(&mut self, change: &AppChange) {
        match change {
            AppChange::App(uid) => {
                self.changed.insert(uid.clone());
            }
            AppChange::Everything => self.all = true,
        }
    }
}

impl AppWatcher<'_> {
    /// Records which apps have ended among the changed ones and the commands, of which no changes are reported. Returns
    /// false if another engine holds the duty now.
    pub(super) async fn record_ended_users(&mut self, now: Instant) -> Result<bool, StoreError> {
        let context = self.context;
        let next = now + Duration::from(context.config.safety_period) * PERIODS;
        let later = SharedUsers { next, all: false, changed: HashSet::new() };
        let due = std::mem::replace(&mut self.shared, later);
        let instance = Some(self.provider.instance().clone());
        let open_users = AppQuery { instance, with_uses: true, open: true, ..AppQuery::default() };
        let users = context.store.apps(&open_users).await?.items;
        let watched: HashSet<&str> = self.watched.values().map(|known| known.mark.uid.as_str()).collect();
        let is_due = |app: &App| {
            let is_watched = watched.contains(app.uid.as_str());
            let may_have_ended = app.kind == AppKind::Command || due.all || due.changed.contains(&app.uid);
            may_have_ended && !is_watched
        };
        let users: Vec<App> = users.into_iter().filter(is_due).collect();
        if users.is_empty() {
            return Ok(true);
        }
        if !context.holds_duty(&self.duty).await? {
            return Ok(false);
        }
        let observe = |app: App| async move { context.standing(&app).await.map(|standing| (app, standing)) };
        let observed: Vec<Result<(App, AppStanding), StoreError>> =
            stream::iter(users.into_iter().map(observe)).buffer_unordered(MAX_CONCURRENT).collect().await;
        for found in observed {
            let (app, standing) = found?;
            match standing {
                AppStanding::Gone => {
                    let ended = self.changed_state(&app, AppPresence::Gone { has_pods: false });
                    if !self.record(ended, None).await? {
                        return Ok(false);
                    }
                }
                AppStanding::Unknown => {
                    self.shared.changed.insert(app.uid);
                }
                AppStanding::Wanted(_) | AppStanding::Job(_) => {}
            }
        }
        Ok(true)
    }
}
