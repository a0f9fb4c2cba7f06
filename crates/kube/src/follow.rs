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

use crate::facts::{LeanEvent, LeanPod};
use crate::happenings::Happenings;
use crate::marks;
use crate::pods::Table;
use crate::refusal;
use crate::sites::{Of, Sites, Watch};

/// Objects that are asked for at once: they are larger than what is kept of them.
const PAGE: u32 = 100;

/// Pauses between tries, from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Follows what a watch is about until it is told to stop.
pub(crate) async fn run(sites: Arc<Sites>, watch: Watch, client: Client, stop: CancellationToken) {
    let mut pauses = Pauses::default();
    while let Some(ended) = stop.run_until_cancelled(follow(&sites, &watch, client.clone())).await {
        tracing::debug!(flavor = sites.flavor.name(), watch = watch.index, why = ended.why, "a watch ended");
        let pause = pauses.after(&ended);
        sites.lost(&watch, ended.why);
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Follows the events of a namespace, or of all, until it is told to stop. `tell` hears of whom they are about.
pub(crate) async fn run_events(
    happenings: Arc<Happenings>,
    namespace: Option<String>,
    client: Client,
    tell: impl Fn(&str) + Send + Sync,
    stop: CancellationToken,
) {
    let mut pauses = Pauses::default();
    let takes = Events(&happenings, &tell);
    loop {
        let api: Api<LeanEvent> = match &namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let follow = take_in(watcher::watcher(api, config("")), &takes);
        // What was heard stays true.
        let Some(ended) = stop.run_until_cancelled(follow).await else { return };
        tracing::debug!(why = ended.why, "cannot follow events");
        if stop.run_until_cancelled(tokio::time::sleep(pauses.after(&ended))).await.is_none() {
            return;
        }
    }
}

/// Follows pods that are nodes, in a namespace or everywhere, until it is told to stop.
pub(crate) async fn run_nodes(
    table: Arc<Table>,
    index: usize,
    namespace: Option<String>,
    client: Client,
    stop: CancellationToken,
) {
    let mut pauses = Pauses::default();
    let takes = Nodes(&table, index, namespace.as_deref());
    loop {
        let api: Api<LeanPod> = match &namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let follow = take_in(watcher::watcher(api, config(marks::NODE)), &takes);
        let Some(ended) = stop.run_until_cancelled(follow).await else { return };
        let pause = pauses.after(&ended);
        table.lost(index, ended.why);
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Pauses that grow while nothing is told.
struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl Pauses {
    fn after(&mut self, ended: &Ended) -> Duration {
        self.0 = if ended.told_all { FIRST_PAUSE } else { (self.0 * 2).min(LONGEST_PAUSE) };
        self.0
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
            take_in(events, &Pods(sites, watch)).await
        }
        Of::Objects(watched) => {
            let events = watcher::watcher(api_of(client, watched.kind, namespace), config(watched.selector));
            take_in(events, &Objects(sites, watch, watched)).await
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
    /// All is about to be told.
    fn begin(&self) -> u64;
    /// A thing is so now; told on, unless all is being told.
    fn take(&self, thing: K, tell: bool);
    /// A thing is gone.
    fn drop(&self, thing: K);
    /// All was told, since that moment.
    fn complete(&self, begun: u64);
}

struct Pods<'s>(&'s Sites, &'s Watch);

impl Takes<LeanPod> for Pods<'_> {
    fn begin(&self) -> u64 {
        self.0.begin()
    }

    fn take(&self, pod: LeanPod, tell: bool) {
        self.0.take_pod(pod, tell);
    }

    fn drop(&self, pod: LeanPod) {
        self.0.drop_pod(pod);
    }

    fn complete(&self, begun: u64) {
        self.0.complete(self.1, begun);
    }
}

struct Nodes<'t>(&'t Table, usize, Option<&'t str>);

impl Takes<LeanPod> for Nodes<'_> {
    fn begin(&self) -> u64 {
        self.0.begin()
    }

    fn take(&self, pod: LeanPod, tell: bool) {
        self.0.take(pod, tell);
    }

    fn drop(&self, pod: LeanPod) {
        self.0.drop_pod(pod);
    }

    fn complete(&self, begun: u64) {
        self.0.complete(self.1, self.2, begun);
    }
}

struct Objects<'s>(&'s Sites, &'s Watch, &'static Watched);

impl Takes<DynamicObject> for Objects<'_> {
    fn begin(&self) -> u64 {
        self.0.begin()
    }

    fn take(&self, object: DynamicObject, tell: bool) {
        self.0.take_object(self.2, &plain(object), tell);
    }

    fn drop(&self, object: DynamicObject) {
        self.0.drop_object(self.2, &plain(object));
    }

    fn complete(&self, begun: u64) {
        self.0.complete(self.1, begun);
    }
}

struct Events<'h, F>(&'h Happenings, F);

impl<F: Fn(&str)> Takes<LeanEvent> for Events<'_, F> {
    fn begin(&self) -> u64 {
        0
    }

    fn take(&self, event: LeanEvent, tell: bool) {
        if let Some(about) = self.0.take(event).filter(|_| tell) {
            self.1(&about);
        }
    }

    fn drop(&self, event: LeanEvent) {
        self.0.forget(&event);
    }

    fn complete(&self, _: u64) {}
}

/// An object as plain JSON, without what nobody reads.
pub(crate) fn plain(mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).unwrap_or_default()
}

async fn take_in<K>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    takes: &(impl Takes<K> + Sync),
) -> Ended
where
    K: Resource + DeserializeOwned + Clone + Debug + Send + 'static,
{
    let mut events = std::pin::pin!(events);
    let mut told_all = false;
    let mut begun = takes.begin();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => begun = takes.begin(),
            Ok(Event::InitApply(thing)) => takes.take(thing, false),
            Ok(Event::InitDone) => {
                takes.complete(begun);
                told_all = true;
            }
            Ok(Event::Apply(thing)) => takes.take(thing, true),
            Ok(Event::Delete(thing)) => takes.drop(thing),
            Err(error) => return Ended { why: refusal::of_watch(error), told_all },
        }
    }
    Ended { why: "the watch ended".to_owned(), told_all }
}
