//! Clusters with delegated membership: an operator creates their pods from custom resources that Muster writes.

mod changes;
mod cluster_location;
mod current_cluster;
mod object_writes;
mod parts;
mod recipe_update;
mod source;

use std::collections::{BTreeMap, HashMap, HashSet};
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
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_engine::ports::keyed_lock::KeyedLock;
use muster_engine::ports::machines::MachineProvider;
use muster_engine::ports::provider::{
    Capabilities, ClusterTarget, INVALID, LogLines, LogQuery, Membership, ObjectState, Observed,
    OperatorCapabilities, Provider, ProviderError, Unobserved, WorldChange,
};
use muster_framework_client::{FrameworkClient, FrameworkRequestError};
use muster_frameworks::kubernetes::{DesiredCluster, Flavor, flavors_of};
use muster_frameworks::{self as frameworks, HeadAccess, Secret};
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::cluster_cache::{CachedCluster, ClusterKey};
use crate::cluster_identity::IdentityGate;
use crate::connect::{KubernetesConnection, KubernetesOptions};
use crate::installed_flavors::InstalledFlavors;
use crate::labels;
use crate::logs::{self, CrashLogs, LogSource};
use crate::namespaces::Namespaces;
use crate::observation::{self, ObservationContext, QueuePlace};
use crate::pod_details::pod_details;
use crate::projection::ClusterPod;
use crate::stored_configs::check_spark_config;
use crate::writer::ObjectWriter;
use cluster_location::{ClusterLocation, NO_OPERATOR, not_installed};
pub(crate) use source::{ClientSource, TokenSource};

/// The time that a request waits for a server that has just started to find the installed operators.
const DISCOVERY_DEADLINE: Duration = Duration::from_secs(5);

/// The provider of clusters with delegated membership, for all installed flavors.
pub(crate) struct OperatorClusters {
    instance: InstanceId,
    identity_gate: IdentityGate,
    installed: Arc<InstalledFlavors>,
    namespaces: Arc<Namespaces>,
    writer: ObjectWriter,
    client: Client,
    crash_logs: CrashLogs,
    framework_client: FrameworkClient,
    /// The provider of machine slots, if machine groups are enabled.
    machines: Option<Arc<dyn MachineProvider>>,
    /// Locked while an object of a cluster is being created.
    creations: Arc<KeyedLock<ClusterKey>>,
    changes: broadcast::Sender<WorldChange>,
}

impl OperatorClusters {
    /// Starts the watches, which end when `stop` is cancelled.
    pub(crate) fn start(
        connection: &KubernetesConnection,
        options: KubernetesOptions,
        namespaces: Arc<Namespaces>,
        changes: broadcast::Sender<WorldChange>,
        stop: &CancellationToken,
    ) -> Self {
        let KubernetesConnection { client, watch_client, instance, identity_gate, fences, .. } = connection;
        let installed =
            Arc::new(InstalledFlavors::new(watch_client.clone(), options.namespaces, changes.clone()));
        let (flavors, token) = (Arc::clone(&installed), stop.clone());
        let watch = async move { flavors.watch_definitions(token).await };
        tokio::spawn(identity_gate.clone().run_once_confirmed(watch, stop.clone()));
        installed.watch_events(identity_gate, stop);
        let (client, instance, identity_gate) = (client.clone(), instance.clone(), identity_gate.clone());
        let writer = ObjectWriter::new(client.clone(), fences.clone());
        let framework_client = FrameworkClient::new(options.names);
        Self {
            instance,
            identity_gate,
            installed,
            namespaces,
            writer,
            client,
            crash_logs: CrashLogs::default(),
            framework_client,
            machines: options.machines,
            creations: Arc::default(),
            changes,
        }
    }

