//! Accepting an action: from here on it survives anything.

use std::collections::{BTreeSet, HashSet};

use futures::future::BoxFuture;
use muster_core::action::{Action, ActionKind, ActionStatus, Cause, Control, OnConflict, Target};
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::ids::{ActionId, AppId, NodeId, TaskId};
use muster_core::job::Job;
use muster_core::node::Node;
use muster_core::profile::Profile;
use muster_core::time::Timestamp;
use serde_json::Value;

use super::app_use;
use crate::connection::Dialect;
use crate::error::StoreError;
use crate::rows::{actions, clusters, events, jobs, nodes, profiles};
use crate::transaction::{Command, Touched, Transaction};
use crate::value::{args, json};

/// The input of a deletion that is to happen by force.
const FORCED: &str = "force";

/// Stores an action, with the new cluster or nodes that it is about.
#[derive(Debug, Clone)]
pub struct Accept {
    /// The action, READY.
    pub action: Action,
    /// The conflict rule, if another action holds the target.
    pub on_conflict: OnConflict,
    /// A cluster that is made by it.
    pub cluster: Option<NewCluster>,
    /// Nodes that are made by it.
    pub nodes: Vec<Node>,
    /// The caller's own name for the request, so that it may safely ask again.
    pub request: Option<RequestKey>,
    /// Tasks that have to end before it is claimed.
    pub waits: Vec<TaskId>,
    /// The events to record.
    pub events: Vec<Event>,
}

impl Accept {
    /// Stores an action on what exists, with no event.
    pub const fn new(action: Action, on_conflict: OnConflict) -> Self {
        Self {
            action,
            on_conflict,
            cluster: None,
            nodes: Vec::new(),
            request: None,
            waits: Vec::new(),
            events: Vec::new(),
        }
    }
}

/// A cluster that does not exist yet.
#[derive(Debug, Clone)]
pub struct NewCluster {
    /// The cluster.
    pub cluster: Cluster,
    /// The recipe that is made for it alone, if it is.
    pub profile: Option<Profile>,
    /// Whether the door refuses a second cluster of that name in its namespace.
    pub unique_name: bool,
    /// The quota of clusters of the project.
    pub quota: Option<u32>,
    /// The app that uses it.
    pub app: Option<AppId>,
    /// The job that it is created for, which is stored with it: neither is there without the other.
    pub job: Option<Box<Job>>,
}

/// A caller's name for a request, and what the request was.
#[derive(Debug, Clone)]
pub struct RequestKey {
    /// The caller, with the scheme.
    pub principal: String,
    /// The caller's name for it.
    pub request_id: String,
    /// A digest of the request.
    pub digest: String,
}

impl RequestKey {
    /// The action that it made when it first came.
    pub(crate) async fn find(&self, tx: &mut Transaction<'_>) -> Result<Option<Action>, StoreError> {
        const FIND: &str =
            "SELECT digest, action_id FROM idempotency WHERE principal = $1 AND request_id = $2";
        let Some(row) = tx.row(FIND, args![&self.principal, &self.request_id]).await? else {
            return Ok(None);
        };
        if row.text(0)? != self.digest {
            return Err(StoreError::RequestIdReused(self.request_id.clone()));
        }
        let found = tx.row(actions::select("WHERE a.id = $1"), args![row.text(1)?]).await?;
        found.as_ref().map(actions::read).transpose()
    }

    /// Records the action that answers it.
    pub(super) async fn remember(
        &self,
        tx: &mut Transaction<'_>,
        action: ActionId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        const REMEMBER: &str = "INSERT INTO idempotency (principal, request_id, digest, action_id, created_at) \
                                VALUES ($1, $2, $3, $4, $5)";
        let row = args![&self.principal, &self.request_id, &self.digest, action.to_string(), at];
        match tx.execute(REMEMBER, row).await {
            // The same request came to two replicas at once: run again, and find the other's answer.
            Err(StoreError::Duplicate(why)) => Err(StoreError::Contended(why)),
            other => other.map(drop),
        }
    }
}

