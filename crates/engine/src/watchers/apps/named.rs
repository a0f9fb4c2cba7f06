//! Registers the apps of marks that another program wrote: a mark with only a name makes the app a user of the cluster.

use muster_core::app::{App, AppIdentity, AppState};
use muster_core::cluster::Cluster;
use muster_core::ids::AppId;
use muster_store::StoreError;
use muster_store::commands::{AppUseChanged, ChangeAppUse, RegisterApp};

use crate::context::Context;
use crate::ids::new_id;

/// Registers that an app uses the cluster whose mark names it, so that the app is listed, and watched like others.
/// Returns true if that is new. `known` is the row of the app.
pub(super) async fn register(
    context: &Context,
    cluster: &Cluster,
    identity: &AppIdentity,
    known: Option<&App>,
) -> Result<bool, StoreError> {
    let app = match known {
        Some(known) => known.id,
        None => {
            let app = new_app(context, cluster, identity);
            context.store.register_app(RegisterApp { app, lease: None, cluster: None }).await?.id
        }
    };
    if known.is_some() && context.store.app_uses(&[app]).await?.iter().any(|used| used.cluster == cluster.id)
    {
        return Ok(false);
    }
    let (now, events) = (context.clock.now(), Vec::new());
    let change = ChangeAppUse { app, deployment: None, cluster: cluster.id, uses: true, now, events };
    match context.store.change_app_use(change).await {
        Ok(changed) => Ok(changed == AppUseChanged::Changed),
        // The cluster was deleted meanwhile.
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

fn new_app(context: &Context, cluster: &Cluster, identity: &AppIdentity) -> App {
    let AppIdentity { namespace, kind, name, uid } = identity.clone();
    App {
        id: AppId::from_uuid(new_id()),
        instance: cluster.instance.clone(),
        namespace,
        name,
        kind,
        uid,
        project: cluster.project.clone(),
        owner: cluster.owner.clone(),
        process: None,
        lease_until: None,
        cluster_name: String::new(),
        cluster_id: None,
        state: AppState::Running,
        created_at: context.clock.now(),
        ended_at: None,
    }
}
