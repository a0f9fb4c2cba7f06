//! Watches of the API server, each with a sink that receives what it reports.
//!
//! A watch that fails is restarted with a complete list. Until the list is complete its sink counts as stale, so no
//! change is missed and nothing is decided on old state.

use std::fmt::Debug;

use futures::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ApiResource, ListParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use muster_core::backoff::Backoff;
use muster_core::time::TimeSpan;
use muster_engine::ports::provider::ProviderError;
use muster_frameworks::kubernetes::ResourceKind;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::errors;
use crate::untyped_object::UntypedObject;
use crate::writer::with_deadline;

/// The number of objects per page of a list. Whole objects are larger than the parts that are cached, so pages bound
/// the memory of a list.
const PAGE: u32 = 100;

/// The API server ends each watch after this many seconds, and the watch resumes at the same version. A connection that
/// is silent for much longer is therefore known to be dead.
pub(crate) const WATCH_SECONDS: u32 = 60;

/// The pause between two watches, with jitter: when the API server ends, all watches end together.
const BACKOFF: Backoff = Backoff { first: TimeSpan::from_millis(200), longest: TimeSpan::from_secs(10) };

/// Receives what a watch reports.
pub(crate) trait WatchSink<K>: Send + Sync {
    /// Starts a complete list, and returns an epoch that identifies it.
    fn begin(&self) -> u64;
    /// Applies the present state of an object. `listed_since` is the epoch of the list that contains it;
    /// subscribers are notified only of objects outside a list.
    fn apply(&self, object: K, listed_since: Option<u64>);
    /// Applies the deletion of an object.
    fn delete(&self, object: K);
    /// Ends the complete list that began at this epoch: objects that it lacks do not exist.
    fn synced(&self, begun: u64);
    /// Records that the watch has failed for this reason, so that its objects are unknown until the next complete list.
    fn lost(&self, reason: String);
}

/// Watches objects with this label selector, and restarts the watch when it fails, until `stop` is cancelled.
pub(crate) async fn run_watch<K>(
    api: Api<K>,
    selector: &str,
    sink: impl WatchSink<K>,
    stop: CancellationToken,
) where
    K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let mut failures = 0;
    let (resource, mut rights) = (api.resource_url().to_owned(), WatchRights::default());
    loop {
        let events = watcher::watcher(api.clone(), config(selector));
        let synced = || {
            if rights.allow() {
                tracing::info!(resource, "the server may watch this resource now");
            }
        };
        let watch = forward_events(events, &sink, synced);
        let Some(WatchEnd { reason, was_synced, is_forbidden }) = stop.run_until_cancelled(watch).await
        else {
            return;
        };
        if is_forbidden && rights.deny() {
            tracing::warn!(
                resource,
                reason,
                "the server may not watch this resource: it counts as unknown until the right is granted"
            );
        } else {
            tracing::debug!(resource, reason, "a watch ended");
        }
        sink.lost(reason);
        // The delays grow only while no watch completes its first list.
        failures = if was_synced { 1 } else { failures + 1 };
        let delay = BACKOFF.delay(failures, fastrand::f64());
        if stop.run_until_cancelled(tokio::time::sleep(delay.into())).await.is_none() {
            return;
        }
    }
}

/// Whether the account of the server may watch a resource, so that only changes of that are logged: the watch is
/// retried for as long as it is refused.
#[derive(Default)]
struct WatchRights {
    is_forbidden: bool,
}

impl WatchRights {
    /// Records that a watch was refused; returns true if that is new.
    fn deny(&mut self) -> bool {
        !std::mem::replace(&mut self.is_forbidden, true)
    }

    /// Records that a watch has listed everything; returns true if it was refused before.
    fn allow(&mut self) -> bool {
        std::mem::take(&mut self.is_forbidden)
    }
}

/// The end of a watch, with its reason. `was_synced` says that it had completed a list before.
struct WatchEnd {
    reason: String,
    was_synced: bool,
    is_forbidden: bool,
}

async fn forward_events<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    sink: &impl WatchSink<K>,
    mut synced: impl FnMut() + Send,
) -> WatchEnd {
    let mut events = std::pin::pin!(events);
    let mut was_synced = false;
    let mut begun = sink.begin();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => begun = sink.begin(),
            Ok(Event::InitApply(object)) => sink.apply(object, Some(begun)),
            Ok(Event::InitDone) => {
                sink.synced(begun);
                synced();
                was_synced = true;
            }
            Ok(Event::Apply(object)) => sink.apply(object, None),
            Ok(Event::Delete(object)) => sink.delete(object),
            Err(error) => {
                let is_forbidden = errors::is_forbidden(&error);
                return WatchEnd { reason: errors::watch_error_message(error), was_synced, is_forbidden };
            }
        }
    }
    WatchEnd { reason: "the watch ended".to_owned(), was_synced, is_forbidden: false }
}

/// Returns the API of a typed object in a namespace, or in all namespaces.
pub(crate) fn typed_api<K>(client: Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

/// Returns the API of a kind in a namespace, or in all namespaces, with its objects as JSON.
pub(crate) fn untyped_api(
    client: Client,
    kind: &ResourceKind,
    namespace: Option<&str>,
) -> Api<UntypedObject> {
    let resource = ApiResource {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    };
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    }
}

fn config(selector: &str) -> watcher::Config {
    let config = watcher::Config::default().page_size(PAGE).timeout(WATCH_SECONDS);
    if selector.is_empty() { config } else { config.labels(selector) }
}

/// Reads all objects with this label selector now, independently of any watch.
pub(crate) async fn list_all<K>(
    api: &Api<K>,
    selector: &str,
    mut visit: impl FnMut(K),
) -> Result<(), ProviderError>
where
    K: Resource + DeserializeOwned + Clone + Debug,
{
    let mut parameters = ListParams::default().labels(selector).limit(PAGE);
    loop {
        let what = "list objects";
        let page = with_deadline(what, api.list(&parameters))
            .await?
            .map_err(|error| errors::request_error(what, error))?;
        page.items.into_iter().for_each(&mut visit);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_watch_is_reported_once_until_it_is_allowed() {
        let mut rights = WatchRights::default();
        assert!(!rights.allow(), "a first list is no news");
        assert_eq!([rights.deny(), rights.deny(), rights.deny()], [true, false, false]);
        assert_eq!([rights.allow(), rights.allow()], [true, false]);
        assert!(rights.deny(), "the right was taken away again");
    }
}
