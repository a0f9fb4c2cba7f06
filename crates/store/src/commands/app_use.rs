//! The commands for the use of clusters by apps, decided under the lock of the cluster's row.

use futures::future::BoxFuture;
use muster_core::action::{Action, ActionKind};
use muster_core::app::{App, AppIdentity, AppState, EphemeralMark};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_core::event::Event;
use muster_core::ids::{AppId, ClusterId, EngineId};
use muster_core::time::Timestamp;

use super::{Accept, duty};
use crate::error::StoreError;
use crate::rows::{apps, events};
use crate::transaction::{Command, Touched, Transaction};
use crate::value::args;

/// Adds or removes the use of a cluster by an app.
#[derive(Debug, Clone)]
pub struct ChangeAppUse {
    /// The app.
    pub app: AppId,
    /// The Deployment that the app belongs to, if any: with `--across-rollouts` its clusters are the app's own.
    pub deployment: Option<AppIdentity>,
    /// The cluster.
    pub cluster: ClusterId,
    /// True to add the use, false to remove it.
    pub uses: bool,
    /// The present time.
    pub now: Timestamp,
    /// The events to record, if anything changes.
    pub events: Vec<Event>,
}

/// The outcome of [`ChangeAppUse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppUseChanged {
    /// The use was added or removed.
    Changed,
    /// The use was as requested already.
    Unchanged,
    /// The change is refused.
    Refused(AppUseRefusal),
}

/// The reason why the use of a cluster is not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppUseRefusal {
    /// The cluster is being deleted.
    Leaving,
    /// The cluster belongs to another app.
    OfAnother(EphemeralMark),
    /// The cluster belongs to this app, or to its Deployment, which cannot leave it.
    OfThis(AppIdentity),
    /// The app has ended.
    AppGone,
}

impl Command for ChangeAppUse {
    type Output = AppUseChanged;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<AppUseChanged, StoreError>> {
        const ADD: &str = "INSERT INTO app_uses (app_id, cluster_id, ephemeral, since) VALUES ($1, $2, $3, $4) \
                           ON CONFLICT (app_id, cluster_id) DO NOTHING";
        const REMOVE: &str = "DELETE FROM app_uses WHERE app_id = $1 AND cluster_id = $2";
        // The next driver of the app must not reuse a cluster that the app no longer uses.
        const UNNAME: &str =
            "UPDATE apps SET cluster_name = '', cluster_id = NULL WHERE id = $1 AND cluster_id = $2";
        Box::pin(async move {
            let held = hold_cluster(tx, self.cluster).await?;
            let app = apps::lock(tx, self.app).await?;
            match self.owner(&held, app.identity()) {
                Some(owner) if !self.uses => {
                    return Ok(AppUseChanged::Refused(AppUseRefusal::OfThis(owner)));
                }
                Some(_) if held.leaving => {
                    return Ok(AppUseChanged::Refused(AppUseRefusal::Leaving));
                }
                // The use of its Deployment covers the app.
                Some(owner) if owner != app.identity() => return Ok(AppUseChanged::Unchanged),
                Some(_) => {}
                None => {
                    if let Some(refusal) = self.refusal(&held, &app) {
                        return Ok(AppUseChanged::Refused(refusal));
                    }
                }
            }
            let (app, cluster) = (self.app.to_string(), self.cluster.to_string());
            let changed = if self.uses {
                // An ephemeral cluster can be used by its own app only: other apps are refused above.
                tx.execute(ADD, args![&app, &cluster, held.mark.is_some(), self.now]).await?
            } else {
                tx.execute(UNNAME, args![&app, &cluster]).await?;
                tx.execute(REMOVE, args![&app, &cluster]).await?
            };
            if changed == 0 {
                return Ok(AppUseChanged::Unchanged);
            }
            apps::want_marks(tx, self.app).await?;
            events::insert(tx, &self.events).await?;
            tx.touch(Touched::Cluster(self.cluster));
            Ok(AppUseChanged::Changed)
        })
    }
}

impl ChangeAppUse {
    /// Returns the app that the cluster belongs to, if that is the app of this change or its Deployment.
    fn owner(&self, cluster: &HeldCluster, app: AppIdentity) -> Option<AppIdentity> {
        let mark = cluster.mark.as_ref()?;
        [Some(app), self.deployment.clone()].into_iter().flatten().find(|identity| mark.is_of(identity))
    }

