//! The world behind the operator: fences, injected faults, and changes by other programs.

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
use super::state::{OperatorCall, OperatorState, Verb};
use crate::eventually::PATIENCE;

/// A fault of observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObservationFault {
    /// Observations fail.
    Blind,
    /// Observations are unknown.
    Unknown,
}

/// Objects and members that exist only in memory.
pub struct OperatorWorld {
    /// The apps that use the clusters.
    pub apps: Arc<FakeApps>,
    state: Mutex<OperatorState>,
    faults: Mutex<Faults>,
    changes: broadcast::Sender<WorldChange>,
    gate: watch::Sender<CallGate>,
}

#[derive(Default)]
struct Faults {
    failures: HashMap<Verb, Vec<ProviderError>>,
    lost: HashMap<Verb, u32>,
    begun: HashMap<Verb, usize>,
    fences: HashMap<ClusterId, Fence>,
    lie: Option<ObservationFault>,
    differs: Option<bool>,
}

/// The points at which calls are held: before their effect, or before their response.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct CallGate {
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

/// Injected faults.
impl OperatorWorld {
    /// Makes the next call of this verb fail; may be called several times for several failures.
    pub fn fail_next(&self, verb: Verb, error: ProviderError) {
        self.faults.lock().failures.entry(verb).or_default().push(error);
    }

    /// Makes the next call of this verb succeed without an effect.
    pub fn lose_next(&self, verb: Verb) {
        *self.faults.lock().lost.entry(verb).or_default() += 1;
    }

    /// Makes calls of this verb wait before their effect until [`OperatorWorld::release`].
    pub fn hold(&self, verb: Verb) {
        self.gate.send_modify(|gate| gate.before = Some(verb));
    }

    /// Makes calls of this verb wait after their effect until [`OperatorWorld::release`].
    pub fn hold_answers(&self, verb: Verb) {
        self.gate.send_modify(|gate| gate.after = Some(verb));
    }

    /// Releases all held calls.
    pub fn release(&self) {
        self.gate.send_replace(CallGate::default());
    }

