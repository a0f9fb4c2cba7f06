//! Clusters whose members operators make.

mod current_site;
mod parts;
mod stand;
mod steps;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use kube::Client;
use muster_core::cluster::{Cluster, Framework};
use muster_core::ids::{ClusterId, InstanceId};
use muster_core::limits::Activity;
use muster_core::node::{Node, NodeRole, Observation};
use muster_core::profile::{Profile, ProfileType};
use muster_core::recipe::ClusterRecipe;
use muster_core::restart::HEAD_GRACE;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_engine::ports::keyed_lock::KeyedLock;
use muster_engine::ports::provider::{
    Capabilities, ClusterTarget, DiscoveredCluster, FencedCall, INVALID, LogQuery, MemberId, Membership,
    ObjectState, Observed, OperatorCapabilities, OperatorProvider, Provider, ProviderError, Unobserved,
    WorldChange,
};
use muster_framework_client::{FrameworkClient, FrameworkRequestError};
use muster_frameworks::kubernetes::{Flavor, Plan, flavors_of};
use muster_frameworks::{self as frameworks, Contact, Secret};
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::apps::write_mark;
use crate::connect::{Connection, Options};
use crate::describe;
use crate::details::details;
use crate::facts::PodFacts;
use crate::installed::Installed;
use crate::labels;
use crate::logs::{self, LastWords, Lines};
use crate::marks;
use crate::namespaces::Namespaces;
use crate::observe::{self, Others};
use crate::sites::{Key, Site};
use crate::stored_configs::check_spark_config;
use crate::which::Certain;
use crate::write::{Deleted, Writer};
use stand::{NO_OPERATOR, Stand, not_installed};
use steps::{relabelled, resized};

/// How long a request waits for a server that has just started to know what is there.
const PATIENCE: Duration = Duration::from_secs(5);

/// Clusters whose members operators make, by objects of the flavors that are there.
pub(crate) struct Operated {
    instance: InstanceId,
    certain: Certain,
    installed: Arc<Installed>,
    namespaces: Arc<Namespaces>,
    writer: Writer,
    client: Client,
    last_words: LastWords,
    framework_client: FrameworkClient,
    /// Held while an object of a cluster is being created.
    creations: Arc<KeyedLock<Key>>,
    changes: broadcast::Sender<WorldChange>,
}

impl Operated {
    /// Follows them until it is told to stop.
    pub(crate) fn follow(
        connection: &Connection,
        options: Options,
        namespaces: Arc<Namespaces>,
        changes: broadcast::Sender<WorldChange>,
        stop: &CancellationToken,
    ) -> Self {
        let Connection { client, watch_client, instance, certain, fences, .. } = connection;
        let installed = Arc::new(Installed::new(watch_client.clone(), options.namespaces, changes.clone()));
        let (follows, token) = (Arc::clone(&installed), stop.clone());
        let follow = async move { follows.run(token).await };
        tokio::spawn(certain.clone().then(follow, stop.clone()));
        installed.follow_events(certain, stop);
        let (client, instance, certain) = (client.clone(), instance.clone(), certain.clone());
        let writer = Writer::new(client.clone(), fences.clone());
        let framework_client = FrameworkClient::new(options.names);
        let last_words = LastWords::default();
        Self {
            instance,
            certain,
            installed,
            namespaces,
            writer,
            client,
            last_words,
            framework_client,
            creations: Arc::default(),
            changes,
        }
    }

    /// The flavor of a cluster: the one that it says, or the first of its framework.
    fn flavor(framework: Framework, named: Option<&str>) -> Option<&'static dyn Flavor> {
        flavors_of(framework).find(|flavor| named.is_none_or(|name| flavor.name() == name))
    }

    /// What stands for a cluster.
    fn stand(&self, cluster: &Cluster) -> Result<Stand, ProviderError> {
        let framework =
            cluster.framework.and_then(|framework| Self::flavor(framework, cluster.flavor.as_deref()));
        let Some(flavor) = framework else {
            let message = format!("clusters of type {} do not stand on Kubernetes", cluster.profile_type);
            return Err(ProviderError::permanent("NotSupported", message));
        };
        self.certain.check()?;
        if !self.installed.is_known() {
            return Err(ProviderError::not_yet("it is not known yet which operators are installed"));
        }
        self.namespaces.check_served(&cluster.namespace)?;
        let sites = self.installed.sites(flavor).ok_or_else(|| not_installed(flavor))?;
        let key = Key { namespace: cluster.namespace.clone(), name: cluster.object_name.clone() };
        Ok(Stand { flavor, sites, key })
    }
}

