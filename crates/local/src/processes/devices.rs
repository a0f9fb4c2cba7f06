//! Exclusive assignment of GPU devices to nodes, across all clusters of the data folder.
//!
//! The record of a node has its devices, and they are in use for as long as processes of the node run, whatever happens
//! to the server. Devices of a node that is about to start are reserved in memory.

mod choice;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::StreamExt as _;
use muster_core::ids::NodeId;
use muster_core::node::Node;
use muster_core::time::{TimeSpan, Timestamp};
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_engine::ports::provider::{ClusterTarget, FencedCall, ProviderError};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::launch::node_recipe;
use super::node_kind::NodeKind;
use super::node_record::NodeRecord;
use super::{ProcessHost, capacity, on_disk, paths};
use crate::shim::{NodeFolder, NodeProcessState, Shims};
use choice::{DeviceUse, choose_free};

/// The variable with the devices that a program may use.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// The variable with the order in which programs number devices.
const ORDER: &str = "CUDA_DEVICE_ORDER";

/// The order by which `nvidia-smi` numbers devices; the default of CUDA begins with the fastest device.
const BY_BUS: &str = "PCI_BUS_ID";

/// The longest time between two attempts of a waiting node, in case that a notification is lost.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The time that a shim, whose server was killed, has to record that it runs.
const START_GRACE: TimeSpan = TimeSpan::from_secs(5);

/// Devices of nodes that are about to start, and nodes that wait for devices.
#[derive(Default)]
pub(super) struct DeviceReservations {
    reserved: Mutex<HashMap<NodeId, DeviceUse>>,
    /// Waiting nodes, each with what it waits for.
    waiting: Mutex<HashMap<NodeId, String>>,
    released: Notify,
}

/// The devices of a node that is about to start. Dropped once the processes of the node use them, or will not.
pub(super) struct DeviceReservation<'r> {
    reservations: &'r DeviceReservations,
    node: NodeId,
    /// The numbers of the devices.
    pub(super) devices: Vec<u32>,
}

impl Drop for DeviceReservation<'_> {
    fn drop(&mut self) {
        if self.reservations.reserved.lock().remove(&self.node).is_some() {
            self.reservations.released.notify_waiters();
        }
    }
}

/// Removes the obstacle of a node that no longer waits, also if its start was interrupted.
struct WaitGuard<'r>(&'r DeviceReservations, NodeId);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.lock().remove(&self.1);
    }
}

impl DeviceReservations {
    /// Returns what those of these nodes wait for that wait for devices.
    pub(super) fn obstacles(&self, of: &HashSet<NodeId>) -> HashMap<NodeId, String> {
        let waiting = self.waiting.lock();
        let wanted = waiting.iter().filter(|(id, _)| of.contains(id));
        wanted.map(|(id, why)| (*id, why.clone())).collect()
    }

    fn reserve(&self, node: NodeId, cluster: &str, devices: Vec<u32>) -> DeviceReservation<'_> {
        if !devices.is_empty() {
            let reserved = DeviceUse { owner: cluster.to_owned(), devices: devices.clone() };
            self.reserved.lock().insert(node, reserved);
        }
        DeviceReservation { reservations: self, node, devices }
    }
}

impl ProcessHost {
    /// Returns the number of devices that a node requests.
    pub(super) fn requested_devices(call: FencedCall<'_>, node: &Node) -> Result<u32, ProviderError> {
        if NodeKind::from_profile_type(&call.profile.kind).and_then(NodeKind::framework).is_none() {
            return Ok(0);
        }
        Ok(node_recipe(call, node)?.shape().gpu.unwrap_or(0))
    }

