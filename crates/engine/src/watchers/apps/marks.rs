//! Writes on apps' objects which clusters they use.

use std::sync::Arc;

use muster_core::ids::InstanceId;
use muster_store::StoreError;
use muster_store::commands::RecordAppMarks;
use muster_store::reads::UnmarkedApp;

use crate::context::{Context, Engine};
use crate::ports::provider::{AppMarks, AppProvider, Provider, ProviderError};

/// Writes stale marks on objects of apps; returns false if some could not be written.
pub(super) async fn write(
    context: &Context,
    provider: &Arc<dyn Provider>,
    unmarked: &[UnmarkedApp],
) -> Result<bool, StoreError> {
    let Some(apps) = Arc::clone(provider).app_provider() else { return Ok(true) };
    let mut all = true;
    for unmarked in unmarked {
        if let Err(error) = write_one(context, apps.as_ref(), unmarked).await? {
            tracing::warn!(app = %unmarked.app.identity(), %error, "cannot write which clusters it uses");
            all = false;
        }
    }
    Ok(all)
}

async fn write_one(
    context: &Context,
    apps: &dyn AppProvider,
    unmarked: &UnmarkedApp,
) -> Result<Result<(), ProviderError>, StoreError> {
    let UnmarkedApp { app, uses, version } = unmarked;
    let marks = AppMarks {
        cluster_name: app.cluster_id.map(|_| app.cluster_name.clone()),
        uses: uses.iter().map(|used| (used.cluster_name.clone(), used.cluster)).collect(),
    };
    // An object that is gone needs no marks.
    if let Err(error) = apps.mark(&app.identity(), &marks).await {
        return Ok(Err(error));
    }
    context.store.record_app_marks(RecordAppMarks { id: app.id, version: *version }).await?;
    Ok(Ok(()))
}

impl Engine {
    /// Writes on the objects of an instance's apps which clusters they use, where that has changed. The watcher retries
    /// marks that cannot be written now.
    pub async fn write_app_marks(&self, instance: &InstanceId) -> Result<(), StoreError> {
        let Some(provider) = self.provider(instance) else { return Ok(()) };
        let unmarked = self.context.store.unmarked_apps(instance).await?;
        write(&self.context, &provider, &unmarked).await.map(drop)
    }
}