/// The outcome.
#[derive(Debug, Clone)]
pub struct Accepted {
    /// The action that was stored, now or when the same request first came.
    pub action: Action,
    /// Whether it was there already.
    pub replayed: bool,
}

/// The decision about an action beside existing ones.
enum Settled {
    /// It is the same as this one.
    Joins(Box<Action>),
    /// It runs, perhaps before others that were accepted earlier.
    Runs { before_others: bool },
}

/// Whether a change of this kind makes it pointless to wait for the members that an earlier one asked an operator for.
const fn supersedes(kind: ActionKind) -> bool {
    matches!(
        kind,
        ActionKind::ClusterResize
            | ActionKind::ClusterScaleOut
            | ActionKind::ClusterScaleIn
            | ActionKind::ClusterUpdate
            | ActionKind::NodeRecover
    )
}

impl Command for Accept {
    type Output = Accepted;

    fn rows(&self) -> usize {
        self.nodes.len() + self.events.len()
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Accepted, StoreError>> {
        Box::pin(self.accept(tx))
    }
}

impl Accept {
    pub(super) async fn accept(&self, tx: &mut Transaction<'_>) -> Result<Accepted, StoreError> {
        if let Some(key) = &self.request
            && let Some(action) = key.find(tx).await?
        {
            return Ok(Accepted { action, replayed: true });
        }
        // First of all: the same request at another replica waits here, and then finds the answer of this one.
        if let Some(key) = &self.request {
            key.remember(tx, self.action.id, self.action.created_at).await?;
        }
        self.hold_profiles(tx).await?;
        let mut yields = false;
        match &self.cluster {
            Some(new) => make_cluster(tx, new).await?,
            None => match self.settle_conflicts(tx).await? {
                Settled::Joins(action) => {
                    let action = self.join(tx, *action).await?;
                    return Ok(Accepted { action, replayed: true });
                }
                Settled::Runs { before_others } => yields = before_others,
            },
        }
        nodes::insert(tx, &self.nodes).await?;
        actions::insert(tx, std::slice::from_ref(&self.action)).await?;
        if yields {
            super::signal::ask_to_yield(tx, self.action.id, self.action.created_at).await?;
        }
        for task in &self.waits {
            const WAIT: &str = "INSERT INTO task_waits (action_id, task_id) VALUES ($1, $2)";
            tx.execute(WAIT, args![self.action.id.to_string(), task.to_string()]).await?;
        }
        events::insert(tx, &self.events).await?;
        tx.touch(Touched::Action(self.action.id));
        tx.touch(Touched::Work);
        Ok(Accepted { action: self.action.clone(), replayed: false })
    }

    /// Profiles that this refers to have to exist, and stay until it is committed: from then on they are in use.
    async fn hold_profiles(&self, tx: &mut Transaction<'_>) -> Result<(), StoreError> {
        let of_cluster = self.cluster.as_ref().filter(|new| new.profile.is_none());
        let of_inputs = self.action.inputs.get("profile_id").and_then(Value::as_str);
        let mut ids: BTreeSet<String> = self.nodes.iter().map(|node| node.profile_id.to_string()).collect();
        ids.extend(of_cluster.map(|new| new.cluster.profile_id.to_string()));
        ids.extend(of_inputs.map(str::to_owned));
        if let Some(own) = self.cluster.as_ref().and_then(|new| new.profile.as_ref()) {
            ids.remove(&own.id.to_string());
        }
        if ids.is_empty() {
            return Ok(());
        }
        let (these, list) = tx.dialect().any_of("id", "$1", &ids.iter().collect::<Vec<_>>());
        let sql = format!("SELECT id FROM profiles WHERE {these}{}", tx.dialect().for_share());
        for row in tx.rows(sql, args![list]).await? {
            ids.remove(row.text(0)?.as_str());
        }
        match ids.pop_first() {
            Some(given) => Err(StoreError::NotFound { kind: "profile", given }),
            None => Ok(()),
        }
    }

