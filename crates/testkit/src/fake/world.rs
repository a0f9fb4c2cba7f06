//! The world behind the fake provider.

use std::collections::{HashMap, HashSet};

use futures::stream::BoxStream;
use muster_core::action::Fence;
use muster_core::capacity::Capacity;
use muster_core::ids::{ClusterId, NodeId};
use muster_core::limits::Activity;
use muster_core::node::{Node, Observation};
use muster_core::placement::Placement;
use muster_engine::ports::provider::{
    ClusterTarget, FencedCall, Observed, ProviderError, ProviderResource, WorldChange,
};
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use crate::eventually::PATIENCE;

/// The calls of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Check the requirements of a recipe.
    Admit,
    /// Prepare a cluster.
    Create,
    /// Clear the leftovers of a cluster.
    Delete,
    /// Start a node.
    Start,
    /// Stop a node.
    Stop,
    /// Observe.
    Observe,
    /// Report the activity of a cluster.
    Activity,
    /// Run an operation of the node's type.
    Operate,
    /// Build an image.
    Build,
    /// Start the command of a job.
    Launch,
    /// Follow the command of a job.
    Follow,
}

/// An entry of the log of calls, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The call.
    pub verb: Verb,
    /// The node, if the call has one.
    pub node: Option<NodeId>,
    /// The fence of the call.
    pub fence: Fence,
}

/// Processes that exist only in memory, and injected faults.
pub struct World {
    state: Mutex<FakeState>,
    changes: broadcast::Sender<WorldChange>,
    gate: watch::Sender<Option<(Verb, usize)>>,
}

#[derive(Default)]
struct FakeState {
    running: HashMap<NodeId, FakeNode>,
    /// The number of all starts.
    made: u64,
    exited: HashMap<NodeId, String>,
    /// The nodes that ended with the machine.
    rebooted: HashSet<NodeId>,
    fences: HashMap<ClusterId, Fence>,
    log: Vec<Entry>,
    failures: HashMap<Verb, Vec<ProviderError>>,
    panics: HashMap<Verb, usize>,
    ignored: HashSet<Verb>,
    activities: HashMap<ClusterId, Activity>,
    capacity: Option<Capacity>,
}

struct FakeNode {
    /// The cluster of the last observation.
    cluster: ClusterId,
    physical_id: String,
    /// The requested placement.
    place: Placement,
}

impl Default for World {
    fn default() -> Self {
        Self { state: Mutex::default(), changes: broadcast::channel(64).0, gate: watch::Sender::new(None) }
    }
}

impl World {
    /// Makes the next call of this verb fail; may be called several times for several failures.
    pub fn fail_next(&self, verb: Verb, error: ProviderError) {
        self.state.lock().failures.entry(verb).or_default().push(error);
    }

    /// Makes the next `times` calls of this verb panic.
    pub fn panic_next(&self, verb: Verb, times: usize) {
        self.state.lock().panics.insert(verb, times);
    }

    /// Makes calls of this verb succeed without an effect.
    pub fn ignore(&self, verb: Verb) {
        self.state.lock().ignored.insert(verb);
    }

    /// Makes calls of this verb wait until [`World::release`].
    pub fn hold(&self, verb: Verb) {
        self.hold_after(verb, 0);
    }

    /// Makes calls of this verb after the first `calls` wait until [`World::release`].
    pub fn hold_after(&self, verb: Verb, calls: usize) {
        self.gate.send_replace(Some((verb, calls)));
    }

    /// Releases all held calls.
    pub fn release(&self) {
        self.gate.send_replace(None);
    }