    /// Waits until this many calls of a verb have begun; calls that are held after their effect count once they have
    /// had it.
    pub async fn begun(&self, verb: Verb, count: usize) {
        let mut gate = self.gate.subscribe();
        let begun = async {
            while self.faults.lock().begun.get(&verb).copied().unwrap_or(0) < count {
                // Every call notifies the gate.
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

    /// Sets or ends false observations.
    pub fn lie(&self, lie: Option<ObservationFault>) {
        self.faults.lock().lie = lie;
        drop(self.changes.send(WorldChange::Everything));
    }

    /// Sets the result of comparing the object with the recipe of an update; none if they are not compared.
    pub fn compare(&self, differs: Option<bool>) {
        self.faults.lock().differs = differs;
    }

    pub(super) fn differs(&self) -> Option<bool> {
        self.faults.lock().differs
    }

    /// Stops the operator: objects are written, and members do not change.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
    }

    /// Resumes the operator.
    pub fn resume(&self) {
        self.change(None, |state| state.stopped = false);
    }

    /// Limits the number of created workers, without a message in the object.
    pub fn limit_silently(&self, limit: u32) {
        self.state.lock().silent_limit = Some(limit);
    }

    /// Sets an admission rule that reduces larger numbers to this one.
    pub fn clamp(&self, clamp: u32) {
        self.state.lock().clamp = Some(clamp);
    }

    /// Sets whether deleted objects stay until their finalizers are released.
    pub fn finalize(&self, finalizer: bool) {
        self.change(None, |state| state.finalizer = finalizer);
    }
}

/// Changes by other programs.
impl OperatorWorld {
    /// Changes a group, as another program would.
    pub fn edit(&self, id: ClusterId, change: impl FnOnce(&mut ObservedGroup)) {
        self.change(Some(id), |state| {
            if let Some(thing) = state.objects.get_mut(&id) {
                change(&mut thing.spec.groups[0]);
            }
        });
    }

    /// Writes an object that a fence should have prevented: by an engine that was paused past the cluster's end, or
    /// from a backup.
    pub fn write_late(&self, cluster: &Cluster) {
        self.change(Some(cluster.id), |state| state.create(cluster, Fence(0)));
    }

    /// Deletes the object, as another program would.
    pub fn remove(&self, id: ClusterId) {
        self.change(Some(id), |state| drop(state.objects.remove(&id)));
    }

    /// Makes the operator reject an object with a reason.
    pub fn refuse(&self, id: ClusterId, why: &str) {
        self.change(Some(id), |state| {
            if let Some(thing) = state.objects.get_mut(&id) {
                thing.spec.refused = vec![why.to_owned()];
            }
        });
    }

    /// Makes the object declare that workers can rejoin the next head.
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

    /// Deletes a member; the operator creates another one.
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

/// The present state.
impl OperatorWorld {
    /// The names of the workers, in order.
    pub fn workers(&self, id: ClusterId) -> Vec<String> {
        let state = self.state.lock();
        let members = state.objects.get(&id).into_iter().flat_map(|thing| &thing.members);
        let workers = members.filter(|member| member.role == NodeRole::Worker);
        let mut names: Vec<String> = workers.map(|member| member.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// The first group of an object.
    pub fn group(&self, id: ClusterId) -> Option<ObservedGroup> {
        self.state.lock().objects.get(&id)?.spec.groups.first().cloned()
    }

    /// The names of victims in an object.
    pub fn victims(&self, id: ClusterId) -> Vec<String> {
        self.state.lock().objects.get(&id).map(|thing| thing.victims.clone()).unwrap_or_default()
    }

    /// The clusters with objects.
    pub(super) fn discovered(&self) -> Vec<ClusterId> {
        self.state.lock().objects.keys().copied().collect()
    }

    /// The number of objects.
    pub fn objects(&self) -> usize {
        self.state.lock().objects.len()
    }

    /// The log of all calls without observations.
    pub fn calls(&self) -> Vec<OperatorCall> {
        self.state.lock().calls.clone()
    }

    /// The number of observations.
    pub fn observations(&self) -> usize {
        self.faults.lock().begun.get(&Verb::Observe).copied().unwrap_or(0)
    }

    /// The number of calls of a verb.
    pub fn count(&self, verb: Verb) -> usize {
        self.calls().iter().filter(|call| call.verb == verb).count()
    }
}

impl OperatorWorld {
    /// Changes the state, runs a pass of the operator, and notifies subscribers.
    fn change<T>(&self, id: Option<ClusterId>, change: impl FnOnce(&mut OperatorState) -> T) -> T {
        let result = {
            let mut state = self.state.lock();
            let result = change(&mut state);
            state.converge();
            result
        };
        // There may be no subscriber; observers read the state.
        drop(self.changes.send(id.map_or(WorldChange::Everything, WorldChange::Cluster)));
        result
    }

    async fn pass(&self, waits: impl Fn(&CallGate) -> bool) {
        let mut gate = self.gate.subscribe();
        drop(gate.wait_for(|gate| !waits(gate)).await);
    }

    fn count_call(&self, verb: Verb) {
        *self.faults.lock().begun.entry(verb).or_default() += 1;
        self.gate.send_modify(|_| {});
    }

    /// Executes a call, unless its fence is outdated, or a fault was injected.
    pub(super) async fn call(
        &self,
        verb: Verb,
        call: FencedCall<'_>,
        effect: impl FnOnce(&mut OperatorState) -> Result<bool, ProviderError> + Send,
    ) -> Result<(), ProviderError> {
        let id = call.cluster.id;
        let held_after = self.gate.borrow().after == Some(verb);
        if !held_after {
            self.count_call(verb);
        }
        self.pass(|gate| gate.before == Some(verb)).await;
        if self.admit(verb, call)? {
            let lasting = self.change(Some(id), effect)?;
            self.state.lock().calls.push(OperatorCall { verb, fence: call.fence, lasting });
        } else {
            self.state.lock().calls.push(OperatorCall { verb, fence: call.fence, lasting: false });
        }
        if held_after {
            self.count_call(verb);
        }
        self.pass(|gate| gate.after == Some(verb)).await;
        Ok(())
    }

    /// Checks the fence and injected faults of a call; false if the call must have no effect.
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
        self.count_call(Verb::Observe);
        self.pass(|gate| gate.before == Some(Verb::Observe)).await;
        let lie = self.faults.lock().lie;
        let mut seen = self.state.lock().observe(target.cluster.id);
        match lie {
            None => {}
            Some(ObservationFault::Blind) => {
                return Err(ProviderError::transient("Blind", "the server does not answer"));
            }
            Some(ObservationFault::Unknown) => {
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