    /// The request is answered by a deletion that was there before, which is forced from now on if this one is.
    async fn join(&self, tx: &mut Transaction<'_>, mut joined: Action) -> Result<Action, StoreError> {
        const JOIN: &str = "UPDATE idempotency SET action_id = $3 WHERE principal = $1 AND request_id = $2";
        const FORCE: &str = "UPDATE actions SET inputs = $2, updated_at = $3 WHERE id = $1";
        if let Some(key) = &self.request {
            tx.execute(JOIN, args![&key.principal, &key.request_id, joined.id.to_string()]).await?;
        }
        let is_forced = |action: &Action| action.inputs.get(FORCED).and_then(Value::as_bool) == Some(true);
        if is_forced(&self.action) && !is_forced(&joined) {
            let at = self.action.created_at;
            let inputs = joined.inputs.as_object().cloned().unwrap_or_default();
            joined.inputs = inputs.into_iter().chain([(FORCED.to_owned(), Value::Bool(true))]).collect();
            joined.updated_at = at;
            tx.execute(FORCE, args![joined.id.to_string(), json(&joined.inputs), at]).await?;
            tx.touch(Touched::Action(joined.id));
        }
        Ok(joined)
    }

    /// Healing gives way to users; among users the rule decides. A deletion joins one that is under way.
    async fn settle_conflicts(&self, tx: &mut Transaction<'_>) -> Result<Settled, StoreError> {
        let open = self.open_actions(tx).await?;
        let (healing, users): (Vec<Action>, Vec<Action>) =
            open.into_iter().partition(|action| action.cause == Cause::Healing);
        if self.action.cause == Cause::Healing {
            // One healing per target at a time, and never beside a user's action.
            return if healing.is_empty() && users.is_empty() {
                Ok(Settled::Runs { before_others: false })
            } else {
                Err(StoreError::Conflict(healing.into_iter().chain(users).collect()))
            };
        }
        let same = |action: &&Action| action.kind == self.action.kind && action.target == self.action.target;
        if self.on_conflict == OnConflict::Preempt
            && matches!(self.action.kind, ActionKind::ClusterDelete | ActionKind::NodeDelete)
            && let Some(deletion) = users.iter().find(same)
        {
            return Ok(Settled::Joins(Box::new(deletion.clone())));
        }
        // Actions that wait for a deletion would find no target.
        let deletion = |action: &&Action| match action.kind {
            ActionKind::ClusterDelete => self.action.kind != ActionKind::ClusterDelete,
            ActionKind::NodeDelete => action.target == self.action.target && action.kind != self.action.kind,
            _ => false,
        };
        if let Some(deletion) = users.iter().find(deletion) {
            return Err(StoreError::Conflict(vec![deletion.clone()]));
        }
        let ends: Vec<Action> = match self.on_conflict {
            OnConflict::Reject if !users.is_empty() => return Err(StoreError::Conflict(users)),
            OnConflict::Reject | OnConflict::Queue => healing,
            OnConflict::Preempt => healing.into_iter().chain(users.iter().cloned()).collect(),
        };
        for action in &ends {
            super::signal::preempt(tx, action.id, self.action.created_at).await?;
        }
        let mut before_others = false;
        if self.on_conflict == OnConflict::Queue && supersedes(self.action.kind) {
            // Actions run in the order of their creation, which need not be that of their acceptance.
            let place = |action: &Action| (action.created_at, action.id);
            for action in &users {
                if place(action) < place(&self.action) || action.started_at.is_some() {
                    super::signal::ask_to_yield(tx, action.id, self.action.created_at).await?;
                } else {
                    before_others |= supersedes(action.kind);
                }
            }
        }
        Ok(Settled::Runs { before_others })
    }