    /// Returns why an app that does not own the cluster cannot make this change.
    fn refusal(&self, cluster: &HeldCluster, app: &App) -> Option<AppUseRefusal> {
        match &cluster.mark {
            Some(mark) if self.uses => Some(AppUseRefusal::OfAnother(mark.clone())),
            _ if !self.uses => None,
            _ if cluster.leaving => Some(AppUseRefusal::Leaving),
            _ if app.state == AppState::Gone => Some(AppUseRefusal::AppGone),
            _ => None,
        }
    }
}

/// A cluster whose row is locked until the transaction ends.
struct HeldCluster {
    leaving: bool,
    mark: Option<EphemeralMark>,
}

async fn hold_cluster(tx: &mut Transaction<'_>, id: ClusterId) -> Result<HeldCluster, StoreError> {
    const DELETION: &str = "SELECT 1 FROM actions WHERE cluster_id = $1 AND kind = $2 AND parent_id IS NULL AND ended_at IS NULL LIMIT 1";
    let id = id.to_string();
    let lock = tx.dialect().for_update();
    let sql = format!("SELECT status, ephemeral FROM clusters WHERE id = $1 AND deleted_at IS NULL{lock}");
    let missing = || StoreError::NotFound { kind: "cluster", given: id.clone() };
    let row = tx.row(sql, args![&id]).await?.ok_or_else(missing)?;
    let status: ClusterStatus = row.word(0)?;
    let mark = row.opt_json(1)?;
    let deletion = tx.row(DELETION, args![&id, ActionKind::ClusterDelete.as_str()]).await?;
    Ok(HeldCluster { leaving: status == ClusterStatus::Deleting || deletion.is_some(), mark })
}

/// Records that an app uses the new cluster that was created for it.
pub(super) async fn use_new_cluster(
    tx: &mut Transaction<'_>,
    app: AppId,
    cluster: &Cluster,
) -> Result<(), StoreError> {
    const ADD: &str = "INSERT INTO app_uses (app_id, cluster_id, ephemeral, since) VALUES ($1, $2, $3, $4)";
    let found = apps::lock(tx, app).await?;
    let id = cluster.id.to_string();
    tx.execute(ADD, args![app.to_string(), &id, cluster.ephemeral.is_some(), cluster.init_at]).await?;
    let named = App { cluster_name: cluster.name.clone(), cluster_id: Some(cluster.id), ..found };
    apps::update(tx, &named).await?;
    apps::want_marks(tx, app).await
}

/// Deletes the cluster of an app, if it still belongs to that app.
#[derive(Debug, Clone)]
pub struct EndForApp {
    /// The duty that the writer must still hold; `None` if a driver requests the deletion.
    pub duty: Option<(String, EngineId)>,
    /// The cluster.
    pub cluster: ClusterId,
    /// The mark that the decision was based on.
    pub mark: EphemeralMark,
    /// The app, if it has a row: the cluster is spared if the app has renewed its lease. `None` if a driver requests
    /// the deletion.
    pub app: Option<AppId>,
    /// The deletion.
    pub accept: Accept,
}

/// The outcome of [`EndForApp`].
#[derive(Debug, Clone)]
pub enum EndedForApp {
    /// The cluster is being deleted by this action.
    Deleting(Box<Action>),
    /// The cluster belongs to no app, or to another one, or its app has renewed its lease.
    Spared,
    /// Another engine holds the duty now.
    NotOurs,
}

impl Command for EndForApp {
    type Output = EndedForApp;

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<EndedForApp, StoreError>> {
        Box::pin(async move {
            if let Some((duty, engine)) = &self.duty
                && !duty::is_held(tx, duty, *engine).await?
            {
                return Ok(EndedForApp::NotOurs);
            }
            let held = hold_cluster(tx, self.cluster).await?;
            if held.mark.as_ref() != Some(&self.mark) || self.is_back(tx).await? {
                return Ok(EndedForApp::Spared);
            }
            Ok(EndedForApp::Deleting(Box::new(self.accept.accept(tx).await?.action)))
        })
    }
}

impl EndForApp {
    /// Returns true if the app has renewed its lease since it was observed.
    async fn is_back(&self, tx: &mut Transaction<'_>) -> Result<bool, StoreError> {
        let Some(app) = self.app else { return Ok(false) };
        let app = apps::lock(tx, app).await?;
        match app.lease_until {
            Some(until) => Ok(until >= Timestamp::from_micros(tx.database_now().await?)),
            None => Ok(false),
        }
    }
}
