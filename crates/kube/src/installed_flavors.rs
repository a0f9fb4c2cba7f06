//! The flavors that are installed, by the custom resource definitions of the API server, each with its watches.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use muster_core::backoff::Backoff;
use muster_core::cluster::Framework;
use muster_core::time::TimeSpan;
use muster_engine::ports::provider::WorldChange;
use muster_frameworks::kubernetes::{Flavor, ObjectRole, ResourceKind, WatchedKind, flavors};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cluster_cache::{ClusterCache, FlavorWatch, ObjectSink, PodSink, WatchTarget};
use crate::cluster_identity::IdentityGate;
use crate::errors;
use crate::event_cache::{EventCache, EventSink};
use crate::watches::{self, typed_api, untyped_api};

/// The pause before definitions are watched again after a failure.
const BACKOFF: Backoff = Backoff { first: TimeSpan::from_secs(2), longest: TimeSpan::from_secs(10) };

/// The pause between two discovery requests, for accounts that may not watch definitions.
const DISCOVERY_PERIOD: Duration = Duration::from_mins(1);

/// The installed flavors and their caches.
pub(crate) struct InstalledFlavors {
    client: Client,
    namespaces: Vec<String>,
    changes: broadcast::Sender<WorldChange>,
    watched: RwLock<HashMap<FlavorId, WatchedFlavor>>,
    pub(crate) events: Arc<EventCache>,
    /// True once the installed flavors are known.
    known: watch::Sender<bool>,
    /// The error that definitions cannot be watched for; none since they could be watched.
    last_error: Mutex<Option<String>>,
}