    /// Returns the flavor of this name, or the first one of the framework if none is named.
    fn flavor(framework: Framework, named: Option<&str>) -> Option<&'static dyn Flavor> {
        flavors_of(framework).find(|flavor| named.is_none_or(|name| flavor.name() == name))
    }

    /// Finds the flavor of a cluster and its place in the cache.
    fn locate(&self, cluster: &Cluster) -> Result<ClusterLocation, ProviderError> {
        let framework =
            cluster.framework.and_then(|framework| Self::flavor(framework, cluster.flavor.as_deref()));
        let Some(flavor) = framework else {
            let message = format!("clusters of type {} cannot run on Kubernetes", cluster.profile_type);
            return Err(ProviderError::permanent("NotSupported", message));
        };
        self.identity_gate.check()?;
        if !self.installed.is_known() {
            return Err(ProviderError::not_yet("the installed operators are not known yet"));
        }
        self.namespaces.check_served(&cluster.namespace)?;
        let cache = self.installed.cache(flavor).ok_or_else(|| not_installed(flavor))?;
        let key = ClusterKey { namespace: cluster.namespace.clone(), name: cluster.object_name.clone() };
        Ok(ClusterLocation { flavor, cache, key })
    }

    /// Reads the logs of containers in crash loops in the background. Subscribers are notified when one was read.
    fn request_crash_logs(&self, location: &ClusterLocation, cached: &CachedCluster, cluster: ClusterId) {
        for pod in cached.pods() {
            let Some(crash_loop) = &pod.crash_loop else { continue };
            let changes = self.changes.clone();
            // Without a subscriber the notification is not needed.
            let notify = move || drop(changes.send(WorldChange::Cluster(cluster)));
            let namespace = &location.key.namespace;
            self.crash_logs.request(self.client.clone(), namespace, &pod.name, &pod.uid, crash_loop, notify);
        }
    }

    /// Returns the queues in which pods of a cluster wait, by machine group.
    fn queues<'s>(&self, cached: &'s CachedCluster, namespace: &str) -> Queues<'s> {
        let Some(machines) = self.machines.as_deref() else { return HashMap::new() };
        let waiting = cached.pods().filter_map(|pod| pod.awaited_slot.as_ref());
        let groups: HashSet<&str> = waiting.map(|slot| slot.group.as_str()).collect();
        groups.into_iter().map(|group| (group, machines.queue(group, namespace))).collect()
    }
}

/// The positions of pods in the queue of a machine group; none if the group has no Machine.
type Queues<'s> = HashMap<&'s str, Option<HashMap<String, usize>>>;

fn queue_place(queues: &Queues<'_>, group: &str, pod: &str) -> QueuePlace {
    match queues.get(group) {
        None => QueuePlace::Unknown,
        Some(None) => QueuePlace::NoMachine,
        Some(Some(queue)) => queue.get(pod).copied().map_or(QueuePlace::Unknown, QueuePlace::Position),
    }
}

