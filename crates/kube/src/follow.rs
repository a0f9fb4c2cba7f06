//! Watches, each as long as its flavor is there.
//!
//! One that fails is begun anew with a complete list: until that is here nobody can tell how things are, and nobody
//! acts as if. So no change is missed, whatever happened in between.

use std::fmt::Debug;

use futures::{Stream, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ApiResource, ListParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use muster_core::backoff::Backoff;
use muster_core::time::TimeSpan;
use muster_engine::ports::provider::ProviderError;
use muster_frameworks::kubernetes::Kind;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::plain::PlainObject;
use crate::refusal;
use crate::write::within;

/// Objects that are asked for at once: they are larger than what is kept of them.
const PAGE: u32 = 100;

/// Each watch is ended by the API server after so many seconds, and goes on where it was: a connection whose other end
/// vanished is noticed soon after that.
pub(crate) const WATCH_SECONDS: u32 = 60;

/// Between two watches. All watches end together when the API server does.
const BACKOFF: Backoff = Backoff { first: TimeSpan::from_millis(200), longest: TimeSpan::from_secs(10) };

/// Follows what takes things in until it is told to stop.
pub(crate) async fn run<K>(api: Api<K>, selector: &str, takes: impl Takes<K>, stop: CancellationToken)
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let mut failures = 0;
    loop {
        let follow = take_in(watcher::watcher(api.clone(), config(selector)), &takes);
        let Some(Ended { why, told_all }) = stop.run_until_cancelled(follow).await else { return };
        tracing::debug!(why, "a watch ended");
        takes.lost(why);
        // Delays grow while no watch gets as far as a complete list.
        failures = if told_all { 1 } else { failures + 1 };
        let delay = BACKOFF.delay(failures, fastrand::f64());
        if stop.run_until_cancelled(tokio::time::sleep(delay.into())).await.is_none() {
            return;
        }
    }
}

/// Why a watch ended, and whether it had told all before.
struct Ended {
    why: String,
    told_all: bool,
}

/// Things of a namespace, or of all.
pub(crate) fn api_in<K>(client: Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

/// Objects of a kind, whatever they hold.
pub(crate) fn api_of(client: Client, kind: &Kind, namespace: Option<&str>) -> Api<PlainObject> {
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

/// Reads everything once, as it is now, without waiting for a watch to tell.
pub(crate) async fn list<K>(
    api: &Api<K>,
    selector: &str,
    mut take: impl FnMut(K),
) -> Result<(), ProviderError>
where
    K: Resource + DeserializeOwned + Clone + Debug,
{
    let mut parameters = ListParams::default().labels(selector).limit(PAGE);
    loop {
        let what = "list what is there";
        let page = within(what, api.list(&parameters)).await?.map_err(|error| refusal::of(what, error))?;
        page.items.into_iter().for_each(&mut take);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// What becomes of things that are told.
pub(crate) trait Takes<K>: Send + Sync {
    /// All is about to be told.
    fn begin(&self) -> u64;
    /// A thing is so now. Subscribers are notified, unless all is being listed since a moment.
    fn take(&self, thing: K, listed_since: Option<u64>);
    /// A thing is gone.
    fn drop(&self, thing: K);
    /// All was told, since that moment.
    fn complete(&self, begun: u64);
    /// Nobody tells any more, for this reason.
    fn lost(&self, why: String);
}

async fn take_in<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    takes: &impl Takes<K>,
) -> Ended {
    let mut events = std::pin::pin!(events);
    let mut told_all = false;
    let mut begun = takes.begin();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => begun = takes.begin(),
            Ok(Event::InitApply(thing)) => takes.take(thing, Some(begun)),
            Ok(Event::InitDone) => {
                takes.complete(begun);
                told_all = true;
            }
            Ok(Event::Apply(thing)) => takes.take(thing, None),
            Ok(Event::Delete(thing)) => takes.drop(thing),
            Err(error) => return Ended { why: refusal::of_watch(error), told_all },
        }
    }
    Ended { why: "the watch ended".to_owned(), told_all }
}
