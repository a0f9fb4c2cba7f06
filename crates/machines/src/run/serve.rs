//! The start and the stop of the machines part.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum_server::Handle;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::apply::{MachinesWriter, message};
use super::certificate::{Certificates, SECRET};
use super::controller::Controller;
use super::definitions;
use super::leader::{self, Election};
use super::metrics::MachineMetrics;
use super::namespace::ensure_namespace;
use super::observe::GroupObservation;
use super::owners::{check_other_muster, check_published, leftover_registrations};
use super::register::Registrar;
use super::report::Reporter;
use super::settings::MachinesSettings;
use super::webhook::{self, Reviewer};
use super::world::ObservedWorld;
use crate::decide::ledger::waiting;
use crate::decide::node_health::HealthRules;
use crate::decide::reservations::{GroupOverview, overview};
use crate::keys;

/// The first minor version of Kubernetes whose scheduling gates are stable.
const OLDEST_MINOR: u32 = 30;

/// The longest wait for running reviews when the server stops, and the interval between checks.
const LAST_REVIEWS: Duration = Duration::from_secs(5);
const CLOSING: Duration = Duration::from_millis(20);

/// The time-out for releasing the Lease when the server stops.
const RELEASE: Duration = Duration::from_secs(2);

/// The reason why nothing can be decided while the first lists are read.
const INCOMPLETE: &str = "Machines and pods are being read";

/// The machines part of a server.
pub struct Machines {
    world: ObservedWorld,
    namespace: String,
    health: HealthRules,
    /// The reason why the custom resources cannot be used.
    obstacle: watch::Receiver<Option<&'static str>>,
    serving: watch::Receiver<bool>,
    leads: watch::Receiver<bool>,
    leases: Api<Lease>,
    identity: String,
    /// Ends the connections of the webhook, which are not in `tasks`.
    webhook: Handle<SocketAddr>,
    /// All other tasks.
    tasks: Mutex<JoinSet<()>>,
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.webhook.shutdown();
    }
}

impl Machines {
    /// Starts all tasks. Returns before anything was observed; [`Self::readiness`] reports when reviews are answered.
    pub async fn start(
        client: Client,
        settings: MachinesSettings,
        listener: TcpListener,
        metrics: MachineMetrics,
    ) -> Result<Self> {
        // Before there is a certificate, so that a listener that cannot be used fails the start.
        let listener = axum_server::from_tcp(listener).context("the webhook cannot listen")?;
        check_version(&client).await?;
        let leases = Api::<Lease>::namespaced(client.clone(), &settings.namespace);
        let now = settings.clock.now();
        check_published(&client, &settings.namespace, now).await?;
        check_other_muster(&client, &settings.namespace, now).await?;
        ensure_namespace(&client, &settings.namespace).await?;

        let world = ObservedWorld::new();
        let mut tasks = JoinSet::new();
        let (leads_sender, leads) = watch::channel(false);
        let (serving_sender, serving) = watch::channel(false);
        let watches = world.watches(&client, &settings.namespace);
        let (definitions_client, (obstacle_sender, obstacle)) = (client.clone(), watch::channel(None));
        tasks.spawn(async move {
            definitions::served(&definitions_client, &obstacle_sender).await;
            futures::future::join_all(watches).await;
        });
        let reviewer = Reviewer {
            world: world.clone(),
            clock: Arc::clone(&settings.clock),
            client: client.clone(),
            metrics: metrics.clone(),
        };
        let handle: Handle<SocketAddr> = Handle::new();
        let webhook = Webhook {
            client: client.clone(),
            settings: settings.clone(),
            listener,
            handle: handle.clone(),
            reviewer,
        };
        tasks.spawn(webhook.serve(serving_sender));
        let election =
            Election::new(client.clone(), &settings.namespace, settings.identity.clone(), settings.lease);
        let candidate = world.clone();
        tasks.spawn(async move {
            // A replica without complete caches cannot decide anything, so it must not lead.
            candidate.complete().await;
            election.run(leads_sender).await;
        });
        let (namespace, health) = (settings.namespace.clone(), settings.health);
        let reporter = Reporter::new(client.clone(), &settings.identity, metrics, &mut tasks);
        report_leftovers(&client, &reporter).await;
        let writer = MachinesWriter { client: client.clone(), namespace: settings.namespace.clone() };
        let controller = Controller::new(world.clone(), writer, settings.clone(), reporter, leads.clone());
        tasks.spawn(controller.run());
        let identity = settings.identity.clone();
        let registrar = Registrar { client, settings, leads: leads.clone() };
        tasks.spawn(registrar.run());
        let (webhook, tasks) = (handle, Mutex::new(tasks));
        Ok(Self { world, namespace, health, obstacle, serving, leads, leases, identity, webhook, tasks })
    }