impl Operated {
    /// Has the last words read of containers that keep dying; whoever looks next sees them.
    fn ask_for_last_words(&self, stand: &Stand, site: &Site, cluster: ClusterId) {
        for pod in site.pods() {
            let Some(crashed) = &pod.crashed else { continue };
            let changes = self.changes.clone();
            // Nobody may be listening; whoever looks will see.
            let told = move || drop(changes.send(WorldChange::Cluster(cluster)));
            let namespace = &stand.key.namespace;
            self.last_words.ask(self.client.clone(), namespace, &pod.name, &pod.uid, crashed, told);
        }
    }
}

impl Operated {
    /// The framework's own token of a cluster, if it has one.
    async fn token(&self, stand: &Stand) -> Result<Option<String>, ProviderError> {
        match stand.flavor.token(&stand.key.name) {
            Some((secret, key)) => self.writer.secret(&stand.key.namespace, &secret, key).await,
            None => Ok(None),
        }
    }
}

/// The framework whose clusters are of this type.
fn framework_of(kind: &ProfileType) -> Option<Framework> {
    let framework = kind.name.strip_suffix(".cluster").filter(|_| kind.version == "1.0")?;
    framework.parse().ok()
}

fn invalid(why: String) -> ProviderError {
    ProviderError::permanent(INVALID, why)
}

fn recipe_of(cluster: &Cluster, profile: &Profile) -> Result<ClusterRecipe, ProviderError> {
    ClusterRecipe::of_cluster(cluster, profile).map_err(invalid)
}

#[async_trait]
impl Provider for Operated {
    fn instance(&self) -> &InstanceId {
        &self.instance
    }