    /// Requested actions that have not ended, on the same cluster or node.
    async fn open_actions(&self, tx: &mut Transaction<'_>) -> Result<Vec<Action>, StoreError> {
        let (column, id) = match (self.action.target, self.action.cluster_id) {
            (Target::Cluster(id), _) | (_, Some(id)) => ("cluster_id", id.to_string()),
            (target, None) => ("target", target.id().to_string()),
        };
        if let (Target::Node(id), None) = (self.action.target, self.action.cluster_id) {
            self.find_orphan(tx, id).await?;
        }
        if column == "cluster_id" {
            // Two replicas that accept for one cluster at once have to see each other.
            let lock = tx.dialect().for_update();
            // Garbage is collected of clusters that are history, and of no others.
            let deleted = if self.action.collects_garbage() { "NOT NULL" } else { "NULL" };
            let sql = format!("SELECT name FROM clusters WHERE id = $1 AND deleted_at IS {deleted}{lock}");
            if tx.row(sql, args![&id]).await?.is_none() {
                return Err(StoreError::NotFound { kind: "cluster", given: id });
            }
        }
        let rest = format!(
            "WHERE a.{column} = $1 AND a.parent_id IS NULL AND a.status NOT IN ($2, $3, $4) ORDER BY a.created_at, a.id"
        );
        let [succeeded, failed, cancelled] =
            [ActionStatus::Succeeded, ActionStatus::Failed, ActionStatus::Cancelled]
                .map(ActionStatus::as_str);
        let rows = tx.rows(actions::select(&rest), args![id, succeeded, failed, cancelled]).await?;
        let mut open = Vec::with_capacity(rows.len());
        for row in &rows {
            match actions::read(row) {
                Ok(action) => open.push(action),
                // It cannot be run either, and must not keep its cluster from being deleted.
                Err(error) if self.on_conflict == OnConflict::Preempt => {
                    tracing::error!(%error, "ended an action whose row cannot be read, for another one");
                    super::signal::end_unreadable(tx, row.parse(0)?, self.action.created_at).await?;
                }
                Err(error) => return Err(error),
            }
        }
        let at_work = self.at_work(tx, &open).await?;
        // A node's action stands in the way of the same node's and of the whole cluster's, not of its neighbours'. A
        // cluster's stands in the way of a node's if it works on that node, or leaves none; others wait for it. What an
        // unknown target has to do with it is unknown, so it counts as a conflict.
        let in_the_way = |action: &Action| match (self.action.target, action.target) {
            (Target::Node(own), Target::Node(other)) => own == other,
            (Target::Node(_), Target::Cluster(_)) => {
                (self.on_conflict == OnConflict::Queue && supersedes(self.action.kind))
                    || at_work.contains(&action.id)
                    || action.cause == Cause::Healing
                    || action.kind == ActionKind::ClusterDelete
            }
            (Target::Cluster(_) | Target::Unknown(_), _) | (_, Target::Unknown(_)) => true,
        };
        let cancelling = |action: &Action| action.control == Some(Control::Cancel);
        Ok(open.into_iter().filter(|action| in_the_way(action) && !cancelling(action)).collect())
    }

    /// Actions of the cluster that have an open part for the same node. They are a reason to refuse, and are never
    /// cancelled for a node's action.
    async fn at_work(
        &self,
        tx: &mut Transaction<'_>,
        open: &[Action],
    ) -> Result<HashSet<ActionId>, StoreError> {
        let Target::Node(node) = self.action.target else { return Ok(HashSet::new()) };
        let clusters = open.iter().filter(|action| matches!(action.target, Target::Cluster(_)));
        let clusters: Vec<ActionId> = clusters.map(|action| action.id).collect();
        if self.on_conflict != OnConflict::Reject || clusters.is_empty() {
            return Ok(HashSet::new());
        }
        let (these, ids) = tx.dialect().any_of("parent_id", "$1", &clusters);
        let sql = format!("SELECT parent_id FROM actions WHERE {these} AND target = $2 AND ended_at IS NULL");
        let rows = tx.rows(sql, args![ids, node.to_string()]).await?;
        rows.iter().map(|row| row.parse(0)).collect()
    }

