//! One action in the hands of an engine: what it works on, and how it is told to stop.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_core::action::{Action, ActionKind, ActionStatus, Cause, Control, Fence, Target};
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::ids::{ActionId, NodeId};
use muster_core::node::{Node, NodeStatus, Seen};
use muster_core::policy::Binding;
use muster_core::profile::Profile;
use muster_core::time::{Span, Timestamp};
use muster_store::StoreError;
use muster_store::commands::{End, Record, Ticket};
use muster_store::reads::{ActionQuery, Subject};
use serde_json::{Map, Value};

use crate::engine::{Inner, Life};
use crate::fresh::new_id;
use crate::hub::{Follow, Topic};
use crate::provider::{Call, Capabilities, Membership, Observed, Provider, ProviderError};

/// Why an action does not go on, other than by reaching its goal.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Somebody cancelled it.
    Cancelled,
    /// Somebody suspended it.
    Suspended,
    /// It took too long.
    TimedOut,
    /// This engine is stopping; another one goes on.
    HandOver,
    /// Another engine has it.
    Fenced,
    /// It cannot work.
    Failed(String),
    /// The provider cannot do it now; the action makes room for others until its next try.
    NotNow(String),
    /// The database did not answer; again in a while.
    Later(#[expect(dead_code, reason = "read by whoever reads the log")] String),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Fenced(_) => Self::Fenced,
            error if error.is_transient() => Self::Later(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// An action with everything it works on.
pub(crate) struct Work {
    pub(crate) inner: Arc<Inner>,
    life: Arc<Life>,
    pub(crate) action: Action,
    pub(crate) cluster: Cluster,
    pub(crate) profile: Profile,
    pub(crate) nodes: Vec<Node>,
    places: HashMap<NodeId, usize>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) capabilities: Capabilities,
    /// The child of this action for a node, while it has not ended.
    pub(crate) children: HashMap<NodeId, ActionId>,
    /// Nodes that this action gave up before, and why: it does not try them again.
    pub(crate) given_up: HashMap<NodeId, String>,
    /// What policies and steps left for each other.
    pub(crate) data: Map<String, Value>,
    /// Members whose rows go with the next commit.
    pub(crate) gone: Vec<NodeId>,
    /// Nodes whose rows are behind.
    pub(crate) dirty: HashSet<NodeId>,
    /// Nodes among these that have no rows yet.
    pub(crate) unborn: HashSet<NodeId>,
    /// Children whose rows are behind.
    pub(crate) ended: Vec<(End, Vec<ActionId>)>,
    /// Events that go out with the next commit.
    pub(crate) events: Vec<Event>,
    /// Nodes whose start was recorded, by an engine before us or by a step that was given up, without what became of it.
    unsure: HashSet<NodeId>,
    follow: Follow,
    told: Mutex<Told>,
    /// The world of its cluster, and when it was last looked at.
    pub(crate) world: Follow,
    pub(crate) looked: u64,
}

/// What the action was told, as far as it was read.
#[derive(Debug, Default)]
struct Told {
    control: Option<Control>,
    cancelled_children: HashSet<ActionId>,
    /// Which version of the row was read.
    version: u64,
}

impl Work {
    /// Reads all that a claimed action is about, except for what came with the claim.
    pub(crate) async fn load(
        inner: &Arc<Inner>,
        life: &Arc<Life>,
        action: Action,
        taken_over: bool,
        subject: Option<Subject>,
    ) -> Result<Self, Stop> {
        let follow = inner.hub.follow(Topic::Action(action.id));
        // What it was told before this was not read by anybody yet.
        let version = follow.version().wrapping_sub(1);
        let gone = |what: &str| Stop::Failed(format!("its {what} is not there any more"));
        let store = &inner.store;
        let id = action.cluster_id.ok_or_else(|| gone("cluster"))?;
        let subject = match subject {
            Some(subject) => Some(subject),
            None => store.subject(id).await?,
        };
        let subject = subject.filter(|subject| subject.cluster.deleted_at.is_none());
        let Subject { cluster, profile } = subject.ok_or_else(|| gone("cluster or profile"))?;
        // A cluster that is only being made has nothing to be read yet.
        let fresh = action.kind == ActionKind::ClusterCreate && !taken_over;
        let nodes = if fresh { Vec::new() } else { store.members(id).await? };
        let bindings = if fresh { Vec::new() } else { store.bindings(id).await? };
        let children = if taken_over { children_of(inner, action.id).await? } else { Children::default() };
        let provider = inner.provider(&action.instance).ok_or_else(|| {
            Stop::Failed(format!("no provider serves '{}' in this engine", action.instance))
        })?;
        let unknown = || Stop::Failed(format!("'{}' does not know {}", action.instance, profile.kind));
        let capabilities =
            provider.capabilities(&profile.kind, cluster.flavor.as_deref()).ok_or_else(unknown)?;
        let data = action.data.as_object().cloned().unwrap_or_default();
        let told = Mutex::new(Told { control: action.control, version, ..Told::default() });
        let world = inner.hub.follow(Topic::World(id));
        let starting = |node: &&Node| matches!(node.status, NodeStatus::Creating | NodeStatus::Recovering);
        let unsure = nodes.iter().filter(starting).map(|node| node.id).collect();
        Ok(Self {
            inner: Arc::clone(inner),
            life: Arc::clone(life),
            action,
            cluster,
            profile,
            places: places(&nodes),
            nodes,
            bindings,
            provider,
            capabilities,
            children: children.open,
            given_up: children.given_up,
            data,
            gone: Vec::new(),
            dirty: HashSet::new(),
            unborn: HashSet::new(),
            ended: Vec::new(),
            events: Vec::new(),
            unsure,
            follow,
            told,
            looked: world.version(),
            world,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    pub(crate) fn call(&self) -> Call<'_> {
        Call { cluster: &self.cluster, profile: &self.profile, fence: self.action.fence }
    }

    /// Whether an operator makes its members.
    pub(crate) fn is_delegated(&self) -> bool {
        matches!(self.capabilities.membership, Membership::Delegated(_))
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.life.ticket(&self.action)
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        let node = self.nodes.get_mut(*self.places.get(&id)?)?;
        self.dirty.insert(id);
        Some(node)
    }

    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(*self.places.get(&id)?)
    }

    /// Takes new members in.
    pub(crate) fn add_nodes(&mut self, nodes: impl IntoIterator<Item = Node>) {
        for node in nodes {
            self.places.insert(node.id, self.nodes.len());
            self.nodes.push(node);
        }
    }

    /// Forgets members that are gone.
    pub(crate) fn remove_nodes(&mut self, gone: &HashSet<NodeId>) {
        self.nodes.retain(|node| !gone.contains(&node.id));
        self.dirty.retain(|id| !gone.contains(id));
        self.unborn.retain(|id| !gone.contains(id));
        self.places = places(&self.nodes);
    }

    /// Starts that were recorded and are given up: whether they happened is seen at the next look.
    pub(crate) fn doubt_starts(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        self.unsure.extend(nodes);
    }

    /// A start that was recorded and did not happen, because its engine died or it was given up, is not held against
    /// the node.
    pub(crate) fn forgive_starts(&mut self, seen: &Observed) {
        for id in std::mem::take(&mut self.unsure) {
            match seen.of(id) {
                Seen::Unknown { .. } => drop(self.unsure.insert(id)),
                Seen::Absent | Seen::Starting { .. } => {
                    self.node_mut(id).and_then(|node| node.starts.pop());
                }
                Seen::Running { .. } | Seen::Exited { .. } | Seen::HostRestarted => {}
            }
        }
    }

    /// Whether the action has to stop here.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if self.life.is_over(self.now()) {
            return Err(Stop::Fenced);
        }
        match self.told().control {
            Some(Control::Cancel) => return Err(Stop::Cancelled),
            Some(Control::Suspend) => return Err(Stop::Suspended),
            None => {}
        }
        if self.time_left() == Span::default() {
            return Err(Stop::TimedOut);
        }
        if self.inner.stopping.is_cancelled() { Err(Stop::HandOver) } else { Ok(()) }
    }

    /// Whether others may have taken it over.
    pub(crate) fn is_over(&self) -> bool {
        self.life.is_over(self.now())
    }

    /// How long it may still run; suspensions do not count.
    pub(crate) fn time_left(&self) -> Span {
        time_left(&self.action, self.now())
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the action was told to stop, the engine stops, its lease or its time is over.
    pub(crate) async fn interrupted(&self) -> Stop {
        loop {
            if let Err(stop) = self.check() {
                return stop;
            }
            if let Err(stop) = self.hear().await {
                return stop;
            }
        }
    }

    /// Returns when it has to stop, or, without an error, when nodes are to be left out that it has in hand.
    pub(crate) async fn interrupted_or_told(&self) -> Result<(), Stop> {
        loop {
            self.check()?;
            if !self.cancelled_children().is_empty() {
                return Ok(());
            }
            self.hear().await?;
        }
    }

    /// Waits for a word to this action, and reads it. Given up half-way it loses nothing: what counts as heard is
    /// noted only once it was read.
    async fn hear(&self) -> Result<(), Stop> {
        let read = self.told().version;
        // A notice may get lost with its connection: now and then it is asked without one.
        let left = self.time_left().min(self.inner.config.safety_period).min(self.life.left(self.now()));
        tokio::select! {
            () = self.follow.changed_since(read) => {}
            () = self.inner.stopping.cancelled() => return Ok(()),
            () = self.life.lost.cancelled() => return Ok(()),
            () = tokio::time::sleep(left.into()) => {}
        }
        let version = self.follow.version();
        match self.inner.store.told(self.action.id).await {
            Ok(Some(told)) if told.fence == self.action.fence => {
                let cancelled_children = told.cancelled_parts.into_iter().collect();
                *self.told() = Told { control: told.control, cancelled_children, version };
                Ok(())
            }
            Ok(_) => Err(Stop::Fenced),
            Err(_) => {
                // Unknown changes nothing; it is read again.
                tokio::time::sleep(self.inner.config.first_pause.into()).await;
                Ok(())
            }
        }
    }

    /// Nodes that somebody said to leave out, and the children that stand for that.
    pub(crate) fn cancelled_children(&self) -> Vec<(NodeId, ActionId)> {
        let told = self.told();
        if told.cancelled_children.is_empty() {
            return Vec::new();
        }
        let cancelled = |(_, child): &(&NodeId, &ActionId)| told.cancelled_children.contains(child);
        self.children.iter().filter(cancelled).map(|(node, child)| (*node, *child)).collect()
    }

    /// A call to the provider, for as long as nothing says that the action has to stop. Its verbs are idempotent and
    /// fenced, so one that is cut short is safe to take up again.
    pub(crate) async fn call_provider<T>(
        &self,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<Result<T, ProviderError>, Stop> {
        tokio::select! {
            biased;
            done = call => Ok(done),
            stop = self.interrupted() => Err(stop),
        }
    }

    /// A commit that carries what is behind: nodes, children, events.
    pub(crate) fn pending(&mut self) -> Record {
        let mut record = Record::new(self.ticket(), self.now());
        let (dirty, unborn) = (std::mem::take(&mut self.dirty), std::mem::take(&mut self.unborn));
        let dirty = self.nodes.iter().filter(|node| dirty.contains(&node.id)).cloned();
        (record.new_nodes, record.nodes) = dirty.partition(|node| unborn.contains(&node.id));
        record.gone_nodes = std::mem::take(&mut self.gone);
        record.ended_children = std::mem::take(&mut self.ended);
        record.events = std::mem::take(&mut self.events);
        record
    }

    /// Commits, and takes note of what the action was told meanwhile.
    pub(crate) async fn record(&mut self, record: Record) -> Result<(), Stop> {
        if self.life.is_over(self.now()) {
            return Err(Stop::Fenced);
        }
        let before = self.follow.version();
        // Parts that come with this commit were told nothing before it.
        let up_to_date = self.told().version == before || record.children.len() == self.children.len();
        let control = self.inner.store.record(record).await?;
        let mut told = self.told();
        told.control = control;
        if up_to_date {
            told.version = before;
        }
        Ok(())
    }

    /// Writes what is behind, if anything is.
    pub(crate) async fn flush(&mut self) -> Result<(), Stop> {
        if self.dirty.is_empty() && self.gone.is_empty() && self.ended.is_empty() && self.events.is_empty() {
            return Ok(());
        }
        let record = self.pending();
        self.record(record).await
    }

    /// The commit before a step that is no change of nodes: what was decided, and the intent if it has changed.
    pub(crate) async fn commit(&mut self, intent: bool) -> Result<(), Stop> {
        let mut record = self.pending();
        record.applied = true;
        record.data = self.kept();
        record.cluster = intent.then(|| self.cluster.clone());
        self.record(record).await
    }

    /// What policies and steps left for each other, as it is kept with the action.
    pub(crate) fn kept(&self) -> Option<Value> {
        (!self.data.is_empty()).then(|| self.data.clone().into())
    }

    /// Waits until then, unless the action has to stop before.
    pub(crate) async fn pause_until(&self, moment: Timestamp) -> Result<(), Stop> {
        tokio::select! {
            stop = self.interrupted() => Err(stop),
            () = self.inner.clock.sleep_until(moment) => Ok(()),
        }
    }

    /// A child for a node, already running under this action.
    pub(crate) fn child(&mut self, kind: ActionKind, node: NodeId) -> Action {
        let now = self.now();
        let id = ActionId::from_uuid(new_id());
        self.children.insert(node, id);
        Action {
            id,
            kind,
            version: 1,
            target: Target::Node(node),
            cluster_id: Some(self.cluster.id),
            instance: self.action.instance.clone(),
            parent: Some(self.action.id),
            cause: Cause::Derived,
            door: self.action.door,
            reason: String::new(),
            principal: self.action.principal.clone(),
            inputs: Value::Object(Map::new()),
            outputs: Value::Object(Map::new()),
            data: Value::Object(Map::new()),
            status: ActionStatus::Running,
            status_reason: "The action is being processed.".to_owned(),
            control: None,
            owner: self.action.owner,
            fence: Fence(0),
            tries: 0,
            not_before: None,
            timeout: self.action.timeout,
            suspended_for: Span::default(),
            created_at: now,
            started_at: Some(now),
            applied_at: None,
            ended_at: None,
            updated_at: now,
        }
    }

    /// Notes that a node's child has ended.
    pub(crate) fn end_child(&mut self, node: NodeId, end: End) {
        let Some(child) = self.children.remove(&node) else { return };
        match self.ended.iter_mut().find(|(same, _)| *same == end) {
            Some((_, children)) => children.push(child),
            None => self.ended.push((end, vec![child])),
        }
    }
}

/// How long an action may still run; suspensions do not count.
pub(crate) fn time_left(action: &Action, now: Timestamp) -> Span {
    let Some(started) = action.started_at else { return action.timeout };
    let ran = now.since(started).micros() - action.suspended_for.micros();
    Span::from_micros(action.timeout.micros() - ran)
}

fn places(nodes: &[Node]) -> HashMap<NodeId, usize> {
    nodes.iter().enumerate().map(|(place, node)| (node.id, place)).collect()
}

/// Children by what is left of them: those that are open, and nodes that were given up, with the reason.
#[derive(Default)]
struct Children {
    open: HashMap<NodeId, ActionId>,
    given_up: HashMap<NodeId, String>,
}

async fn children_of(inner: &Inner, parent: ActionId) -> Result<Children, Stop> {
    let query = ActionQuery { parent: Some(parent), ..ActionQuery::default() };
    let mut children = Children::default();
    for child in inner.store.actions(&query).await?.items {
        let Target::Node(node) = child.target else { continue };
        match child.status {
            ActionStatus::Succeeded => {}
            ActionStatus::Failed => drop(children.given_up.insert(node, child.status_reason)),
            ActionStatus::Cancelled => drop(children.given_up.insert(node, left_out(child.id))),
            _ => drop(children.open.insert(node, child.id)),
        }
    }
    Ok(children)
}

/// Why a node stays as it is whose child was cancelled.
pub(crate) fn left_out(child: ActionId) -> String {
    format!("its action {child} was cancelled")
}
