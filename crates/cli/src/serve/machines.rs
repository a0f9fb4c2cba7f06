//! Machines of Kubernetes, if they are switched on.

use std::net::TcpListener;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use muster_api::probes::ServerMetrics;
use muster_core::time::Timestamp;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_engine::ports::machines::MachineProvider;
use muster_machines::decide::node_health::HealthRules;
use muster_machines::decide::registration::WebhookTarget;
use muster_machines::run::{self, MachineMetrics, Machines, WallClock};

use super::kubernetes;
use super::settings::{Settings, WebhookService};

/// The time of day of this machine.
struct WallTime;

impl WallClock for WallTime {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }
}

/// The port, over what runs.
pub(super) struct RunningMachines(Machines);

impl MachineProvider for RunningMachines {
    fn readiness(&self) -> Result<(), String> {
        self.0.readiness().map_err(|why| format!("machines are not served: {why}"))
    }
}

impl RunningMachines {
    /// Ends what runs; reviews that have begun are answered first.
    pub(super) async fn stop(&self) {
        self.0.stop().await;
    }
}

/// Starts what serves machines; none if they are not switched on.
pub(super) async fn start(
    settings: &Settings,
    identity: String,
    metrics: &mut ServerMetrics,
) -> Result<Option<Arc<RunningMachines>>> {
    let Some(address) = settings.webhook_listen else { return Ok(None) };
    let listener = TcpListener::bind(address).map_err(super::port_refused)?;
    listener.set_nonblocking(true)?;
    let at = listener.local_addr()?;
    let target = match (&settings.webhook_service, &settings.webhook_url) {
        (Some(WebhookService { namespace, name, port }), _) => {
            WebhookTarget::Service { namespace: namespace.clone(), name: name.clone(), port: *port }
        }
        (None, Some(url)) => WebhookTarget::Url(url.clone()),
        (None, None) => WebhookTarget::Url(format!("https://{at}")),
    };
    let namespace = settings.machines_namespace.clone();
    let health = HealthRules { ignore_not_ready_taint: settings.ignore_not_ready_taint };
    let how = run::Settings { health, ..run::Settings::new(namespace, identity, target, Arc::new(WallTime)) };
    let client = kubernetes::client(settings).await?;
    let machines =
        Machines::start(client, how, listener, MachineMetrics::register(&mut metrics.registry)).await;
    Ok(Some(Arc::new(RunningMachines(machines.context("machines cannot be served")?))))
}
