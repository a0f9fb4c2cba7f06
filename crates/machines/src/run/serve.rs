//! Starting and stopping.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use futures::StreamExt as _;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::apply::{Writer, is_conflict, is_missing};
use super::certificate::{Certificates, SECRET};
use super::controller::Controller;
use super::leader::Election;
use super::metrics::MachineMetrics;
use super::register::Registrar;
use super::report::Reporter;
use super::settings::Settings;
use super::webhook::{self, Reviewer};
use super::world::World;
use crate::decide::registration::machines_namespace;
use crate::decide::takeover::check_published_lease;
use crate::keys;
use crate::types::{Machine, MachineNodePool};

/// The first Kubernetes whose scheduling gates are stable.
const OLDEST_MINOR: u32 = 30;

/// How long reviews that have begun may take when the server stops, and how often that is checked.
const LAST_REVIEWS: Duration = Duration::from_secs(5);
const CLOSING: Duration = Duration::from_millis(20);

/// How often custom resources that are not there are waited for.
const WAIT: Duration = Duration::from_secs(2);

/// The machines part of a server.
pub struct Machines {
    world: World,
    serving: watch::Receiver<bool>,
    leads: watch::Receiver<bool>,
    /// Ends connections, which are tasks of their own.
    webhook: Handle<SocketAddr>,
    /// Everything else that runs.
    tasks: Mutex<JoinSet<()>>,
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.webhook.shutdown();
    }
}

impl Machines {
    /// Starts everything. Returns before anything was observed; [`Self::readiness`] says when reviews are answered.
    pub async fn start(
        client: Client,
        settings: Settings,
        listener: TcpListener,
        metrics: MachineMetrics,
    ) -> Result<Self> {
        check_version(&client).await?;
        ensure_namespace(&client, &settings.namespace).await?;
        let leases = Api::<Lease>::namespaced(client.clone(), &settings.namespace);
        let published = leases.get_opt(keys::PUBLISHED_LEASE).await.context("Leases cannot be read")?;
        check_published_lease(published.as_ref(), settings.clock.now())?;
        let user = own_name(&client).await?;

        let world = World::new();
        let mut tasks = JoinSet::new();
        let (leads_sender, leads) = watch::channel(false);
        let (serving_sender, serving) = watch::channel(false);
        let watches = world.watches(&client, &settings.namespace);
        let crds = client.clone();
        tasks.spawn(async move {
            custom_resources(&crds).await;
            futures::future::join_all(watches).await;
        });
        let reviewer = Reviewer {
            world: world.clone(),
            clock: Arc::clone(&settings.clock),
            user: user.as_str().into(),
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
            // One that has not read everything yet cannot decide anything.
            candidate.complete().await;
            election.run(leads_sender).await;
        });
        let reporter = Reporter::new(client.clone(), &settings.identity, metrics, &mut tasks);
        let writer = Writer { client: client.clone(), namespace: settings.namespace.clone() };
        let controller = Controller::new(world.clone(), writer, settings.clone(), reporter, leads.clone());
        tasks.spawn(controller.run());
        let registrar = Registrar { client, settings, user, leads: leads.clone() };
        tasks.spawn(registrar.run());
        Ok(Self { world, serving, leads, webhook: handle, tasks: Mutex::new(tasks) })
    }

    /// Whether reviews are answered; else why not.
    pub fn readiness(&self) -> Result<(), &'static str> {
        if !self.world.is_complete() {
            return Err("Machines and pods are being read, or their custom resources are missing");
        }
        if !*self.serving.borrow() {
            return Err("the webhook has no certificate yet");
        }
        Ok(())
    }

    /// Whether this replica leads.
    pub fn is_leader(&self) -> bool {
        *self.leads.borrow()
    }

    /// Ends everything; reviews that have begun are answered first.
    pub async fn stop(&self) {
        self.webhook.graceful_shutdown(Some(LAST_REVIEWS));
        while self.webhook.connection_count() > 0 {
            sleep(CLOSING).await;
        }
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
    }
}

/// The webhook of this replica.
struct Webhook {
    client: Client,
    settings: Settings,
    listener: TcpListener,
    handle: Handle<SocketAddr>,
    reviewer: Reviewer,
}

impl Webhook {
    /// Serves with the certificate of the Secret, once the leader has made it, and follows that.
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
            match (loaded, pending.take()) {
                (Ok(loaded), Some((listener, routes))) => {
                    config = Some(loaded.clone());
                    match axum_server::from_tcp_rustls(listener, loaded) {
                        Ok(listening) => {
                            let served = listening.handle(handle.clone()).serve(routes.into_make_service());
                            server.spawn(async move {
                                if let Err(error) = served.await {
                                    tracing::error!("the webhook has ended: {error}");
                                }
                            });
                            serving.send_replace(true);
                        }
                        Err(error) => tracing::error!("the webhook cannot listen: {error}"),
                    }
                }
                (Ok(_), None) => {}
                (Err(error), kept) => {
                    pending = kept;
                    tracing::warn!("the webhook's certificate cannot be used: {error}");
                }
            }
        }
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

async fn ensure_namespace(client: &Client, name: &str) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    if namespaces.get_opt(name).await.with_context(|| format!("namespace {name} cannot be read"))?.is_some() {
        return Ok(());
    }
    match namespaces.create(&PostParams::default(), &machines_namespace(name)).await {
        Err(error) if !is_conflict(&error) => {
            Err(error).with_context(|| format!("namespace {name} cannot be created"))
        }
        _ => Ok(()),
    }
}

/// Who this server is to the API server.
async fn own_name(client: &Client) -> Result<String> {
    let reviews = Api::<SelfSubjectReview>::all(client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let status = review.context("Kubernetes does not answer who this server is")?.status;
    Ok(status.and_then(|status| status.user_info?.username).unwrap_or_default())
}

/// Returns once both custom resources are served.
async fn custom_resources(client: &Client) {
    let mut waits = false;
    loop {
        let machines = Api::<Machine>::all(client.clone()).list_metadata(&one()).await.map(drop);
        let pools = Api::<MachineNodePool>::all(client.clone()).list_metadata(&one()).await.map(drop);
        match machines.and(pools) {
            Ok(()) => return,
            Err(error) if is_missing(&error) && !waits => {
                tracing::info!(
                    "waiting for the custom resources of machines: `muster machines crds` prints them"
                );
                waits = true;
            }
            Err(error) if !is_missing(&error) => tracing::warn!("custom resources cannot be read: {error}"),
            Err(_) => {}
        }
        sleep(WAIT).await;
    }
}

fn one() -> kube::api::ListParams {
    kube::api::ListParams::default().limit(1)
}
