//! Which flavors are there: found out from the API server, and again whenever definitions come or go.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use muster_core::cluster::Framework;
use muster_engine::ports::provider::WorldChange;
use muster_frameworks::kubernetes::{Flavor, Kind, Part, Watched, flavors};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::follow::{self, api_in, api_of};
use crate::happenings::{Happenings, Heralds};
use crate::refusal;
use crate::sites::{Objects, Of, Pods, Sites, Watch};
use crate::which::Certain;

/// After a failure definitions are listed anew.
const PAUSE: Duration = Duration::from_secs(2);

/// Where the API server tells only when it is asked, it is asked so often.
const LONG_PAUSE: Duration = Duration::from_mins(1);

/// The flavors that are there, each followed.
pub(crate) struct Installed {
    client: Client,
    namespaces: Vec<String>,
    changes: broadcast::Sender<WorldChange>,
    followed: RwLock<HashMap<Id, Followed>>,
    pub(crate) happenings: Arc<Happenings>,
    /// Whether it is known by now what is there.
    known: watch::Sender<bool>,
    /// Why it cannot be followed what is there.
    trouble: Mutex<Option<String>>,
}

/// A flavor of a framework.
type Id = (&'static str, Framework);

struct Followed {
    sites: Arc<Sites>,
    defined: Vec<&'static Watched>,
    _stop: DropGuard,
}

impl Installed {
    pub(crate) fn new(
        client: Client,
        namespaces: Vec<String>,
        changes: broadcast::Sender<WorldChange>,
    ) -> Self {
        let (followed, known) = (RwLock::default(), watch::Sender::new(false));
        Self {
            client,
            namespaces,
            changes,
            followed,
            happenings: Arc::default(),
            known,
            trouble: Mutex::default(),
        }
    }

    /// What is followed of a flavor, if it is there.
    pub(crate) fn sites(&self, flavor: &dyn Flavor) -> Option<Arc<Sites>> {
        let followed = self.followed.read();
        followed.get(&id(flavor)).map(|followed| Arc::clone(&followed.sites))
    }

    /// All that are there.
    pub(crate) fn all(&self) -> Vec<Arc<Sites>> {
        let followed = self.followed.read();
        followed.values().map(|followed| Arc::clone(&followed.sites)).collect()
    }

    /// Waits until it is known what is there; the answer may be that nothing is.
    pub(crate) async fn known(&self) {
        // The sender lives as long as this.
        drop(self.known.subscribe().wait_for(|known| *known).await);
    }

    /// Whether it is known by now what is there.
    pub(crate) fn is_known(&self) -> bool {
        *self.known.borrow()
    }

    /// Whether it is known by now what is there; the sentence says why not.
    pub(crate) fn readiness(&self) -> Result<(), String> {
        if self.is_known() {
            return Ok(());
        }
        let trouble = self.trouble.lock().clone();
        let why = trouble.map(|why| format!(": {why}")).unwrap_or_default();
        Err(format!("it is not known yet which operators this Kubernetes has{why}"))
    }

    /// Tells of what keeps it from being followed what is there: aloud when that is new.
    fn tell_trouble(&self, why: String, asked: bool) {
        let mut trouble = self.trouble.lock();
        if trouble.as_ref() == Some(&why) {
            tracing::debug!(why, asked, "cannot follow which operators are installed");
            return;
        }
        let pause = LONG_PAUSE.as_secs();
        if asked {
            tracing::warn!(
                why,
                "cannot follow which operators are installed: it is asked every {pause} s instead"
            );
        } else {
            tracing::warn!(why, "cannot tell which operators are installed");
        }
        *trouble = Some(why);
    }

    /// Follows what Kubernetes tells of objects, and tells on which clusters that is about.
    pub(crate) fn follow_events(self: &Arc<Self>, certain: &Certain, stop: &CancellationToken) {
        for namespace in places(&self.namespaces) {
            let installed = Arc::downgrade(self);
            let tell = move |uid: &str| {
                if let Some(installed) = installed.upgrade() {
                    installed.all().iter().for_each(|sites| sites.tell_about(uid));
                }
            };
            let heralds = Heralds { happenings: Arc::clone(&self.happenings), tell };
            let api = api_in(self.client.clone(), namespace.as_deref());
            let follow = follow::run(api, "", heralds, stop.clone());
            tokio::spawn(certain.clone().then(follow, stop.clone()));
        }
    }

    /// Follows the definitions until it is told to stop.
    pub(crate) async fn run(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let why = stop.run_until_cancelled(self.follow()).await;
            let Some(why) = why else { return };
            let asked = self.ask().await;
            let pause = if asked { LONG_PAUSE } else { PAUSE };
            self.tell_trouble(why, asked);
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    /// Asks which kinds the API server serves: whoever may not list definitions may ask that. Whether it answered.
    async fn ask(&self) -> bool {
        let mut names = BTreeSet::new();
        for kind in flavors().iter().flat_map(|flavor| flavor.watched()).map(|watched| watched.kind) {
            if is_built_in(kind) || names.contains(&kind.qualified()) {
                continue;
            }
            match self.client.list_api_group_resources(&kind.api_version()).await {
                Ok(served) if served.resources.iter().any(|served| served.name == kind.plural) => {
                    names.insert(kind.qualified());
                }
                Err(error) if !refusal::is(&error, 404) => return false,
                Ok(_) | Err(_) => {}
            }
        }
        // What is not served may only not be served yet: nothing is let go because of that.
        let known: Vec<Arc<Sites>> = self.all();
        names.extend(
            known.iter().flat_map(|sites| sites.flavor.watched()).map(|watched| watched.kind.qualified()),
        );
        self.set(&names);
        true
    }

    async fn follow(&self) -> String {
        let definitions: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(self.client.clone());
        let config = watcher::Config::default().timeout(follow::WATCH_SECONDS);
        let mut events = std::pin::pin!(watcher::watcher(definitions, config));
        let mut names = BTreeSet::new();
        let mut told_all = false;
        while let Some(event) = events.next().await {
            let name = |definition: PartialObjectMeta<CustomResourceDefinition>| {
                definition.metadata.name.unwrap_or_default()
            };
            match event {
                Ok(Event::Init) => names.clear(),
                Ok(Event::InitApply(definition) | Event::Apply(definition)) => {
                    names.insert(name(definition));
                }
                Ok(Event::InitDone) => told_all = true,
                Ok(Event::Delete(definition)) => {
                    names.remove(&name(definition));
                }
                Err(error) => return refusal::of_watch(error),
            }
            if told_all {
                self.set(&names);
            }
        }
        "the watch ended".to_owned()
    }

    /// Follows what is there now, and lets go what is not any more.
    fn set(&self, definitions: &BTreeSet<String>) {
        let is_defined =
            |watched: &Watched| is_built_in(watched.kind) || definitions.contains(&watched.kind.qualified());
        let of = |flavor: &&'static dyn Flavor| {
            let defined: Vec<&'static Watched> =
                flavor.watched().iter().filter(|watched| is_defined(watched)).collect();
            let rooted = defined.iter().any(|watched| watched.part == Part::Root);
            rooted.then_some((id(*flavor), (*flavor, defined)))
        };
        let there: HashMap<Id, (&'static dyn Flavor, Vec<&'static Watched>)> =
            flavors().iter().filter_map(of).collect();
        let changed = {
            let mut followed = self.followed.write();
            let before = followed.len();
            // What is defined in part is followed in part, and anew when more of it comes.
            followed.retain(|id, known| there.get(id).is_some_and(|(_, defined)| *defined == known.defined));
            let mut changed = followed.len() != before;
            for (id, (flavor, defined)) in there {
                followed.entry(id).or_insert_with(|| {
                    changed = true;
                    tracing::info!(flavor = flavor.name(), framework = %flavor.framework(), "follows what is there");
                    self.begin(flavor, defined)
                });
            }
            changed
        };
        self.known.send_replace(true);
        if changed {
            // Nobody may be listening; whoever looks will see.
            drop(self.changes.send(WorldChange::Everything));
        }
    }

    fn begin(&self, flavor: &'static dyn Flavor, defined: Vec<&'static Watched>) -> Followed {
        let watches = watches(&defined, &self.namespaces);
        let sites = Arc::new(Sites::new(flavor, &watches, self.changes.clone()));
        let stop = CancellationToken::new();
        for watch in watches {
            let (sites, stop, client) = (Arc::clone(&sites), stop.clone(), self.client.clone());
            let namespace = watch.namespace.clone();
            match watch.of {
                Of::Pods => {
                    let api = api_in(client, namespace.as_deref());
                    tokio::spawn(follow::run(api, flavor.pods(), Pods { sites, watch }, stop));
                }
                Of::Objects(watched) => {
                    let api = api_of(client, watched.kind, namespace.as_deref());
                    tokio::spawn(follow::run(api, watched.selector, Objects { sites, watch, watched }, stop));
                }
            }
        }
        Followed { sites, defined, _stop: stop.drop_guard() }
    }
}

fn id(flavor: &dyn Flavor) -> Id {
    (flavor.name(), flavor.framework())
}

/// Whether every Kubernetes has a kind, so that nobody defines it.
fn is_built_in(kind: &Kind) -> bool {
    matches!(kind.group, "" | "apps" | "batch")
}

/// Everywhere, or in each of these namespaces.
pub(crate) fn places(namespaces: &[String]) -> Vec<Option<String>> {
    if namespaces.is_empty() { vec![None] } else { namespaces.iter().cloned().map(Some).collect() }
}

/// What is watched for a flavor, everywhere or in these namespaces.
fn watches(defined: &[&'static Watched], namespaces: &[String]) -> Vec<Watch> {
    let of = || defined.iter().copied().map(Of::Objects).chain([Of::Pods]);
    let each =
        places(namespaces).into_iter().flat_map(|namespace| of().map(move |of| (of, namespace.clone())));
    each.enumerate().map(|(index, (of, namespace))| Watch { index, of, namespace }).collect()
}