/// Returns the framework whose clusters are of this type.
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
impl Provider for OperatorClusters {
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
                replaces_workers: able.replaces_workers,
            }),
            head: true,
            workers_outlive_head: able.workers_outlive_head,
            several_groups: able.several_groups,
            orphans: false,
            choose_victims: able.choose_victims,
            update_in_place: true,
            heals_by_default: false,
            adopt: false,
            // Unknown while the head cannot be reached from this server; such a cluster counts as used.
            reports_activity: true,
            supports_placement: false,
            reports_machines: false,
        })
    }

    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        let recipe = ClusterRecipe::from_request(&profile.properties)?;
        if recipe.working_dir.is_some() {
            return Err("working_dir is only for local processes: add the files to the image".to_owned());
        }
        framework_of(&profile.kind).map_or(Ok(()), |framework| recipe.check_framework(framework))
    }

    fn readiness(&self) -> Result<(), String> {
        // While the API server is unreachable, the server stays ready for its other providers.
        if self.identity_gate.check().is_err() { Ok(()) } else { self.installed.readiness() }
    }

    fn unobserved(&self) -> Vec<Unobserved> {
        self.installed.all().iter().flat_map(|cache| cache.unobserved()).collect()
    }

    fn default_flavor(&self, kind: &ProfileType) -> Option<String> {
        let able: Vec<&dyn Flavor> =
            flavors_of(framework_of(kind)?).filter(|flavor| flavor.abilities().create).collect();
        // An installed flavor, or else the first, so that the refusal names the missing operator.
        let installed = able.iter().find(|flavor| self.installed.cache(**flavor).is_some());
        installed.or(able.first()).map(|flavor| flavor.name().to_owned())
    }

    async fn admit(&self, profile: &Profile, named: Option<&str>) -> Result<(), ProviderError> {
        self.identity_gate.check()?;
        if tokio::time::timeout(DISCOVERY_DEADLINE, self.installed.wait_until_known()).await.is_err() {
            return Err(ProviderError::not_yet("the installed operators are not known yet"));
        }
        let Some(framework) = framework_of(&profile.kind) else { return Ok(()) };
        let Some(flavor) = Self::flavor(framework, named) else {
            let known: Vec<&str> = flavors_of(framework).map(Flavor::name).collect();
            let message = format!(
                "unknown flavor '{}' of {framework}: choose {}",
                named.unwrap_or_default(),
                known.join(" or ")
            );
            return Err(ProviderError::permanent("NoFlavor", message));
        };
        if !flavor.abilities().create {
            let message = format!(
                "clusters of flavor {} cannot be created: Muster only manages those that exist",
                flavor.name()
            );
            return Err(ProviderError::permanent("NotSupported", message));
        }
        self.installed.cache(flavor).map(drop).ok_or_else(|| not_installed(flavor))
    }

    fn check_cluster(&self, cluster: &Cluster) -> Result<(), String> {
        labels::check_metadata(&cluster.labels, &cluster.annotations)
    }

    async fn admit_cluster(&self, cluster: &Cluster, profile: &Profile) -> Result<(), ProviderError> {
        let location = self.locate(cluster)?;
        location.check_name()?;
        let recipe = recipe_of(cluster, profile)?;
        // Operators accept invalid pod templates, and then fail to create the pods.
        let groups = cluster.groups.iter().map(|group| recipe.workers(Some(group)));
        for node in std::iter::once(recipe.head()).chain(groups) {
            labels::check_metadata(&node.pod.labels, &node.pod.annotations).map_err(invalid)?;
            labels::check_name("service account", node.pod.service_account.as_deref()).map_err(invalid)?;
            labels::check_name("secret", node.pod.image_pull_secret.as_deref()).map_err(invalid)?;
        }
        location.flavor.check_creation(DesiredCluster { cluster, recipe: &recipe }).map_err(invalid)?;
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
        let (was, plan) = (
            DesiredCluster { cluster: before, recipe: &present },
            DesiredCluster { cluster, recipe: &recipe },
        );
        flavor.check_recipe_change(was, plan).map_err(invalid)
    }

    async fn observe(&self, target: ClusterTarget<'_>, nodes: &[Node]) -> Result<Observed, ProviderError> {
        let location = match self.locate(target.cluster) {
            // Without the definition of its kind, no object of the cluster exists.
            Err(error) if error.reason == NO_OPERATOR => {
                return Ok(Observed { object: ObjectState::Absent, ..Observed::default() });
            }
            location => location?,
        };
        let cached = self.current_cluster(&location, target.cluster, nodes).await?;
        self.request_crash_logs(&location, &cached, target.cluster.id);
        self.release_from_former_app(&cached).await;
        let content = self.changed_content(&location, &cached, target.cluster).await?;
        let queues = self.queues(&cached, &location.key.namespace);
        let context = ObservationContext {
            fences: &self.writer.fences,
            events_about: &|uid| self.installed.events.events_about(uid),
            crash_log: &|uid| self.crash_logs.last_lines(uid),
            queue_place: &|slot, pod| queue_place(&queues, &slot.group, pod),
            now: SystemClock.now(),
        };
        let mut observed =
            observation::observe_cluster(location.flavor, &location.key, &cached, target.cluster, &context);
        if let (ObjectState::Present(spec), Some(content)) = (&mut observed.object, content) {
            spec.content = Some(Box::new(content));
        }
        Ok(observed)
    }

    async fn details(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
    ) -> Result<Map<String, Value>, ProviderError> {
        let location = self.locate(target.cluster)?;
        let cached = location.snapshot()?;
        let Some(pod) = cached.pod(&node.name) else { return Ok(Map::new()) };
        let (namespace, image) = (location.key.namespace.clone(), pod.template.image.clone());
        Ok(pod_details(pod.name.clone(), namespace, pod.machine.clone(), image))
    }

    async fn logs(
        &self,
        target: ClusterTarget<'_>,
        node: &Node,
        query: LogQuery,
    ) -> Result<LogLines, ProviderError> {
        let location = self.locate(target.cluster)?;
        let cached = location.snapshot()?;
        let Some(pod) = cached.pod(&node.name) else {
            let message = format!("pod '{}/{}' does not exist any more", location.key.namespace, node.name);
            return Err(ProviderError::permanent("NoLogs", message));
        };
        let source = LogSource {
            namespace: &location.key.namespace,
            pod: &pod.name,
            container: &pod.container,
            machine: pod.machine.as_deref(),
            reason: &pod.reason,
        };
        logs::read_log(self.client.clone(), source, query).await
    }

    async fn environment(
        &self,
        target: ClusterTarget<'_>,
    ) -> Result<BTreeMap<String, String>, ProviderError> {
        let location = self.locate(target.cluster)?;
        let endpoints = location.flavor.endpoints(&location.key.namespace, &location.key.name);
        let token = self.read_token(&location).await?;
        Ok(location.flavor.client_environment(&endpoints, token.as_deref()))
    }

    async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        let location = self.locate(target.cluster)?;
        let is_running_head = |pod: &ClusterPod| {
            pod.member.role == NodeRole::Head && matches!(pod.observation, Observation::Running { .. })
        };
        let Some(framework) = frameworks::local(location.flavor.framework()) else {
            return Ok(Activity::Unknown);
        };
        if !location.snapshot()?.pods().any(is_running_head) {
            return Ok(Activity::Unknown);
        }
        let endpoints = location.flavor.endpoints(&location.key.namespace, &location.key.name);
        let secret = Secret::new(self.read_token(&location).await?.unwrap_or_default());
        let silent = |error: FrameworkRequestError| ProviderError::transient("NoAnswer", error.to_string());
        self.framework_client
            .fetch_activity(framework, &HeadAccess { endpoints, secret })
            .await
            .map_err(silent)
    }

    fn changes(&self) -> BoxStream<'static, WorldChange> {
        WorldChange::stream(self.changes.subscribe())
    }
}
