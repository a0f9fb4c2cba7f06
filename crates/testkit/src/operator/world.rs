//! The world behind the operator: who may write to it, what goes wrong, and what others do to it.

use std::collections::HashMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use muster_core::action::Fence;
use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;
use muster_core::node::{NodeRole, Observation};
use muster_engine::ports::provider::{
    ClusterTarget, FencedCall, ObjectState, Observed, ObservedGroup, ObservedMember, ProviderError,
    WorldChange,
};
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};

use super::apps::FakeApps;
use super::state::{Deed, State, Verb};
use crate::eventually::PATIENCE;

/// What the world says instead of what is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// It cannot be asked.
    Blind,
    /// It answers that it does not know.
    Unknown,
}

/// Objects and members that only exist in memory.
pub struct OperatorWorld {
    /// The apps that use its clusters.
    pub apps: Arc<FakeApps>,
    state: Mutex<State>,
    faults: Mutex<Faults>,
    changes: broadcast::Sender<WorldChange>,
    gate: watch::Sender<Gate>,
}

#[derive(Default)]
struct Faults {
    failures: HashMap<Verb, Vec<ProviderError>>,
    lost: HashMap<Verb, u32>,
    begun: HashMap<Verb, usize>,
    fences: HashMap<ClusterId, Fence>,
    lie: Option<Lie>,
}

/// Where calls wait: before they do anything, or before anybody hears of it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Gate {
    before: Option<Verb>,
    after: Option<Verb>,
}

impl Default for OperatorWorld {
    fn default() -> Self {
        Self {
            apps: Arc::default(),
            state: Mutex::default(),
            faults: Mutex::default(),
            changes: broadcast::channel(256).0,
            gate: watch::Sender::default(),
        }
    }
}

/// What goes wrong.
impl OperatorWorld {
    /// The next call of this verb fails so; said several times, several calls do.
    pub fn fail_next(&self, verb: Verb, error: ProviderError) {
        self.faults.lock().failures.entry(verb).or_default().push(error);
    }

    /// The next call of this verb is acknowledged and lost.
    pub fn lose_next(&self, verb: Verb) {
        *self.faults.lock().lost.entry(verb).or_default() += 1;
    }

    /// Calls of this verb wait before they do anything, until [`OperatorWorld::release`].
    pub fn hold(&self, verb: Verb) {
        self.gate.send_modify(|gate| gate.before = Some(verb));
    }

    /// Calls of this verb do what they are told, and nobody hears of it until [`OperatorWorld::release`].
    pub fn hold_answers(&self, verb: Verb) {
        self.gate.send_modify(|gate| gate.after = Some(verb));
    }

    /// Lets everything go on.
    pub fn release(&self) {
        self.gate.send_replace(Gate::default());
    }

    /// Returns when so many calls of a verb have begun, and those held after their deed have done it.
    pub async fn begun(&self, verb: Verb, count: usize) {
        let mut gate = self.gate.subscribe();
        let begun = async {
            while self.faults.lock().begun.get(&verb).copied().unwrap_or(0) < count {
                // Every call touches the gate, so this wakes.
                drop(gate.changed().await);
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, begun).await;
        assert!(
            in_time.is_ok(),
            "waited {PATIENCE:?} for {count} calls of {verb:?}: {:?}",
            self.faults.lock().begun
        );
    }

    /// From now on it lies about how things are, or does not any more.
    pub fn lie(&self, lie: Option<Lie>) {
        self.faults.lock().lie = lie;
        drop(self.changes.send(WorldChange::Everything));
    }

    /// The operator stops: objects are written, and nothing comes of it.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
    }

    /// The operator goes on.
    pub fn go_on(&self) {
        self.change(None, |state| state.stopped = false);
    }

    /// More than so many workers are not made, whatever the object says.
    pub fn limit_silently(&self, limit: u32) {
        self.state.lock().silent_limit = Some(limit);
    }

    /// A rule writes this over anything larger.
    pub fn clamp(&self, clamp: u32) {
        self.state.lock().clamp = Some(clamp);
    }

    /// Whether deleted objects stay until somebody lets them go.
    pub fn finalize(&self, finalizer: bool) {
        self.change(None, |state| state.finalizer = finalizer);
    }
}

/// What others do.
impl OperatorWorld {
    /// Somebody else changes a group.
    pub fn edit(&self, id: ClusterId, change: impl FnOnce(&mut ObservedGroup)) {
        self.change(Some(id), |state| {
            if let Some(thing) = state.objects.get_mut(&id) {
                change(&mut thing.spec.groups[0]);
            }
        });
    }

    /// An object is written although a fence should have stopped that: by an engine that was paused past the cluster's end, or
    /// by others from a backup.
    pub fn write_late(&self, cluster: &Cluster) {
        self.change(Some(cluster.id), |state| state.create(cluster, Fence(0)));
    }

    /// Somebody else deletes the object.
    pub fn remove(&self, id: ClusterId) {
        self.change(Some(id), |state| drop(state.objects.remove(&id)));
    }

    /// Its operator says why it will not act.
    pub fn refuse(&self, id: ClusterId, why: &str) {
        self.change(Some(id), |state| {
            if let Some(thing) = state.objects.get_mut(&id) {
                thing.spec.refused = vec![why.to_owned()];
            }
        });
    }

    /// The object says that workers are known to the next head, too.
    pub fn remember(&self, id: ClusterId) {
        self.change(Some(id), |state| {
            if let Some(thing) = state.objects.get_mut(&id) {
                thing.spec.workers_outlive_head = true;
            }
        });
    }

    /// Changes a member.
    pub fn with_member(&self, id: ClusterId, name: &str, change: impl FnOnce(&mut ObservedMember)) {
        self.change(Some(id), |state| {
            let members = state.objects.get_mut(&id).into_iter().flat_map(|thing| &mut thing.members);
            members.filter(|member| member.name == name).take(1).for_each(change_once(change));
        });
    }

