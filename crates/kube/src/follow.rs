//! Watches, each as long as its flavor is there.
//!
//! One that fails is begun anew with a complete list: until that is here nobody can tell how things are, and nobody
//! acts as if. So no change is missed, whatever happened in between.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use muster_frameworks::kubernetes::{Kind, Watched};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::facts::LeanPod;
use crate::refusal;
use crate::sites::{Of, Sites, Watch};

/// Objects that are asked for at once: they are larger than what is kept of them.
const PAGE: u32 = 100;

/// Pauses between tries, from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Follows what a watch is about until it is told to stop.
pub(crate) async fn run(sites: Arc<Sites>, watch: Watch, client: Client, stop: CancellationToken) {
    let mut pause = FIRST_PAUSE;
    while !stop.is_cancelled() {
        let told = stop.run_until_cancelled(follow(&sites, &watch, client.clone())).await;
        let Some(Ended { why, told_all }) = told else { return };
        tracing::debug!(flavor = sites.flavor.name(), watch = watch.index, why, "a watch ended");
        sites.lost(&watch, why);
        pause = if told_all { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Why a watch ended, and whether it had told all before.
struct Ended {
    why: String,
    told_all: bool,
}

async fn follow(sites: &Sites, watch: &Watch, client: Client) -> Ended {
    let namespace = watch.namespace.as_deref();
    match watch.of {
        Of::Pods => {
            let api: Api<LeanPod> = match namespace {
                Some(namespace) => Api::namespaced(client, namespace),
                None => Api::all(client),
            };
            let events = watcher::watcher(api, config(sites.flavor.pods()));
            take_in(sites, watch, events, &Pods).await
        }
        Of::Objects(watched) => {
            let events = watcher::watcher(api_of(client, watched.kind, namespace), config(watched.selector));
            take_in(sites, watch, events, &Objects(watched)).await
        }
    }
}

/// Objects of a kind, whatever they hold.
pub(crate) fn api_of(client: Client, kind: &Kind, namespace: Option<&str>) -> Api<DynamicObject> {
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
    let config = watcher::Config::default().page_size(PAGE);
    if selector.is_empty() { config } else { config.labels(selector) }
}

/// What becomes of things that are told.
trait Takes<K> {
    fn take(&self, sites: &Sites, thing: K, tell: bool);
    fn drop(&self, sites: &Sites, thing: K);
}

struct Pods;

impl Takes<LeanPod> for Pods {
    fn take(&self, sites: &Sites, pod: LeanPod, tell: bool) {
        sites.take_pod(pod, tell);
    }

    fn drop(&self, sites: &Sites, pod: LeanPod) {
        sites.drop_pod(pod);
    }
}

struct Objects(&'static Watched);

impl Takes<DynamicObject> for Objects {
    fn take(&self, sites: &Sites, object: DynamicObject, tell: bool) {
        sites.take_object(self.0, &plain(object), tell);
    }

    fn drop(&self, sites: &Sites, object: DynamicObject) {
        sites.drop_object(self.0, &plain(object));
    }
}

/// An object as plain JSON, without what nobody reads.
pub(crate) fn plain(mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).unwrap_or_default()
}

async fn take_in<K>(
    sites: &Sites,
    watch: &Watch,
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    takes: &(impl Takes<K> + Sync),
) -> Ended
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let mut events = std::pin::pin!(events);
    let mut told_all = false;
    let mut begun = sites.begin();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => begun = sites.begin(),
            Ok(Event::InitApply(thing)) => takes.take(sites, thing, false),
            Ok(Event::InitDone) => {
                sites.complete(watch, begun);
                told_all = true;
            }
            Ok(Event::Apply(thing)) => takes.take(sites, thing, true),
            Ok(Event::Delete(thing)) => takes.drop(sites, thing),
            Err(error) => return Ended { why: refusal::of_watch(error), told_all },
        }
    }
    Ended { why: "the watch ended".to_owned(), told_all }
}