    /// Returns `Ok` if reviews are answered, or the reason why they are not.
    pub fn readiness(&self) -> Result<(), &'static str> {
        if !self.world.is_complete() {
            return Err(self.incomplete());
        }
        if !*self.serving.borrow() {
            return Err("the webhook has no certificate yet");
        }
        Ok(())
    }

    /// The reason why nothing can be decided yet.
    fn incomplete(&self) -> &'static str {
        self.obstacle.borrow().unwrap_or(INCOMPLETE)
    }

    /// The groups that have a Machine, in the order of their names, or the reason why they are not known.
    pub fn groups(&self) -> Result<Vec<GroupOverview>, &'static str> {
        if !self.world.is_complete() {
            return Err(self.incomplete());
        }
        let groups = self.world.groups();
        let observed =
            groups.iter().map(|name| GroupObservation::observe(&self.world, name, &self.namespace));
        let overview = |group: GroupObservation| {
            let machine = group.machine.clone()?;
            Some(overview(&group.machine(&machine, self.health)))
        };
        Ok(observed.filter_map(overview).collect())
    }

    /// The guests of a namespace that wait for slots of a group, each with its position in the queue of its type;
    /// `None` if the group has no Machine.
    pub fn queue(&self, group: &str, namespace: &str) -> Option<HashMap<String, usize>> {
        if !self.world.is_complete() {
            return Some(HashMap::new());
        }
        let group = GroupObservation::observe(&self.world, group, &self.namespace);
        let machine = group.machine.as_ref()?;
        let queue = waiting(machine, machine.bookings(), &group.guests());
        let own = queue.into_iter().filter(|guest| guest.namespace == namespace);
        Some(own.filter_map(|guest| Some((guest.name, guest.position?))).collect())
    }

    /// Returns true if pods of a namespace can be guests.
    pub fn serves(&self, namespace: &str) -> bool {
        self.world.enabled_namespaces().get(namespace).copied().unwrap_or_default()
    }

    /// Returns true if this replica leads.
    pub fn is_leader(&self) -> bool {
        *self.leads.borrow()
    }

    /// Stops all tasks, after running reviews were answered, and releases the Lease, so that another replica can lead
    /// at once.
    pub async fn stop(&self) {
        self.webhook.graceful_shutdown(Some(LAST_REVIEWS));
        while self.webhook.connection_count() > 0 {
            sleep(CLOSING).await;
        }
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
        match tokio::time::timeout(RELEASE, leader::release(&self.leases, &self.identity)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!("the Lease {} could not be given up: {}", keys::LEASE, message(&error));
            }
            Err(_) => tracing::warn!("the Lease {} could not be given up in time", keys::LEASE),
        }
    }
}

/// The webhook of this replica.
struct Webhook {
    client: Client,
    settings: MachinesSettings,
    listener: axum_server::Server<SocketAddr>,
    handle: Handle<SocketAddr>,
    reviewer: Reviewer,
}

impl Webhook {
    /// Serves with the certificate of the Secret, once the leader has issued it, and reloads the certificate when it
    /// changes.
    async fn serve(self, serving: watch::Sender<bool>) {
        let Self { client, settings, listener, handle, reviewer } = self;
        let secrets = Api::<Secret>::namespaced(client.clone(), &settings.namespace);
        let chosen = watcher::Config::default().fields(&format!("metadata.name={SECRET}"));
        let mut changes = std::pin::pin!(watcher(secrets, chosen).default_backoff().applied_objects());
        let mut pending = Some((listener, webhook::routes(reviewer)));
        let mut config: Option<RustlsConfig> = None;
        let mut server = JoinSet::new();
        while let Some(change) = changes.next().await {
            let Ok(secret) = change else { continue };
            let Certificates { certificate, key, .. } = Certificates::read(&secret);
            if certificate.is_empty() {
                continue;
            }
            let (certificate, key) = (certificate.into_bytes(), key.into_bytes());
            let loaded = match &config {
                Some(config) => config.reload_from_pem(certificate, key).await.map(|()| config.clone()),
                None => RustlsConfig::from_pem(certificate, key).await,
            };
            let loaded = match loaded {
                Ok(loaded) => loaded,
                Err(error) => {
                    tracing::warn!("the webhook's certificate cannot be used: {error}");
                    continue;
                }
            };
            if let Some((listener, routes)) = pending.take() {
                config = Some(loaded.clone());
                let listening = listener.acceptor(RustlsAcceptor::new(loaded)).handle(handle.clone());
                let served = listening.serve(routes.into_make_service());
                server.spawn(async move {
                    if let Err(error) = served.await {
                        tracing::error!("the webhook has ended: {error}");
                    }
                });
                serving.send_replace(true);
            }
        }
    }
}

/// Warns of webhook configurations that would refuse guests although this server runs.
async fn report_leftovers(client: &Client, reporter: &Reporter) {
    match leftover_registrations(client).await {
        Ok(leftovers) => {
            for leftover in leftovers {
                tracing::warn!("{}", leftover.message);
                reporter.leftover(leftover);
            }
        }
        Err(error) => tracing::warn!("webhook configurations cannot be listed: {}", message(&error)),
    }
}

async fn check_version(client: &Client) -> Result<()> {
    let version = client.apiserver_version().await.context("Kubernetes does not answer")?;
    let minor = version.minor.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let (major, minor): (u32, u32) = (version.major.parse().unwrap_or(0), minor.parse().unwrap_or(0));
    ensure!(
        major > 1 || minor >= OLDEST_MINOR,
        "machines need Kubernetes 1.{OLDEST_MINOR} or later, for scheduling gates; this one is {}",
        version.git_version
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use muster_core::time::Timestamp;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::decide::registration::WebhookTarget;
    use crate::run::settings::WallClock;

    struct NoClock;

    impl WallClock for NoClock {
        fn now(&self) -> Timestamp {
            Timestamp::default()
        }
    }

    #[tokio::test]
    async fn a_listener_that_cannot_be_used_fails_the_start() {
        // A regular file cannot be polled.
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let listener = TcpListener::from(OwnedFd::from(file));
        listener.set_nonblocking(true).unwrap();
        let target = WebhookTarget::Url("https://127.0.0.1:1".to_owned());
        let settings = MachinesSettings::new("n".to_owned(), "one".to_owned(), target, Arc::new(NoClock));
        let metrics = MachineMetrics::register(&mut Registry::default());
        let started = Machines::start(crate::run::unreachable_client(), settings, listener, metrics).await;
        let error = started.err().map(|error| format!("{error:#}")).unwrap_or_default();
        assert!(error.starts_with("the webhook cannot listen: "), "{error}");
    }
}
