//! The commands that register apps, and record their states and marks.

use futures::future::BoxFuture;
use muster_core::app::{App, AppState, Process};
use muster_core::event::Event;
use muster_core::ids::{AppId, ClusterId, EngineId};
use muster_core::time::{TimeSpan, Timestamp};

use super::duty;
use crate::error::StoreError;
use crate::rows::{apps, events};
use crate::transaction::{Command, Touched, Transaction};
use crate::value::args;

/// Registers an app, or updates the row of the same object.
#[derive(Debug, Clone)]
pub struct RegisterApp {
    /// The app.
    pub app: App,
    /// The length of its lease, if it has one.
    pub lease: Option<TimeSpan>,
    /// The name of a cluster to record unless one is recorded, with the cluster's id if it exists.
    pub cluster: Option<(String, Option<ClusterId>)>,
}

impl Command for RegisterApp {
    /// The stored app.
    type Output = App;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<App, StoreError>> {
        Box::pin(async move {
            let lease_until = lease_until(tx, self.lease).await?;
            let known = format!("instance = $1 AND uid = $2{}", tx.dialect().for_update());
            let found = apps::find(tx, &known, args![self.app.instance.as_str(), &self.app.uid]).await?;
            let mut app = match found {
                Some(found) => App {
                    process: self.app.process.clone().or(found.process),
                    lease_until: lease_until.or(found.lease_until),
                    state: self.app.state,
                    // An app that stays gone ended when that was first observed.
                    ended_at: self.app.ended_at.map(|ended| found.ended_at.unwrap_or(ended)),
                    ..found
                },
                None => App { lease_until, ..self.app.clone() },
            };
            if let Some((name, id)) = &self.cluster
                && (app.cluster_name.is_empty() || is_gone(tx, &app).await?)
            {
                app.cluster_name.clone_from(name);
                app.cluster_id = *id;
            }
            if app.id == self.app.id && !apps::insert(tx, &app).await? {
                // Another driver registered the app at the same time: retry, and find that row.
                return Err(StoreError::Contended("an app was registered at the same time".to_owned()));
            }
            apps::update(tx, &app).await?;
            tx.touch(Touched::Apps);
            Ok(app)
        })
    }
}

/// Returns true if the cluster in the row of an app was created, and is gone.
async fn is_gone(tx: &mut Transaction<'_>, app: &App) -> Result<bool, StoreError> {
    const PRESENT: &str = "SELECT 1 FROM clusters WHERE id = $1 AND deleted_at IS NULL";
    match app.cluster_id {
        Some(id) => Ok(tx.row(PRESENT, args![id.to_string()]).await?.is_none()),
        None => Ok(false),
    }
}

async fn lease_until(
    tx: &mut Transaction<'_>,
    lease: Option<TimeSpan>,
) -> Result<Option<Timestamp>, StoreError> {
    match lease {
        Some(lease) => Ok(Some(Timestamp::from_micros(tx.database_now().await?).after(lease))),
        None => Ok(None),
    }
}

/// Renews the lease of an app, and updates its process if that changed.
#[derive(Debug, Clone)]
pub struct RenewApp {
    /// The app.
    pub id: AppId,
    /// The length of its lease, if it has one.
    pub lease: Option<TimeSpan>,
    /// The new process of the app, if it changed.
    pub process: Option<Process>,
}

impl Command for RenewApp {
    type Output = App;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<App, StoreError>> {
        Box::pin(async move {
            let lease_until = lease_until(tx, self.lease).await?;
            let found = apps::lock(tx, self.id).await?;
            // A renewal alone changes nothing that the app watcher waits for.
            if self.process.is_some() || found.state != AppState::Running {
                tx.touch(Touched::Apps);
            }
            let app = App {
                process: self.process.clone().or(found.process),
                lease_until: lease_until.or(found.lease_until),
                state: AppState::Running,
                ended_at: None,
                ..found
            };
            apps::update(tx, &app).await?;
            Ok(app)
        })
    }
}

/// Ends an app at its own request.
#[derive(Debug, Clone)]
pub struct EndApp {
    /// The app.
    pub id: AppId,
    /// The present time.
    pub now: Timestamp,
}

impl Command for EndApp {
    type Output = App;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<App, StoreError>> {
        Box::pin(async move {
            let found = apps::lock(tx, self.id).await?;
            let ended_at = found.ended_at.or(Some(self.now));
            let app = App { lease_until: None, process: None, state: AppState::Gone, ended_at, ..found };
            apps::update(tx, &app).await?;
            tx.touch(Touched::Apps);
            Ok(app)
        })
    }
}

/// Records the observations of the app watcher.
#[derive(Debug, Clone)]
pub struct RecordAppStates {
    /// The duty that the writer must still hold.
    pub duty: String,
    /// The writer.
    pub engine: EngineId,
    /// The observations, with the time of the end of apps that are gone.
    pub states: Vec<(AppId, AppState, Option<Timestamp>)>,
    /// The events to record.
    pub events: Vec<Event>,
}

impl Command for RecordAppStates {
    /// True if the states were written; false if another engine holds the duty now.
    type Output = bool;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<bool, StoreError>> {
        const RECORD: &str = "UPDATE apps SET state = $2, ended_at = $3 WHERE id = $1";
        Box::pin(async move {
            if !duty::is_held(tx, &self.duty, self.engine).await? {
                return Ok(false);
            }
            for (id, state, ended_at) in &self.states {
                tx.execute(RECORD, args![id.to_string(), state.as_str(), *ended_at]).await?;
            }
            events::insert(tx, &self.events).await?;
            Ok(true)
        })
    }
}

/// Records that the marks of an app's object were written.
#[derive(Debug, Clone)]
pub struct RecordAppMarks {
    /// The app.
    pub id: AppId,
    /// The written version of the marks.
    pub version: i64,
}

impl Command for RecordAppMarks {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        const RECORD: &str = "UPDATE apps SET marks_written = $2 WHERE id = $1 AND marks_written < $2";
        Box::pin(async move { tx.execute(RECORD, args![self.id.to_string(), self.version]).await.map(drop) })
    }
}
