//! The GPU devices of members, as their provider assigned them.

use muster_core::ids::NodeId;
use muster_core::node::Observation;

use crate::ports::provider::Observed;
use crate::run::ActionRun;

/// Records the devices of observed members: those of running ones, and none for those that are gone.
pub(super) fn record_observed_devices(run: &mut ActionRun, observed: &Observed) {
    let (mut running, mut gone) = (Vec::new(), Vec::new());
    for (id, observation) in &observed.nodes {
        match observation {
            Observation::Running { .. } => running.push(*id),
            observation if observation.loss().is_some() => gone.push(*id),
            _ => {}
        }
    }
    record_devices(run, &running);
    for id in gone {
        set_devices(run, id, &[]);
    }
}

/// Records the devices of running members.
pub(super) fn record_devices(run: &mut ActionRun, running: &[NodeId]) {
    let Ok(provider) = run.node_provider() else { return };
    let devices = provider.gpu_devices(run.subject.as_target(), running);
    for id in running {
        set_devices(run, *id, devices.get(id).map_or(&[], Vec::as_slice));
    }
}

fn set_devices(run: &mut ActionRun, id: NodeId, devices: &[u32]) {
    let nodes = &mut run.subject.nodes;
    if nodes.get(id).is_some_and(|node| node.gpu_devices() != devices)
        && let Some(node) = nodes.get_mut(id)
    {
        node.set_gpu_devices(devices);
    }
}