    fn capabilities(&self, kind: &ProfileType, flavor: Option<&str>) -> Option<Capabilities> {
        let flavor = Self::flavor(framework_of(kind)?, flavor)?;
        let able = flavor.abilities();
        Some(Capabilities {
            membership: Membership::Delegated(OperatorCapabilities {
                replaces_head: true,
                rolls: able.rolls,
            }),
            head: true,
            workers_outlive_head: able.workers_outlive_head,
            several_groups: able.several_groups,
            orphans: false,
            choose_victims: able.choose_victims,
            update_in_place: true,
            heals_by_default: false,
            adopt: false,
            // As far as its head can be reached from here; where it cannot, nobody can tell, and it counts as used.
            reports_activity: true,
            supports_placement: false,
            reports_machines: false,
        })
    }

    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        let recipe = ClusterRecipe::from_request(&profile.properties)?;
        framework_of(&profile.kind).map_or(Ok(()), |framework| recipe.check_framework(framework))
    }

    fn readiness(&self) -> Result<(), String> {
        // One that is away keeps nobody from using what is elsewhere.
        if self.certain.check().is_err() { Ok(()) } else { self.installed.readiness() }
    }

    fn unobserved(&self) -> Vec<Unobserved> {
        self.installed.all().iter().flat_map(|sites| sites.unobserved()).collect()
    }

    fn default_flavor(&self, kind: &ProfileType) -> Option<String> {
        let able: Vec<&dyn Flavor> =
            flavors_of(framework_of(kind)?).filter(|flavor| flavor.abilities().create).collect();
        // One that is there; where none is, the usual one, whose operator is then missed by name.
        let there = able.iter().find(|flavor| self.installed.sites(**flavor).is_some());
        there.or(able.first()).map(|flavor| flavor.name().to_owned())
    }

    async fn admit(&self, profile: &Profile, named: Option<&str>) -> Result<(), ProviderError> {
        self.certain.check()?;
        if tokio::time::timeout(PATIENCE, self.installed.known()).await.is_err() {
            let message = "Kubernetes has not said yet which operators are installed";
            return Err(ProviderError::not_yet(message));
        }
        let Some(framework) = framework_of(&profile.kind) else { return Ok(()) };
        let Some(flavor) = Self::flavor(framework, named) else {
            let known: Vec<&str> = flavors_of(framework).map(Flavor::name).collect();
            let message = format!(
                "there is no flavor '{}' of {framework}: there is {}",
                named.unwrap_or_default(),
                known.join(", ")
            );
            return Err(ProviderError::permanent("NoFlavor", message));
        };
        if !flavor.abilities().create {
            let message =
                format!("clusters of flavor {} are not made by Muster: it only finds them", flavor.name());
            return Err(ProviderError::permanent("NotSupported", message));
        }
        self.installed.sites(flavor).map(drop).ok_or_else(|| not_installed(flavor))
    }

    fn check_cluster(&self, cluster: &Cluster) -> Result<(), String> {
        labels::check(&cluster.labels, &cluster.annotations)
    }

    async fn admit_cluster(&self, cluster: &Cluster, profile: &Profile) -> Result<(), ProviderError> {
        let stand = self.stand(cluster)?;
        stand.check_name()?;
        let recipe = recipe_of(cluster, profile)?;
        // Operators make pods of whatever they are told, and then cannot.
        let groups = cluster.groups.iter().map(|group| recipe.workers(Some(group)));
        for node in std::iter::once(recipe.head()).chain(groups) {
            labels::check(&node.pod.labels, &node.pod.annotations).map_err(invalid)?;
            labels::check_name("service account", node.pod.service_account.as_ref()).map_err(invalid)?;
            labels::check_name("secret", node.pod.image_pull_secret.as_ref()).map_err(invalid)?;
        }
        stand.flavor.check(Plan { cluster, recipe: &recipe }).map_err(invalid)?;
        self.namespaces.check(&cluster.namespace).await?;
        for map in recipe.spark.config_maps() {
            check_spark_config(&self.client, &cluster.namespace, map).await?;
        }
        Ok(())
    }

    async fn admit_update(
        &self,
        ClusterTarget { cluster, profile }: ClusterTarget<'_>,
        before: &Cluster,
    ) -> Result<(), ProviderError> {
        let framework =
            cluster.framework.and_then(|framework| Self::flavor(framework, cluster.flavor.as_deref()));
        let Some(flavor) = framework else { return Ok(()) };
        let (present, recipe) = (recipe_of(before, profile)?, recipe_of(cluster, profile)?);
        let (was, plan) = (Plan { cluster: before, recipe: &present }, Plan { cluster, recipe: &recipe });
        flavor.check_remake(was, plan).map_err(invalid)
    }

    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let stand = match self.stand(target.cluster) {
            // Where a kind is not defined nothing of it is there.
            Err(error) if error.reason == NO_OPERATOR => {
                return Ok(Observed { object: ObjectState::Absent, ..Observed::default() });
            }
            stand => stand?,
        };
        let site = self.current_site(&stand, target.cluster, nodes).await?;
        self.ask_for_last_words(&stand, &site, target.cluster.id);
        let content = self.changed_content(&stand, &site, target.cluster).await?;
        let others = Others {
            fences: &self.writer.fences,
            heard: &|uid| self.installed.happenings.of(uid),
            last_words: &|uid| self.last_words.of(uid),
            now: SystemClock.now(),
        };
        let mut observed = observe::observed(stand.flavor, &stand.key, &site, target.cluster, &others);
        if let ObjectState::Present(spec) = &mut observed.object {
            spec.content = content.map(Box::new);
        }
        Ok(observed)
    }

    async fn details(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
    ) -> Result<Map<String, Value>, ProviderError> {
        let stand = self.stand(target.cluster)?;
        let site = stand.look()?;
        let Some(pod) = site.pod(&node.name) else { return Ok(Map::new()) };
        let (namespace, image) = (stand.key.namespace.clone(), pod.made_from.image.clone());
        Ok(details(pod.name.clone(), namespace, pod.machine.clone(), image))
    }

    async fn logs(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
        query: LogQuery,
    ) -> Result<Lines, ProviderError> {
        let stand = self.stand(target.cluster)?;
        let site = stand.look()?;
        let Some(pod) = site.pod(&node.name) else {
            let message = format!("there is no pod '{}/{}' any more", stand.key.namespace, node.name);
            return Err(ProviderError::permanent("NoLogs", message));
        };
        let writer = logs::Writer {
            namespace: &stand.key.namespace,
            pod: &pod.name,
            container: &pod.container,
            machine: pod.machine.as_deref(),
            reason: &pod.reason,
        };
        logs::read(self.client.clone(), writer, query).await
    }

    async fn environment(
        &self,
        target: ClusterTarget<'_>,
    ) -> Result<BTreeMap<String, String>, ProviderError> {
        let stand = self.stand(target.cluster)?;
        let endpoints = stand.flavor.endpoints(&stand.key.namespace, &stand.key.name);
        let token = self.token(&stand).await?;
        Ok(stand.flavor.environment(&endpoints, token.as_deref()))
    }

    async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        let stand = self.stand(target.cluster)?;
        let head_works = |pod: &PodFacts| {
            pod.member.role == NodeRole::Head && matches!(pod.seen, Observation::Running { .. })
        };
        let Some(framework) = frameworks::local(stand.flavor.framework()) else {
            return Ok(Activity::Unknown);
        };
        if !stand.look()?.pods().any(head_works) {
            return Ok(Activity::Unknown);
        }
        let endpoints = stand.flavor.endpoints(&stand.key.namespace, &stand.key.name);
        let secret = Secret::new(self.token(&stand).await?.unwrap_or_default());
        let silent = |error: FrameworkRequestError| ProviderError::transient("NoAnswer", error.to_string());
        self.framework_client.fetch_activity(framework, &Contact { endpoints, secret }).await.map_err(silent)
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        WorldChange::stream(self.changes.subscribe())
    }
}