    /// Waits until this many calls of a verb have begun.
    pub async fn begun(&self, verb: Verb, count: usize) {
        let mut gate = self.gate.subscribe();
        let begun = async {
            while self.count(verb) < count {
                // Every entry in the log notifies the gate.
                drop(gate.changed().await);
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, begun).await;
        assert!(in_time.is_ok(), "waited {PATIENCE:?} for {count} calls of {verb:?}: {:#?}", self.log());
    }

    /// Kills a node.
    pub fn kill(&self, node: NodeId, reason: &str) {
        let ran = {
            let mut state = self.state.lock();
            state.exited.insert(node, reason.to_owned());
            state.running.remove(&node).is_some()
        };
        if ran {
            // There may be no subscriber; observers read the state.
            drop(self.changes.send(WorldChange::Node(node)));
        }
    }

    /// Restarts the machine, which ends all nodes.
    pub fn reboot(&self) {
        let mut state = self.state.lock();
        let ended: Vec<NodeId> = state.running.drain().map(|(node, _)| node).collect();
        state.rebooted.extend(ended);
        drop(self.changes.send(WorldChange::Everything));
    }

    /// The refusal of a recipe, if one was set.
    pub(super) fn refusal(&self) -> Result<(), ProviderError> {
        match self.state.lock().failures.get_mut(&Verb::Admit).and_then(Vec::pop) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Sets the capacity of the machine.
    pub fn has(&self, capacity: Capacity) {
        self.state.lock().capacity = Some(capacity);
    }

    pub(super) fn capacity(&self) -> Option<Capacity> {
        self.state.lock().capacity
    }

    /// Sets the activity of a cluster, which is initially unknown.
    pub fn used(&self, cluster: ClusterId, activity: Activity) {
        self.state.lock().activities.insert(cluster, activity);
    }

    pub(super) async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        self.enter(Verb::Activity, None, None).await?;
        Ok(self.state.lock().activities.get(&target.cluster.id).copied().unwrap_or(Activity::Unknown))
    }

    /// The running nodes.
    pub fn running(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.state.lock().running.keys().copied().collect();
        nodes.sort_unstable();
        nodes
    }

    /// Starts a node without a row.
    pub fn start_leftover(&self, node: NodeId) {
        let cluster = ClusterId::from_uuid(*node.as_uuid());
        let leftover = FakeNode { cluster, physical_id: "leftover".to_owned(), place: Placement::default() };
        self.state.lock().running.insert(node, leftover);
    }

    pub(super) fn remove(&self, leftover: ProviderResource) {
        self.state.lock().running.retain(|node, running| match leftover {
            ProviderResource::Cluster(cluster) => running.cluster != cluster,
            ProviderResource::Node(id) => *node != id,
        });
    }

    /// The log of all calls.
    pub fn log(&self) -> Vec<Entry> {
        self.state.lock().log.clone()
    }

    /// The number of calls of a verb.
    pub fn count(&self, verb: Verb) -> usize {
        self.state.lock().log.iter().filter(|entry| entry.verb == verb).count()
    }

    /// Records a call of a task, waits at the gate, and returns injected failures.
    pub(super) async fn work(&self, verb: Verb) -> Result<(), ProviderError> {
        self.enter(verb, None, None).await
    }

    /// Records a write, waits at the gate, and returns errors for outdated fences and injected failures.
    async fn admit(
        &self,
        verb: Verb,
        call: FencedCall<'_>,
        node: Option<NodeId>,
    ) -> Result<(), ProviderError> {
        self.enter(verb, Some(call), node).await
    }

    /// Records a call, waits at the gate, and checks the fence of a write; reads have no fence.
    async fn enter(
        &self,
        verb: Verb,
        write: Option<FencedCall<'_>>,
        node: Option<NodeId>,
    ) -> Result<(), ProviderError> {
        let mut number = usize::MAX;
        if verb != Verb::Observe {
            let fence = write.map(|call| call.fence).unwrap_or_default();
            self.state.lock().log.push(Entry { verb, node, fence });
            number = self.count(verb);
        }
        self.gate.send_modify(|_| {});
        let mut gate = self.gate.subscribe();
        drop(gate.wait_for(|held| held.is_none_or(|(of, calls)| of != verb || number <= calls)).await);
        let mut state = self.state.lock();
        if let Some(call) = write {
            let highest = state.fences.entry(call.cluster.id).or_default();
            if call.fence < *highest {
                return Err(ProviderError::overtaken(call.fence, *highest));
            }
            *highest = call.fence;
        }
        if let Some(left) = state.panics.get_mut(&verb).filter(|left| **left > 0) {
            *left -= 1;
            drop(state);
            panic!("an injected panic at {verb:?}");
        }
        match state.failures.get_mut(&verb).filter(|failures| !failures.is_empty()) {
            Some(failures) => Err(failures.remove(0)),
            None => Ok(()),
        }
    }

    pub(super) async fn touch(&self, verb: Verb, call: FencedCall<'_>) -> Result<(), ProviderError> {
        self.admit(verb, call, None).await?;
        if verb == Verb::Delete {
            self.state.lock().running.retain(|_, running| running.cluster != call.cluster.id);
        }
        Ok(())
    }

    pub(super) async fn act(
        &self,
        verb: Verb,
        call: FencedCall<'_>,
        node: &Node,
    ) -> Result<Option<String>, ProviderError> {
        self.admit(verb, call, Some(node.id)).await?;
        let mut state = self.state.lock();
        if state.ignored.contains(&verb) {
            return Ok((verb == Verb::Start).then(|| "fake-ignored".to_owned()));
        }
        state.exited.remove(&node.id);
        state.rebooted.remove(&node.id);
        if verb == Verb::Stop {
            state.running.remove(&node.id);
            return Ok(None);
        }
        state.made += 1;
        let physical_id = format!("fake-{}", state.made);
        let new = FakeNode { cluster: call.cluster.id, physical_id, place: Placement::from_node(node) };
        Ok(Some(state.running.entry(node.id).or_insert(new).physical_id.clone()))
    }

    /// Runs an operation on a node, which is only logged.
    pub(super) async fn operate(&self, call: FencedCall<'_>, node: &Node) -> Result<(), ProviderError> {
        self.admit(Verb::Operate, call, Some(node.id)).await
    }

    /// The physical id of a running node.
    pub fn physical_id(&self, node: NodeId) -> Option<String> {
        self.state.lock().running.get(&node).map(|running| running.physical_id.clone())
    }

    /// The requested placement of a running node.
    pub fn place(&self, node: NodeId) -> Option<Placement> {
        self.state.lock().running.get(&node).map(|running| running.place.clone())
    }

    pub(super) async fn observe(
        &self,
        target: ClusterTarget<'_>,
        nodes: &[Node],
    ) -> Result<Observed, ProviderError> {
        self.enter(Verb::Observe, None, None).await?;
        let mut state = self.state.lock();
        // Nodes join and leave clusters without a call of the provider, so that observations update the cluster.
        for node in nodes {
            if let Some(running) = state.running.get_mut(&node.id) {
                running.cluster = target.cluster.id;
            }
        }
        let look = |node: &Node| {
            let seen = match (state.running.get(&node.id), state.exited.get(&node.id)) {
                (Some(running), _) => Observation::Running { physical_id: running.physical_id.clone() },
                (None, _) if state.rebooted.contains(&node.id) => Observation::HostRestarted,
                (None, Some(reason)) => Observation::Exited { reason: reason.clone() },
                (None, None) => Observation::Absent,
            };
            (node.id, seen)
        };
        Ok(Observed { nodes: nodes.iter().map(look).collect(), ..Observed::default() })
    }

    pub(super) fn changes(&self) -> BoxStream<'static, WorldChange> {
        WorldChange::stream(self.changes.subscribe())
    }
}
