//! Apps in memory, whose states a test sets and whose marks it can read.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use muster_core::app::{AppIdentity, GivenApp};
use muster_core::ephemeral::AppStanding;
use muster_engine::ports::provider::{
    AppChange, AppMarks, AppObservation, AppProvider, ProviderError, ResolvedApp,
};
use parking_lot::Mutex;
use tokio::sync::watch;

/// Apps that exist only in memory.
#[derive(Default)]
pub struct FakeApps {
    /// The states by UID; `None` for apps that cannot be observed.
    apps: Mutex<HashMap<String, (AppIdentity, Option<AppObservation>)>>,
    /// The Deployments of apps, by the UID of the app.
    deployments: Mutex<HashMap<String, AppIdentity>>,
    /// The UIDs of apps that are not found by their names.
    unnamed: Mutex<HashSet<String>>,
    /// The numbers of pods of apps that have another number than one, by UID.
    running_pods: Mutex<HashMap<String, u32>>,
    marks: Mutex<HashMap<String, AppMarks>>,
    observed: watch::Sender<u64>,
    changes: watch::Sender<u64>,
}

impl FakeApps {
    /// Sets the state of an app; `None` makes it unobservable.
    pub fn set(&self, app: &AppIdentity, observation: Option<AppObservation>) {
        self.apps.lock().insert(app.uid.clone(), (app.clone(), observation));
        self.changes.send_modify(|count| *count += 1);
    }

    /// Makes an app a rollout of a Deployment.
    pub fn is_rollout_of(&self, app: &AppIdentity, deployment: &AppIdentity) {
        self.deployments.lock().insert(app.uid.clone(), deployment.clone());
    }

    /// Sets the desired number of drivers of an app.
    pub fn wants(&self, app: &AppIdentity, drivers: u32) {
        self.set(app, Some(observation(AppStanding::Wanted(Some(drivers)), false)));
    }

    /// Lets the name of an app mean nothing any more: its object was deleted.
    pub fn lose_name(&self, app: &AppIdentity) {
        self.unnamed.lock().insert(app.uid.clone());
    }

    /// Sets the number of pods of an app that have not ended.
    pub fn runs_pods(&self, app: &AppIdentity, count: u32) {
        self.running_pods.lock().insert(app.uid.clone(), count);
    }

    /// Deletes an app; its pods may still run.
    pub fn is_gone(&self, app: &AppIdentity, has_pods: bool) {
        self.set(app, Some(observation(AppStanding::Gone, has_pods)));
    }

    /// The marks that were written on the object of an app.
    pub fn marks(&self, uid: &str) -> Option<AppMarks> {
        self.marks.lock().get(uid).cloned()
    }

    /// Waits until apps were observed this many times more.
    pub async fn observed_again(&self, times: u64) {
        let mut observed = self.observed.subscribe();
        let goal = *observed.borrow_and_update() + times;
        let seen = observed.wait_for(|count| *count >= goal);
        let in_time = tokio::time::timeout(crate::eventually::PATIENCE, seen).await;
        assert!(in_time.is_ok_and(|seen| seen.is_ok()), "apps are observed {times} times more");
    }
}

fn observation(standing: AppStanding, has_pods: bool) -> AppObservation {
    let reason = if standing == AppStanding::Gone { "it does not exist" } else { "" };
    AppObservation { standing, reason: reason.to_owned(), has_pods }
}

#[async_trait]
impl AppProvider for FakeApps {
    async fn resolve(&self, namespace: &str, given: &GivenApp) -> Result<Vec<ResolvedApp>, ProviderError> {
        let apps = self.apps.lock();
        let fits = |app: &AppIdentity| {
            app.namespace == namespace
                && app.name == given.name
                && given.kind.is_none_or(|kind| kind == app.kind)
        };
        let unnamed = self.unnamed.lock();
        let found = apps.values().filter(|(app, _)| fits(app) && !unnamed.contains(&app.uid));
        Ok(found
            .map(|(app, _)| ResolvedApp {
                app: app.clone(),
                deployment: self.deployments.lock().get(&app.uid).cloned(),
                siblings: Vec::new(),
                cluster: None,
            })
            .collect())
    }

    async fn observe(&self, app: &AppIdentity) -> Result<AppObservation, ProviderError> {
        let known = self.apps.lock().get(&app.uid).cloned();
        self.observed.send_modify(|count| *count += 1);
        match known {
            Some((_, Some(observation))) => Ok(observation),
            Some((_, None)) => Err(ProviderError::transient("Unreachable", "nothing answers")),
            None => Ok(observation(AppStanding::Gone, false)),
        }
    }

    async fn running_pods(&self, app: &AppIdentity) -> Result<u32, ProviderError> {
        Ok(self.running_pods.lock().get(&app.uid).copied().unwrap_or(1))
    }

    async fn mark(&self, app: &AppIdentity, marks: &AppMarks) -> Result<bool, ProviderError> {
        self.marks.lock().insert(app.uid.clone(), marks.clone());
        Ok(true)
    }

    fn changes(&self) -> BoxStream<'static, AppChange> {
        let changes = self.changes.subscribe();
        stream::unfold(changes, |mut changes| async {
            changes.changed().await.ok()?;
            Some((AppChange::Everything, changes))
        })
        .boxed()
    }
}
