//! The check of the custom resource definitions: the machines part starts only once those of this version are served.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::time::sleep;

use super::apply::message;
use crate::types::{Machine, MachineNodePool, crds, stores_all_fields};

/// The interval between reads of definitions that are missing or outdated.
const WAIT: Duration = Duration::from_secs(2);

/// The message while the definitions are missing.
const MISSING: &str =
    "the custom resources of machines are missing: run `muster machines crds | kubectl apply -f -`";

/// The message while the definitions lack fields: the API server would drop the ledger without an error.
pub(crate) const OF_ANOTHER_VERSION: &str =
    "the custom resources are those of another version: run `muster machines crds | kubectl apply -f -`";

/// Returns once both custom resources are served with all fields; until then `obstacle` has the reason.
pub(crate) async fn served(client: &Client, obstacle: &watch::Sender<Option<&'static str>>) {
    loop {
        let found = match find_obstacle(client).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!("custom resources cannot be read: {}", message(&error));
                *obstacle.borrow()
            }
        };
        let changed = obstacle.send_if_modified(|known| std::mem::replace(known, found) != found);
        match found {
            None => return,
            Some(message) if changed => tracing::warn!("waiting: {message}"),
            Some(_) => {}
        }
        sleep(WAIT).await;
    }
}

/// The reason why the custom resources cannot be used, if any.
async fn find_obstacle(client: &Client) -> kube::Result<Option<&'static str>> {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    for wanted in crds() {
        // A list, because servers have the permission to list definitions but not to get them.
        let named = ListParams::default().fields(&format!("metadata.name={}", wanted.name_any()));
        match definitions.list(&named).await?.items.first() {
            None => return Ok(Some(MISSING)),
            Some(found) if !stores_all_fields(found, &wanted) => return Ok(Some(OF_ANOTHER_VERSION)),
            Some(_) => {}
        }
    }
    // A definition is served only a moment after it was created.
    let one = ListParams::default().limit(1);
    let machines = Api::<Machine>::all(client.clone()).list_metadata(&one).await.map(drop);
    let pools = Api::<MachineNodePool>::all(client.clone()).list_metadata(&one).await.map(drop);
    match machines.and(pools) {
        Ok(()) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Some(MISSING)),
        Err(error) => Err(error),
    }
}