    /// Reserves the devices of a node that is about to start, and waits while too few are free. A node that runs already
    /// keeps those that it has.
    pub(super) async fn reserve_devices(
        &self,
        call: FencedCall<'_>,
        node: &Node,
    ) -> Result<DeviceReservation<'_>, ProviderError> {
        if let Some(devices) = self.devices_of_running(call, node) {
            return Ok(self.devices.reserve(node.id, &call.cluster.name, devices));
        }
        let wanted = Self::requested_devices(call, node)?;
        if wanted == 0 {
            return Ok(self.devices.reserve(node.id, &call.cluster.name, Vec::new()));
        }
        let total = capacity::accelerators(self.settings.gpus);
        if wanted > total {
            let message = format!(
                "it requests {wanted} gpu; this machine has {total}: request less, or set `gpus` if there are more"
            );
            return Err(ProviderError::permanent("TooFewGpus", message));
        }
        let _waiting = WaitGuard(&self.devices, node.id);
        let mut changes = self.exit_watcher.changes();
        loop {
            // Created before the attempt, so that no release between the attempt and the wait is missed.
            let released = self.devices.released.notified();
            match self.try_reserve(call, node, wanted, total)? {
                Ok(reservation) => return Ok(reservation),
                Err(why) => drop(self.devices.waiting.lock().insert(node.id, why)),
            }
            tokio::select! {
                () = released => {}
                _ = changes.next() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Returns the devices of a node that runs already, as its last start was interrupted.
    fn devices_of_running(&self, call: FencedCall<'_>, node: &Node) -> Option<Vec<u32>> {
        let folder = self.node_folder(call.target(), node.id);
        let runs = matches!(self.shims.inspect(&folder), Ok(NodeProcessState::Running(_)));
        NodeRecord::read(&folder).filter(|_| runs).map(|record| record.gpus)
    }

    /// Reserves devices, or returns what the node waits for.
    fn try_reserve(
        &self,
        call: FencedCall<'_>,
        node: &Node,
        wanted: u32,
        total: u32,
    ) -> Result<Result<DeviceReservation<'_>, String>, ProviderError> {
        let unreadable = |error| on_disk("the folder of clusters cannot be read", &error);
        // Held until the choice is recorded, because other nodes may choose at the same time.
        let mut reserved = self.devices.reserved.lock();
        let mut uses = self.recorded_uses(node.id).map_err(unreadable)?;
        uses.extend(reserved.iter().filter(|(id, _)| **id != node.id).map(|(_, held)| held.clone()));
        let devices = match choose_free(wanted, total, &uses) {
            Ok(devices) => devices,
            Err(why) => return Ok(Err(why)),
        };
        let owner = call.cluster.name.clone();
        reserved.insert(node.id, DeviceUse { owner, devices: devices.clone() });
        drop(reserved);
        Ok(Ok(DeviceReservation { reservations: &self.devices, node: node.id, devices }))
    }

    /// Lists the devices that other nodes use, by the records of nodes and their processes.
    fn recorded_uses(&self, except: NodeId) -> std::io::Result<Vec<DeviceUse>> {
        let now = SystemClock.now();
        let mut uses = Vec::new();
        for cluster in self.paths.clusters()? {
            for folder in NodeFolder::list(&cluster)?.into_iter().filter(|folder| folder.node() != except) {
                let record = NodeRecord::read(&folder).filter(|record| !record.gpus.is_empty());
                let Some(record) = record else { continue };
                let state = self.shims.inspect(&folder).ok();
                if uses_devices(&record, state, now, || Shims::has_processes(&folder)) {
                    uses.push(DeviceUse { owner: owner(&record, &folder), devices: record.gpus });
                }
            }
        }
        Ok(uses)
    }

    /// Returns the devices of nodes, by their records.
    pub(super) fn devices_of(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[NodeId],
    ) -> HashMap<NodeId, Vec<u32>> {
        let devices = |id: &NodeId| Some((*id, NodeRecord::read(&self.node_folder(target, *id))?.gpus));
        nodes.iter().filter_map(devices).filter(|(_, devices)| !devices.is_empty()).collect()
    }

    /// Returns the variables that limit a node to its devices. Nodes without devices see none where devices are assigned.
    pub(super) fn device_variables(&self, record: &NodeRecord) -> Vec<(String, String)> {
        if record.gpus.is_empty() && capacity::accelerators(self.settings.gpus) == 0 {
            return Vec::new();
        }
        let devices: Vec<String> = record.gpus.iter().map(ToString::to_string).collect();
        vec![(VISIBLE.to_owned(), devices.join(",")), (ORDER.to_owned(), BY_BUS.to_owned())]
    }
}

/// Returns the name of the cluster that has a node. Older records do not have it, but the folder has the node's name.
fn owner(record: &NodeRecord, folder: &NodeFolder) -> String {
    if record.cluster.is_empty() {
        return paths::read_json(&folder.name_file()).unwrap_or_else(|| record.name.clone());
    }
    record.cluster.clone()
}

/// Returns true if processes use the devices of a record, or may be about to. An unreadable state counts as a use.
fn uses_devices(
    record: &NodeRecord,
    state: Option<NodeProcessState>,
    now: Timestamp,
    has_processes: impl FnOnce() -> bool,
) -> bool {
    let is_starting = || !record.was_ready && now.since(record.prepared_at) < START_GRACE;
    match state {
        Some(NodeProcessState::Running(_)) | None => true,
        Some(NodeProcessState::Lost) => has_processes(),
        // The folder may still have the state of the run before.
        Some(NodeProcessState::Ended(end)) => end.at < record.prepared_at && is_starting(),
        Some(NodeProcessState::AnotherBoot(_) | NodeProcessState::NeverStarted) => is_starting(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::shim::{ExitCause, NodeExit, OomKills};

    const PREPARED: Timestamp = Timestamp::from_micros(10_000_000);

    fn record(was_ready: bool) -> NodeRecord {
        NodeRecord {
            name: "w-1".to_owned(),
            cluster: "fred".to_owned(),
            was_ready,
            draining: false,
            gpus: vec![0],
            prepared_at: PREPARED,
        }
    }

    fn ended(at: i64) -> NodeProcessState {
        NodeProcessState::Ended(NodeExit {
            how: ExitCause::Exited { code: 1 },
            at: Timestamp::from_micros(at),
            stopped: None,
            oom_kills: OomKills::Same,
        })
    }

    #[rstest]
    #[case::after_it_was_ready(ended(11_000_000), true, false)]
    #[case::before_it_was_ready(ended(11_000_000), false, false)]
    #[case::and_is_about_to_start_again(ended(9_000_000), false, true)]
    #[case::without_any_run(NodeProcessState::NeverStarted, false, true)]
    fn an_ended_node_uses_devices_only_if_it_may_be_starting(
        #[case] state: NodeProcessState,
        #[case] was_ready: bool,
        #[case] expected: bool,
    ) {
        assert_eq!(uses_devices(&record(was_ready), Some(state), PREPARED, || false), expected);
    }

    #[test]
    fn a_start_that_never_happened_ends_the_use_of_devices() {
        let later = PREPARED.after(START_GRACE);
        assert!(!uses_devices(&record(false), Some(NodeProcessState::NeverStarted), later, || false));
        assert!(!uses_devices(&record(false), Some(ended(9_000_000)), later, || false));
    }

    #[test]
    fn a_lost_node_uses_devices_while_it_has_processes() {
        for has_processes in [true, false] {
            let state = Some(NodeProcessState::Lost);
            assert_eq!(uses_devices(&record(true), state, PREPARED, || has_processes), has_processes);
        }
        assert!(uses_devices(&record(true), None, PREPARED, || false), "the state is unknown");
    }

    #[test]
    fn a_dropped_reservation_wakes_waiting_nodes_and_frees_its_devices() {
        let reservations = DeviceReservations::default();
        let node = muster_core::sample::node(1).id;
        let reservation = reservations.reserve(node, "fred", vec![0, 1]);
        assert_eq!(reservations.reserved.lock().len(), 1);
        let mut released = std::pin::pin!(reservations.released.notified());
        assert!(!released.as_mut().enable());
        drop(reservation);
        assert!(released.enable() && reservations.reserved.lock().is_empty());
    }
}
