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

/// What a provider is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Say whether what a recipe needs is there.
    Admit,
    /// Make what a cluster needs.
    Create,
    /// Remove what is left of a cluster.
    Delete,
    /// Change a cluster.
    Update,
    /// Start a node.
    Start,
    /// Stop a node.
    Stop,
    /// Look.
    Observe,
    /// Say whether a cluster is used.
    Activity,
    /// Do to a node what only its type can.
    Operate,
}

/// One thing that was done, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What.
    pub verb: Verb,
    /// To which node, if to one.
    pub node: Option<NodeId>,
    /// Under which fence.
    pub fence: Fence,
}

/// Processes that only exist in memory, and what is to go wrong with them.
pub struct World {
    state: Mutex<State>,
    changes: broadcast::Sender<WorldChange>,
    gate: watch::Sender<Option<(Verb, usize)>>,
}

#[derive(Default)]
struct State {
    running: HashMap<NodeId, Running>,
    /// How many were ever started.
    made: u64,
    exited: HashMap<NodeId, String>,
    /// Ended with the machine.
    rebooted: HashSet<NodeId>,
    fences: HashMap<ClusterId, Fence>,
    log: Vec<Entry>,
    failures: HashMap<Verb, Vec<ProviderError>>,
    panics: HashMap<Verb, usize>,
    ignored: HashSet<Verb>,
    activities: HashMap<ClusterId, Activity>,
    capacity: Option<Capacity>,
}

struct Running {
    /// Whose member it was when it was last looked at.
    cluster: ClusterId,
    physical_id: String,
    /// Where it was told to run.
    place: Placement,
}

impl Default for World {
    fn default() -> Self {
        Self { state: Mutex::default(), changes: broadcast::channel(64).0, gate: watch::Sender::new(None) }
    }
}

impl World {
    /// The next call of this verb fails so; said several times, several calls do.
    pub fn fail_next(&self, verb: Verb, error: ProviderError) {
        self.state.lock().failures.entry(verb).or_default().push(error);
    }

    /// The next calls of this verb panic, so many of them.
    pub fn panic_next(&self, verb: Verb, times: usize) {
        self.state.lock().panics.insert(verb, times);
    }

    /// Calls of this verb are answered with success, and change nothing.
    pub fn ignore(&self, verb: Verb) {
        self.state.lock().ignored.insert(verb);
    }

    /// Calls of this verb wait, until [`World::release`].
    pub fn hold(&self, verb: Verb) {
        self.hold_after(verb, 0);
    }

    /// Calls of this verb wait but for the first, so many of them since the beginning, until [`World::release`].
    pub fn hold_after(&self, verb: Verb, calls: usize) {
        self.gate.send_replace(Some((verb, calls)));
    }

    /// Lets everything go on.
    pub fn release(&self) {
        self.gate.send_replace(None);
    }

    /// Returns when so many calls of a verb have begun.
    pub async fn begun(&self, verb: Verb, count: usize) {
        let mut gate = self.gate.subscribe();
        let begun = async {
            while self.count(verb) < count {
                // Every entry in the log touches the gate, so this wakes.
                drop(gate.changed().await);
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, begun).await;
        assert!(in_time.is_ok(), "waited {PATIENCE:?} for {count} calls of {verb:?}: {:#?}", self.log());
    }

    /// A node dies, as processes do.
    pub fn kill(&self, node: NodeId, reason: &str) {
        let ran = {
            let mut state = self.state.lock();
            state.exited.insert(node, reason.to_owned());
            state.running.remove(&node).is_some()
        };
        if ran {
            // Nobody may be listening; whoever looks will see.
            drop(self.changes.send(WorldChange::Node(node)));
        }
    }

    /// The machine is restarted, and everything ends with it.
    pub fn reboot(&self) {
        let mut state = self.state.lock();
        let ended: Vec<NodeId> = state.running.drain().map(|(node, _)| node).collect();
        state.rebooted.extend(ended);
        drop(self.changes.send(WorldChange::Everything));
    }

    /// Whether a recipe is refused.
    pub(super) fn refusal(&self) -> Result<(), ProviderError> {
        match self.state.lock().failures.get_mut(&Verb::Admit).and_then(Vec::pop) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// From now on its machine has so much.
    pub fn has(&self, capacity: Capacity) {
        self.state.lock().capacity = Some(capacity);
    }

    pub(super) fn capacity(&self) -> Option<Capacity> {
        self.state.lock().capacity
    }

    /// From now on a cluster says this of its use; before, nobody can tell.
    pub fn used(&self, cluster: ClusterId, activity: Activity) {
        self.state.lock().activities.insert(cluster, activity);
    }

    pub(super) async fn activity(&self, target: ClusterTarget<'_>) -> Result<Activity, ProviderError> {
        self.enter(Verb::Activity, None, None).await?;
        Ok(self.state.lock().activities.get(&target.cluster.id).copied().unwrap_or(Activity::Unknown))
    }

    /// Which nodes run.
    pub fn running(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.state.lock().running.keys().copied().collect();
        nodes.sort_unstable();
        nodes
    }

    /// Starts something that no row tells of.
    pub fn start_leftover(&self, node: NodeId) {
        let cluster = ClusterId::from_uuid(*node.as_uuid());
        let leftover = Running { cluster, physical_id: "leftover".to_owned(), place: Placement::default() };
        self.state.lock().running.insert(node, leftover);
    }

    pub(super) fn remove(&self, leftover: ProviderResource) {
        self.state.lock().running.retain(|node, running| match leftover {
            ProviderResource::Cluster(cluster) => running.cluster != cluster,
            ProviderResource::Node(id) => *node != id,
        });
    }

    /// All that was done.
    pub fn log(&self) -> Vec<Entry> {
        self.state.lock().log.clone()
    }

    /// How often a verb was called.
    pub fn count(&self, verb: Verb) -> usize {
        self.state.lock().log.iter().filter(|entry| entry.verb == verb).count()
    }

    /// Records a write, waits at the gate, and refuses what comes too late or is to fail.
    async fn admit(
        &self,
        verb: Verb,
        call: FencedCall<'_>,
        node: Option<NodeId>,
    ) -> Result<(), ProviderError> {
        self.enter(verb, Some(call), node).await
    }

    /// The same for reads, which have no fence.
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
            panic!("the fake was told to panic at {verb:?}");
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
        let new = Running { cluster: call.cluster.id, physical_id, place: Placement::of(node) };
        Ok(Some(state.running.entry(node.id).or_insert(new).physical_id.clone()))
    }

    /// Does to a node what only some types can; the log has it.
    pub(super) async fn operate(&self, call: FencedCall<'_>, node: &Node) -> Result<(), ProviderError> {
        self.admit(Verb::Operate, call, Some(node.id)).await
    }

    /// What a node that runs is.
    pub fn physical_id(&self, node: NodeId) -> Option<String> {
        self.state.lock().running.get(&node).map(|running| running.physical_id.clone())
    }

    /// Where a node that runs was told to.
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
        // Nodes go from one cluster to another without a word to whoever runs them.
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