#[async_trait]
impl OperatorProvider for Operated {
    async fn create(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        let stand = self.stand(call.cluster)?;
        stand.check_name()?;
        self.clear_away(&stand).await?;
        let recipe = recipe_of(call.cluster, call.profile)?;
        let plan = Plan { cluster: call.cluster, recipe: &recipe };
        let manifests = stand.flavor.manifests(plan).map_err(invalid)?;
        let mut root = None;
        for mut manifest in manifests {
            if root.is_none() {
                marks::dress(&mut manifest.body, &call.cluster.labels, &call.cluster.annotations);
            }
            if let Some(mark) = call.cluster.ephemeral.as_deref() {
                write_mark(&mut manifest.body, mark, root.is_none());
            }
            let owner = root.as_ref().filter(|_| manifest.owned);
            let made = self.make(&stand, manifest, owner, call).await?;
            root.get_or_insert(made);
        }
        Ok(())
    }

    async fn delete(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        let stand = self.stand(call.cluster)?;
        let site = stand.look()?;
        let Some(root) = site.root.map(|root| root.value).filter(|root| root.stands_for(call.cluster)) else {
            return Ok(());
        };
        self.writer.fences.refuse_older(call.fence, root.fence.as_ref())?;
        match self.writer.delete(root.kind, &root.namespace, &root.name, &root.uid).await? {
            Deleted::Gone => stand.sites.bury(&stand.key, &root.uid),
            Deleted::Leaving => {
                if let Some(now) = self.writer.read(root.kind, &root.namespace, &root.name).await? {
                    stand.take(root.kind, &now);
                }
            }
        }
        Ok(())
    }

    async fn write(
        &self,
        call: FencedCall<'_>,
        before: &Cluster,
        asked: &[String],
        victims: &[Node],
    ) -> Result<(), ProviderError> {
        let stand = self.stand(call.cluster)?;
        self.make_whole(&stand, call, before).await?;
        let (recipe, present) = (recipe_of(call.cluster, call.profile)?, recipe_of(before, call.profile)?);
        let plan = Plan { cluster: call.cluster, recipe: &recipe };
        let steps = |site: &Site| {
            let mut steps = resized(&stand, site, call.cluster, before, (asked, victims))?;
            if !call.cluster.has_same_recipe(before) {
                let was = Plan { cluster: before, recipe: &present };
                let remade = stand.flavor.remake(was, plan, &site.words());
                steps.extend(remade.map_err(invalid)?);
            }
            steps.extend(relabelled(site, before, call.cluster));
            Ok(steps)
        };
        self.write_steps(&stand, &steps, call).await
    }

    async fn settle(&self, call: FencedCall<'_>) -> Result<(), ProviderError> {
        let stand = self.stand(call.cluster)?;
        let steps = |site: &Site| Ok(stand.flavor.settle(&stand.key.name, &site.words()));
        self.write_steps(&stand, &steps, call).await
    }

    async fn restart_head(&self, call: FencedCall<'_>, old: &[MemberId]) -> Result<(), ProviderError> {
        let stand = self.stand(call.cluster)?;
        self.make_whole(&stand, call, call.cluster).await?;
        let site = stand.look()?;
        if !site.is_known_to_operator() {
            let operator = stand.flavor.operator().unwrap_or("Kubernetes");
            return Err(ProviderError::not_yet(format!(
                "{operator} has not taken note of its newest pods yet"
            )));
        }
        for pod in site.pods().filter(|pod| old.iter().any(|old| old.uid == pod.uid)) {
            self.writer.delete_pod(&stand.key.namespace, &pod.name, &pod.uid, HEAD_GRACE).await?;
        }
        let has_head = site.pods().any(|pod| pod.member.role == NodeRole::Head);
        let revived = stand.flavor.revive_head(&stand.key.name).filter(|_| !has_head);
        self.take_steps(&stand, &site, revived.into_iter().collect(), call).await
    }

    fn discovered(&self) -> Vec<ClusterId> {
        let all = self.installed.all();
        all.iter().flat_map(|sites| sites.clusters()).collect()
    }

    fn disown(&self, id: ClusterId) {
        self.installed.all().iter().for_each(|sites| sites.disown(id));
    }

    async fn describe(&self, id: ClusterId) -> Result<Option<DiscoveredCluster>, ProviderError> {
        let all = self.installed.all();
        let Some((sites, key)) = all.iter().find_map(|sites| Some((sites, sites.find(id)?))) else {
            return Ok(None);
        };
        let site = sites.look(&key)?;
        let Some(root) = site.root.as_ref().map(|root| &root.value) else { return Ok(None) };
        let object = self.read_root(root).await?;
        Ok(object.map(|object| describe::describe(sites.flavor, &object, &site.words())))
    }
}