    /// A member is gone; its operator makes another.
    pub fn lose(&self, id: ClusterId, name: &str) {
        self.change(Some(id), |state| {
            if let Some(thing) = state.objects.get_mut(&id) {
                thing.members.retain(|member| member.name != name);
            }
        });
    }
}

fn change_once(change: impl FnOnce(&mut ObservedMember)) -> impl FnMut(&mut ObservedMember) {
    let mut change = Some(change);
    move |member| {
        if let Some(change) = change.take() {
            change(member);
        }
    }
}

/// What there is.
impl OperatorWorld {
    /// The names of the workers that are there, in order.
    pub fn workers(&self, id: ClusterId) -> Vec<String> {
        let state = self.state.lock();
        let members = state.objects.get(&id).into_iter().flat_map(|thing| &thing.members);
        let workers = members.filter(|member| member.role == NodeRole::Worker);
        let mut names: Vec<String> = workers.map(|member| member.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// What an object says of its first group.
    pub fn group(&self, id: ClusterId) -> Option<ObservedGroup> {
        self.state.lock().objects.get(&id)?.spec.groups.first().cloned()
    }

    /// Names that an object holds as victims.
    pub fn victims(&self, id: ClusterId) -> Vec<String> {
        self.state.lock().objects.get(&id).map(|thing| thing.victims.clone()).unwrap_or_default()
    }

    /// The clusters whose objects are there.
    pub(super) fn discovered(&self) -> Vec<ClusterId> {
        self.state.lock().objects.keys().copied().collect()
    }

    /// How many objects there are.
    pub fn objects(&self) -> usize {
        self.state.lock().objects.len()
    }

    /// All that was done, looks aside.
    pub fn deeds(&self) -> Vec<Deed> {
        self.state.lock().deeds.clone()
    }

    /// How often somebody looked.
    pub fn looks(&self) -> usize {
        self.faults.lock().begun.get(&Verb::Observe).copied().unwrap_or(0)
    }

    /// How often a verb was called.
    pub fn count(&self, verb: Verb) -> usize {
        self.deeds().iter().filter(|deed| deed.verb == verb).count()
    }
}

impl OperatorWorld {
    /// Changes something, lets the operator see it, and tells those who listen.
    fn change<T>(&self, id: Option<ClusterId>, change: impl FnOnce(&mut State) -> T) -> T {
        let result = {
            let mut state = self.state.lock();
            let result = change(&mut state);
            state.converge();
            result
        };
        // Nobody may be listening; whoever looks will see.
        drop(self.changes.send(id.map_or(WorldChange::Everything, WorldChange::Cluster)));
        result
    }

    async fn pass(&self, waits: impl Fn(&Gate) -> bool) {
        let mut gate = self.gate.subscribe();
        drop(gate.wait_for(|gate| !waits(gate)).await);
    }

    fn note(&self, verb: Verb) {
        *self.faults.lock().begun.entry(verb).or_default() += 1;
        self.gate.send_modify(|_| {});
    }

    /// Does what it is told, unless that comes too late, is to fail, or is to get lost.
    pub(super) async fn call(
        &self,
        verb: Verb,
        call: FencedCall<'_>,
        deed: impl FnOnce(&mut State) -> Result<bool, ProviderError> + Send,
    ) -> Result<(), ProviderError> {
        let id = call.cluster.id;
        let held_after = self.gate.borrow().after == Some(verb);
        if !held_after {
            self.note(verb);
        }
        self.pass(|gate| gate.before == Some(verb)).await;
        if self.admit(verb, call)? {
            let lasting = self.change(Some(id), deed)?;
            self.state.lock().deeds.push(Deed { verb, fence: call.fence, lasting });
        } else {
            self.state.lock().deeds.push(Deed { verb, fence: call.fence, lasting: false });
        }
        if held_after {
            self.note(verb);
        }
        self.pass(|gate| gate.after == Some(verb)).await;
        Ok(())
    }

    /// Whether it is done at all; an error says why it is refused.
    fn admit(&self, verb: Verb, call: FencedCall<'_>) -> Result<bool, ProviderError> {
        let mut faults = self.faults.lock();
        let highest = faults.fences.entry(call.cluster.id).or_default();
        if call.fence < *highest {
            return Err(ProviderError::overtaken(call.fence, *highest));
        }
        *highest = call.fence;
        if let Some(failures) = faults.failures.get_mut(&verb).filter(|failures| !failures.is_empty()) {
            return Err(failures.remove(0));
        }
        match faults.lost.get_mut(&verb).filter(|lost| **lost > 0) {
            Some(lost) => {
                *lost -= 1;
                Ok(false)
            }
            None => Ok(true),
        }
    }

    pub(super) async fn observe(&self, target: ClusterTarget<'_>) -> Result<Observed, ProviderError> {
        self.note(Verb::Observe);
        self.pass(|gate| gate.before == Some(Verb::Observe)).await;
        let lie = self.faults.lock().lie;
        let mut seen = self.state.lock().observe(target.cluster.id);
        match lie {
            None => {}
            Some(Lie::Blind) => return Err(ProviderError::transient("Blind", "the server does not answer")),
            Some(Lie::Unknown) => {
                let unknown = Observation::Unknown { reason: "the server does not answer".to_owned() };
                seen.members.iter_mut().for_each(|member| member.observation = unknown.clone());
                seen.object = ObjectState::Unknown;
            }
        }
        Ok(seen)
    }

    pub(super) fn changes(&self) -> BoxStream<'static, WorldChange> {
        WorldChange::stream(self.changes.subscribe())
    }
}