/// A flavor's name and framework.
type FlavorId = (&'static str, Framework);

struct WatchedFlavor {
    cache: Arc<ClusterCache>,
    /// The kinds of the flavor that are defined.
    kinds: Vec<&'static WatchedKind>,
    _stop: DropGuard,
}

impl InstalledFlavors {
    pub(crate) fn new(
        client: Client,
        namespaces: Vec<String>,
        changes: broadcast::Sender<WorldChange>,
    ) -> Self {
        let (watched, known) = (RwLock::default(), watch::Sender::new(false));
        Self {
            client,
            namespaces,
            changes,
            watched,
            events: Arc::default(),
            known,
            last_error: Mutex::default(),
        }
    }

    /// Returns the cache of a flavor, if it is installed.
    pub(crate) fn cache(&self, flavor: &dyn Flavor) -> Option<Arc<ClusterCache>> {
        let watched = self.watched.read();
        watched.get(&flavor_id(flavor)).map(|watched| Arc::clone(&watched.cache))
    }

    /// Returns the caches of all installed flavors.
    pub(crate) fn all(&self) -> Vec<Arc<ClusterCache>> {
        let watched = self.watched.read();
        watched.values().map(|watched| Arc::clone(&watched.cache)).collect()
    }

    /// Waits until the installed flavors are known; there may be none.
    pub(crate) async fn wait_until_known(&self) {
        // `self` owns the sender, so the wait does not end without a value.
        drop(self.known.subscribe().wait_for(|known| *known).await);
    }

    /// Returns true if the installed flavors are known.
    pub(crate) fn is_known(&self) -> bool {
        *self.known.borrow()
    }

    /// Returns an error with the reason while the installed flavors are not known.
    pub(crate) fn readiness(&self) -> Result<(), String> {
        if self.is_known() {
            return Ok(());
        }
        let error = self.last_error.lock().clone();
        let why = error.map(|why| format!(": {why}")).unwrap_or_default();
        Err(format!("the installed operators are not known yet{why}"))
    }

    /// Records why definitions cannot be watched, and logs it as a warning if it is new. An interruption is no warning.
    fn record_failure(&self, failure: WatchFailure, discovered: bool) {
        let is_interruption = failure.is_interruption();
        let WatchFailure { why, is_forbidden, .. } = failure;
        let mut last_error = self.last_error.lock();
        if is_interruption || last_error.as_ref() == Some(&why) {
            tracing::debug!(why, discovered, "cannot watch custom resource definitions");
        } else if !discovered {
            tracing::warn!(why, "cannot discover the installed operators");
        } else if is_forbidden {
            let period = DISCOVERY_PERIOD.as_secs();
            tracing::warn!(
                why,
                "cannot watch custom resource definitions: installed operators are discovered every {period} s instead"
            );
        } else {
            tracing::warn!(why, "cannot watch custom resource definitions: the watch is retried");
        }
        *last_error = (!is_interruption).then_some(why);
    }

    /// Watches events, and notifies subscribers of the clusters that they are about.
    pub(crate) fn watch_events(self: &Arc<Self>, identity_gate: &IdentityGate, stop: &CancellationToken) {
        for (watch, namespace) in watch_scopes(&self.namespaces).into_iter().enumerate() {
            let installed = Arc::downgrade(self);
            let notify = move |uid: &str| {
                if let Some(installed) = installed.upgrade() {
                    installed.all().iter().for_each(|cache| cache.notify_event_about(uid));
                }
            };
            let sink = EventSink { events: Arc::clone(&self.events), watch, notify };
            let api = typed_api(self.client.clone(), namespace.as_deref());
            let watch = watches::run_watch(api, "", sink, stop.clone());
            tokio::spawn(identity_gate.clone().run_once_confirmed(watch, stop.clone()));
        }
    }

    /// Watches definitions until `stop` is cancelled; where that is not possible, discovers kinds periodically.
    pub(crate) async fn watch_definitions(&self, stop: CancellationToken) {
        let mut failures = 0;
        while !stop.is_cancelled() {
            let failure = stop.run_until_cancelled(self.watch_until_failure()).await;
            let Some(failure) = failure else { return };
            failures = if failure.was_synced { 1 } else { failures + 1 };
            let discovered = !failure.is_interruption() && self.discover_kinds().await;
            let pause = failure.pause(discovered, failures);
            self.record_failure(failure, discovered);
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    /// Updates the installed flavors by a discovery request, which accounts without rights on definitions may send too.
    /// Returns true if the API server answered.
    async fn discover_kinds(&self) -> bool {
        let mut names = BTreeSet::new();
        for kind in flavors().iter().flat_map(|flavor| flavor.watched_kinds()).map(|watched| watched.kind) {
            if is_built_in(kind) || names.contains(&kind.qualified()) {
                continue;
            }
            match self.client.list_api_group_resources(&kind.api_version()).await {
                Ok(served) if served.resources.iter().any(|served| served.name == kind.plural) => {
                    names.insert(kind.qualified());
                }
                Err(error) if !errors::has_status(&error, 404) => return false,
                Ok(_) | Err(_) => {}
            }
        }
        // For a moment after its definition was created, a kind may not be served. A known flavor is therefore never
        // removed by a discovery.
        let known: Vec<Arc<ClusterCache>> = self.all();
        names.extend(
            known
                .iter()
                .flat_map(|cache| cache.flavor.watched_kinds())
                .map(|watched| watched.kind.qualified()),
        );
        self.update(&names);
        true
    }

    /// Watches definitions, and returns the failure that ends the watch.
    async fn watch_until_failure(&self) -> WatchFailure {
        let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(self.client.clone());
        let config = watcher::Config::default().timeout(watches::WATCH_SECONDS);
        let mut events = std::pin::pin!(watcher::watcher(definitions, config));
        let mut names = BTreeSet::new();
        let mut was_synced = false;
        while let Some(event) = events.next().await {
            let name = |definition: PartialObjectMeta<CustomResourceDefinition>| {
                definition.metadata.name.unwrap_or_default()
            };
            match event {
                Ok(Event::Init) => names.clear(),
                Ok(Event::InitApply(definition) | Event::Apply(definition)) => {
                    names.insert(name(definition));
                }
                Ok(Event::InitDone) => was_synced = true,
                Ok(Event::Delete(definition)) => {
                    names.remove(&name(definition));
                }
                Err(error) => {
                    let is_forbidden = errors::is_forbidden(&error);
                    return WatchFailure {
                        why: errors::watch_error_message(error),
                        is_forbidden,
                        was_synced,
                    };
                }
            }
            if was_synced {
                self.update(&names);
            }
        }
        WatchFailure { why: "the watch ended".to_owned(), is_forbidden: false, was_synced }
    }

    /// Starts the watches of flavors that are defined now, and stops those of flavors that are not defined any more.
    fn update(&self, definitions: &BTreeSet<String>) {
        let is_defined = |watched: &WatchedKind| {
            is_built_in(watched.kind) || definitions.contains(&watched.kind.qualified())
        };
        let of = |flavor: &&'static dyn Flavor| {
            let defined: Vec<&'static WatchedKind> =
                flavor.watched_kinds().iter().filter(|watched| is_defined(watched)).collect();
            let has_root = defined.iter().any(|watched| watched.role == ObjectRole::Root);
            has_root.then_some((flavor_id(*flavor), (*flavor, defined)))
        };
        let installed: HashMap<FlavorId, (&'static dyn Flavor, Vec<&'static WatchedKind>)> =
            flavors().iter().filter_map(of).collect();
        let changed = {
            let mut watched = self.watched.write();
            let before = watched.len();
            // A flavor with some of its kinds is watched, and restarted when another one is defined.
            watched.retain(|id, known| installed.get(id).is_some_and(|(_, defined)| *defined == known.kinds));
            let mut changed = watched.len() != before;
            for (id, (flavor, defined)) in installed {
                watched.entry(id).or_insert_with(|| {
                    changed = true;
                    tracing::info!(flavor = flavor.name(), framework = %flavor.framework(), "watching a flavor");
                    self.start_watches(flavor, defined)
                });
            }
            changed
        };
        self.known.send_replace(true);
        if changed {
            // Without a subscriber the change is lost, which does no harm: a new subscriber observes everything.
            drop(self.changes.send(WorldChange::Everything));
        }
    }

    fn start_watches(&self, flavor: &'static dyn Flavor, kinds: Vec<&'static WatchedKind>) -> WatchedFlavor {
        let watches = flavor_watches(&kinds, &self.namespaces);
        let cache = Arc::new(ClusterCache::new(flavor, &watches, self.changes.clone()));
        let stop = CancellationToken::new();
        for watch in watches {
            let (cache, stop, client) = (Arc::clone(&cache), stop.clone(), self.client.clone());
            let namespace = watch.namespace.clone();
            match watch.target {
                WatchTarget::Pods => {
                    let api = typed_api(client, namespace.as_deref());
                    tokio::spawn(watches::run_watch(
                        api,
                        flavor.pod_selector(),
                        PodSink { cache, watch },
                        stop,
                    ));
                }
                WatchTarget::Objects(watched) => {
                    let api = untyped_api(client, watched.kind, namespace.as_deref());
                    tokio::spawn(watches::run_watch(
                        api,
                        watched.selector,
                        ObjectSink { cache, watch, watched },
                        stop,
                    ));
                }
            }
        }
        WatchedFlavor { cache, kinds, _stop: stop.drop_guard() }
    }
}

/// The failure that ended a watch of definitions.
struct WatchFailure {
    why: String,
    /// True if the server's account may not watch definitions.
    is_forbidden: bool,
    /// True if the watch had listed all definitions.
    was_synced: bool,
}

impl WatchFailure {
    /// Returns true if the watch worked, and need only be restarted.
    const fn is_interruption(&self) -> bool {
        self.was_synced && !self.is_forbidden
    }

    /// Returns the pause until the next watch: only an account without rights relies on discovery.
    fn pause(&self, discovered: bool, failures: u32) -> Duration {
        if self.is_forbidden && discovered {
            DISCOVERY_PERIOD
        } else {
            BACKOFF.delay(failures, fastrand::f64()).into()
        }
    }
}

fn flavor_id(flavor: &dyn Flavor) -> FlavorId {
    (flavor.name(), flavor.framework())
}

/// Returns true if a kind is built into Kubernetes, so that no definition of it exists.
pub(crate) fn is_built_in(kind: &ResourceKind) -> bool {
    matches!(kind.group, "" | "apps" | "batch")
}

/// Returns the scope of each watch: each of these namespaces or, if none is given, `None` for a watch of all
/// namespaces.
pub(crate) fn watch_scopes(namespaces: &[String]) -> Vec<Option<String>> {
    if namespaces.is_empty() { vec![None] } else { namespaces.iter().cloned().map(Some).collect() }
}

/// Returns the watches of a flavor with these kinds, in all namespaces or in each of these.
fn flavor_watches(kinds: &[&'static WatchedKind], namespaces: &[String]) -> Vec<FlavorWatch> {
    let targets = || kinds.iter().copied().map(WatchTarget::Objects).chain([WatchTarget::Pods]);
    let scopes = watch_scopes(namespaces).into_iter();
    let watches = scopes.flat_map(|namespace| targets().map(move |target| (target, namespace.clone())));
    watches.enumerate().map(|(index, (target, namespace))| FlavorWatch { index, target, namespace }).collect()
}

#[cfg(test)]
mod tests {
    use muster_testkit::outside::Outside;
    use rstest::rstest;

    use super::*;

    fn failure(is_forbidden: bool, was_synced: bool) -> WatchFailure {
        WatchFailure { why: "why".to_owned(), is_forbidden, was_synced }
    }

    #[rstest]
    #[case::interrupted(&failure(false, true), false, false)]
    #[case::transient(&failure(false, false), true, false)]
    #[case::without_rights(&failure(true, false), true, true)]
    #[case::may_list_but_not_watch(&failure(true, true), true, true)]
    #[case::without_any_answer(&failure(true, false), false, false)]
    fn only_an_account_without_rights_leaves_definitions_unwatched_until_the_next_discovery(
        #[case] failure: &WatchFailure,
        #[case] discovered: bool,
        #[case] waits: bool,
    ) {
        let pause = failure.pause(discovered, 1);
        assert_eq!(pause == DISCOVERY_PERIOD, waits, "{pause:?}");
        assert!(waits || pause <= Duration::from(BACKOFF.first), "{pause:?}");
    }

    #[tokio::test]
    async fn an_error_is_recorded_until_definitions_can_be_watched() {
        let client = crate::sample::client(&Outside::start(500, "").await);
        let installed = InstalledFlavors::new(client, Vec::new(), broadcast::channel(1).0);
        installed.record_failure(failure(false, false), false);
        assert!(installed.readiness().expect_err("nothing is known").ends_with(": why"));
        installed.record_failure(failure(false, true), false);
        assert_eq!(*installed.last_error.lock(), None, "the watch had listed all definitions");
    }
}
