//! Starts machine types on Kubernetes, if they are enabled.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use muster_api::probes::ServerMetrics;
use muster_core::time::Timestamp;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_engine::ports::machines::{Guest, MachineGroup, MachineProvider, MachineType};
use muster_machines::decide::node_health::HealthRules;
use muster_machines::decide::registration::WebhookTarget;
use muster_machines::decide::reservations::{GroupOverview, GuestOverview, TypeOverview};
use muster_machines::keys;
use muster_machines::run::{self, MachineMetrics, Machines, WallClock};
use muster_machines::types::{TypeAmounts, Usage};

use super::kubernetes;
use super::settings::{ServerSettings, WebhookService};

/// The wall clock of this machine.
struct WallTime;

impl WallClock for WallTime {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }
}

/// Implements the engine's port for machines.
pub(super) struct RunningMachines(Machines);

impl MachineProvider for RunningMachines {
    fn readiness(&self) -> Result<(), String> {
        self.0.readiness().map_err(|why| format!("machine types are not ready: {why}"))
    }

    fn groups(&self) -> Result<Vec<MachineGroup>, String> {
        let groups = self.0.groups().map_err(|why| format!("machine types are unknown: {why}"))?;
        Ok(groups.into_iter().map(group).collect())
    }

    fn queue(&self, group: &str, namespace: &str) -> Option<HashMap<String, usize>> {
        self.0.queue(group, namespace)
    }

    fn guest_labels(
        &self,
        namespace: &str,
        group: &str,
        machine_type: &str,
    ) -> Result<BTreeMap<String, String>, String> {
        if !self.0.serves(namespace) {
            let [label, _] = keys::NAMESPACE_LABELS;
            return Err(format!(
                "namespace '{namespace}' may not have guests: label it {label}={}",
                keys::ENABLED
            ));
        }
        let labels = keys::GUEST_LABELS.into_iter().zip([group, machine_type, keys::GUEST]);
        Ok(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }
}

fn group(GroupOverview { name, machine, types }: GroupOverview) -> MachineGroup {
    MachineGroup { name, machine, types: types.into_iter().map(machine_type).collect() }
}

fn machine_type(TypeOverview { name, amounts, usage, guests }: TypeOverview) -> MachineType {
    let Usage { maximum, reserved, used, waiting } = usage;
    let (cpu, memory, gpu) = match amounts {
        Some(TypeAmounts { cpu, memory, gpu }) => (cpu.0, memory.0, gpu.unwrap_or_default()),
        None => Default::default(),
    };
    MachineType {
        name,
        cpu,
        memory,
        gpu: gpu.num.map(|number| number.0),
        gpu_resource: gpu.resource,
        maximum,
        reserved,
        used,
        waiting,
        guests: guests.into_iter().map(guest).collect(),
    }
}

fn guest(GuestOverview { namespace, name, has_slot, position, since }: GuestOverview) -> Guest {
    Guest { namespace, pod: name, has_slot, position, since }
}

impl RunningMachines {
    /// Stops the webhook and controllers; reviews in progress are answered first.
    pub(super) async fn stop(&self) {
        self.0.stop().await;
    }
}

/// Starts the webhook and controllers; `None` if machine types are not enabled.
pub(super) async fn start(
    settings: &ServerSettings,
    identity: String,
    metrics: &mut ServerMetrics,
) -> Result<Option<Arc<RunningMachines>>> {
    let Some(address) = settings.webhook_listen else { return Ok(None) };
    let listener = TcpListener::bind(address).map_err(|error| {
        let message =
            format!("webhook_listen is {address}: {error}; choose another address, or stop what uses it");
        super::port_refused(io::Error::new(error.kind(), message))
    })?;
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
    let how = run::MachinesSettings {
        health,
        ..run::MachinesSettings::new(namespace, identity, target, Arc::new(WallTime))
    };
    let client = kubernetes::client(settings).await?;
    let machines =
        Machines::start(client, how, listener, MachineMetrics::register(&mut metrics.registry)).await;
    Ok(Some(Arc::new(RunningMachines(machines.context("cannot start machine types")?))))
}
