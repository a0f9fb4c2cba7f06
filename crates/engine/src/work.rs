//! One action in the hands of an engine: what it works on, and how it is told to stop.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

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
use muster_store::reads::ActionQuery;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::engine::{Inner, Life};
use crate::hub::{Follow, Topic};
use crate::provider::{Call, Capabilities, Observed, Provider};

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
    /// The database or the provider did not answer; again in a while.
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
    /// What policies and steps left for each other.
    pub(crate) data: Map<String, Value>,
    /// Members whose rows go with the next commit.
    pub(crate) gone: Vec<NodeId>,
    /// Nodes whose rows are behind.
    pub(crate) dirty: HashSet<NodeId>,
    /// Children whose rows are behind.
    pub(crate) ended: Vec<(End, Vec<ActionId>)>,
    /// Events that go out with the next commit.
    pub(crate) events: Vec<Event>,
    /// Nodes whose start an engine before us recorded, without what became of it.
    unsure: HashSet<NodeId>,
    follow: Follow,
    told: Option<Control>,
}

impl Work {
    /// Reads all that a claimed action is about.
    pub(crate) async fn load(
        inner: &Arc<Inner>,
        life: &Arc<Life>,
        action: Action,
        taken_over: bool,
    ) -> Result<Self, Stop> {
        let follow = inner.hub.follow(Topic::Action(action.id));
        let gone = |what: &str| Stop::Failed(format!("its {what} is not there any more"));
        let store = &inner.store;
        let id = action.cluster_id.ok_or_else(|| gone("cluster"))?;
        let cluster = store.cluster(id).await?.filter(|cluster| cluster.deleted_at.is_none());
        let cluster = cluster.ok_or_else(|| gone("cluster"))?;
        let profile = store.profile(cluster.profile_id).await?.ok_or_else(|| gone("profile"))?;
        // A cluster that is only being made has nothing to be read yet.
        let fresh = action.kind == ActionKind::ClusterCreate && !taken_over;
        let nodes = if fresh { Vec::new() } else { store.members(id).await? };
        let bindings = if fresh { Vec::new() } else { store.bindings(id).await? };
        let children = if taken_over { children_of(inner, action.id).await? } else { HashMap::new() };
        let provider = inner.provider(&action.instance).ok_or_else(|| {
            Stop::Failed(format!("no provider serves '{}' in this engine", action.instance))
        })?;
        let unknown = || Stop::Failed(format!("'{}' does not know {}", action.instance, profile.kind));
        let capabilities = provider.capabilities(&profile.kind).ok_or_else(unknown)?;
        let data = action.data.as_object().cloned().unwrap_or_default();
        let told = action.control;
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
            children,
            data,
            gone: Vec::new(),
            dirty: HashSet::new(),
            ended: Vec::new(),
            events: Vec::new(),
            unsure,
            follow,
            told,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    pub(crate) fn call(&self) -> Call<'_> {
        Call { cluster: &self.cluster, profile: &self.profile, fence: self.action.fence }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        Ticket { action: self.action.id, engine: self.life.id, fence: self.action.fence }
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
        self.places = places(&self.nodes);
    }

    /// A start that was recorded and did not happen, because its engine died, is not held against the node.
    pub(crate) fn forgive_starts(&mut self, seen: &Observed) {
        for id in std::mem::take(&mut self.unsure) {
            match seen.of(id) {
                Seen::Unknown { .. } => drop(self.unsure.insert(id)),
                Seen::Absent | Seen::Starting { .. } => {
                    self.node_mut(id).and_then(|node| node.starts.pop());
                }
                Seen::Running { .. } | Seen::Exited { .. } => {}
            }
        }
    }

    /// Whether the action has to stop here.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if self.life.is_over(self.now()) {
            return Err(Stop::Fenced);
        }
        match self.told {
            Some(Control::Cancel) => return Err(Stop::Cancelled),
            Some(Control::Suspend) => return Err(Stop::Suspended),
            None => {}
        }
        if self.time_left() == Span::default() {
            return Err(Stop::TimedOut);
        }
        if self.inner.stopping.is_cancelled() { Err(Stop::HandOver) } else { Ok(()) }
    }

    /// How long it may still run; suspensions do not count.
    pub(crate) fn time_left(&self) -> Span {
        let Some(started) = self.action.started_at else { return self.action.timeout };
        let ran = self.now().since(started).micros() - self.action.suspended_for.micros();
        Span::from_micros(self.action.timeout.micros() - ran)
    }

    /// Returns when the action was told something, the engine stops, or its time is over.
    pub(crate) async fn interrupted(&mut self) -> Stop {
        loop {
            if let Err(stop) = self.check() {
                return stop;
            }
            // A notice may get lost with its connection: now and then it is asked without one.
            let left = self.time_left().min(self.inner.config.safety_period).into();
            tokio::select! {
                () = self.follow.changed() => {}
                () = self.inner.stopping.cancelled() => {}
                () = self.life.lost.cancelled() => {}
                () = tokio::time::sleep(left) => {}
            }
            match self.inner.store.action(self.action.id).await {
                Ok(Some(action)) if action.fence == self.action.fence => self.told = action.control,
                Ok(_) => return Stop::Fenced,
                // Unknown changes nothing; the next commit will tell.
                Err(_) => {}
            }
        }
    }

    /// A commit that carries what is behind: nodes, children, events, data.
    pub(crate) fn pending(&mut self) -> Record {
        let mut record = Record::new(self.ticket(), self.now());
        let dirty = std::mem::take(&mut self.dirty);
        record.nodes = self.nodes.iter().filter(|node| dirty.contains(&node.id)).cloned().collect();
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
        self.told = self.inner.store.record(record).await?;
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

    /// A child for a node, already running under this action.
    pub(crate) fn child(&mut self, kind: ActionKind, node: NodeId) -> Action {
        let now = self.now();
        let id = ActionId::from_uuid(Uuid::now_v7());
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

fn places(nodes: &[Node]) -> HashMap<NodeId, usize> {
    nodes.iter().enumerate().map(|(place, node)| (node.id, place)).collect()
}

async fn children_of(inner: &Inner, parent: ActionId) -> Result<HashMap<NodeId, ActionId>, Stop> {
    let query = ActionQuery { parent: Some(parent), ..ActionQuery::default() };
    let children = inner.store.actions(&query).await?.items;
    let open = children.into_iter().filter(|child| !child.status.is_final());
    Ok(open
        .filter_map(|child| match child.target {
            Target::Node(node) => Some((node, child.id)),
            Target::Cluster(_) => None,
        })
        .collect())
}