    /// A node that is in no cluster has to be there, and two replicas that accept for it have to see each other.
    async fn find_orphan(&self, tx: &mut Transaction<'_>, id: NodeId) -> Result<(), StoreError> {
        if self.nodes.iter().any(|node| node.id == id) {
            return Ok(());
        }
        let sql = format!("SELECT id FROM nodes WHERE id = $1{}", tx.dialect().for_update());
        let missing = || StoreError::NotFound { kind: "node", given: id.to_string() };
        tx.row(sql, args![id.to_string()]).await?.map(drop).ok_or_else(missing)
    }
}

/// Checks whether a new cluster could be stored now; stores nothing.
#[derive(Debug, Clone)]
pub struct CheckNewCluster(pub NewCluster);

impl Command for CheckNewCluster {
    type Output = ();

    fn rows(&self) -> usize {
        0
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        Box::pin(check_cluster(tx, &self.0))
    }
}

fn name_taken(cluster: &Cluster) -> StoreError {
    StoreError::NameTaken { name: cluster.name.clone(), namespace: cluster.namespace.clone() }
}

/// Refuses a name that is taken, and more clusters than the quota of the project.
async fn check_cluster(tx: &mut Transaction<'_>, new: &NewCluster) -> Result<(), StoreError> {
    let NewCluster { cluster, profile: _, unique_name, quota, app: _, job: _ } = new;
    if *unique_name {
        const FIND: &str =
            "SELECT id FROM clusters WHERE namespace = $1 AND name = $2 AND deleted_at IS NULL LIMIT 1";
        if tx.row(FIND, args![&cluster.namespace, &cluster.name]).await?.is_some() {
            return Err(name_taken(cluster));
        }
    }
    if let Some(limit) = quota {
        // An index alone answers this.
        const COUNT_ALL: &str = "SELECT count(*) FROM clusters WHERE project = $1 AND deleted_at IS NULL";
        // Those that others made and that were only discovered are not the project's doing: their object has their id.
        const COUNT: &str = "SELECT count(*) FROM clusters WHERE project = $1 AND deleted_at IS NULL \
                             AND observed NOT LIKE '%\"object\":\"' || id || '\"%'";
        if tx.dialect() == Dialect::Postgres {
            // Replicas that count at the same moment would all find room.
            tx.row("SELECT pg_advisory_xact_lock(hashtext($1))", args![&cluster.project]).await?;
        }
        let limit = i64::from(*limit);
        let mut count = tx.one(COUNT_ALL, args![&cluster.project]).await?.int(0)?;
        if count >= limit {
            count = tx.one(COUNT, args![&cluster.project]).await?.int(0)?;
        }
        if count >= limit {
            return Err(StoreError::OverQuota { project: cluster.project.clone(), count, limit });
        }
    }
    Ok(())
}

async fn make_cluster(tx: &mut Transaction<'_>, new: &NewCluster) -> Result<(), StoreError> {
    check_cluster(tx, new).await?;
    let NewCluster { cluster, profile, unique_name, quota: _, app, job } = new;
    if let Some(profile) = profile {
        profiles::insert(tx, profile).await?;
    }
    let claim = unique_name.then(|| format!("{}/{}", cluster.namespace, cluster.name));
    match clusters::insert(tx, cluster, claim).await {
        // Two replicas looked at the same moment; the index let one through.
        Err(StoreError::Duplicate(_)) => return Err(name_taken(cluster)),
        other => other?,
    }
    if let Some(job) = job {
        jobs::insert(tx, job).await?;
        tx.touch(Touched::Tasks);
    }
    match app {
        Some(app) => app_use::use_new_cluster(tx, *app, cluster).await,
        None => Ok(()),
    }
}
