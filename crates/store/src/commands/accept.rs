//! The command that accepts an action: checks conflicts, and stores the action durably.

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

/// The input that makes a deletion a forced one.
const FORCED: &str = "force";

/// Stores an action, with the new cluster or the new nodes that it creates.
#[derive(Debug, Clone)]
pub struct Accept {
    /// The action, with status READY.
    pub action: Action,
    /// The conflict rule, if another action holds the target.
    pub on_conflict: OnConflict,
    /// The cluster that the action creates.
    pub cluster: Option<NewCluster>,
    /// The nodes that the action creates.
    pub nodes: Vec<Node>,
    /// The caller's name for the request, which makes a repetition idempotent.
    pub request: Option<RequestKey>,
    /// The tasks that have to end before the action is claimed.
    pub waits: Vec<TaskId>,
    /// The events to record.
    pub events: Vec<Event>,
}

impl Accept {
    /// Stores an action on an existing target, without an event.
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
    /// The profile that is created for this cluster alone, if any.
    pub profile: Option<Profile>,
    /// True if a second cluster of the same name in the namespace is refused.
    pub unique_name: bool,
    /// The quota of clusters of the project.
    pub quota: Option<u32>,
    /// The app that uses the cluster.
    pub app: Option<AppId>,
    /// The job that the cluster is created for, stored in the same transaction so that neither exists without the
    /// other.
    pub job: Option<Box<Job>>,
}

/// A caller's name for a request, with a digest of the request.
#[derive(Debug, Clone)]
pub struct RequestKey {
    /// The caller, with the scheme.
    pub principal: String,
    /// The caller's name for the request.
    pub request_id: String,
    /// A digest of the request.
    pub digest: String,
}

impl RequestKey {
    /// Returns the action of the first request with this name, if any.
    pub(crate) async fn find(&self, tx: &mut Transaction<'_>) -> Result<Option<Action>, StoreError> {
        let Some(action) = self.find_answer(tx).await? else { return Ok(None) };
        let found = tx.row(actions::select("WHERE a.id = $1"), args![action]).await?;
        found.as_ref().map(actions::read).transpose()
    }

    /// Returns the id of the action or object that answers the first request with this name, if any.
    pub(crate) async fn find_answer(&self, tx: &mut Transaction<'_>) -> Result<Option<String>, StoreError> {
        const FIND: &str =
            "SELECT digest, action_id FROM idempotency WHERE principal = $1 AND request_id = $2";
        let Some(row) = tx.row(FIND, args![&self.principal, &self.request_id]).await? else {
            return Ok(None);
        };
        if row.text(0)? != self.digest {
            return Err(StoreError::RequestIdReused(self.request_id.clone()));
        }
        row.text(1).map(Some)
    }

    /// Records the id of the action or object that answers the request.
    pub(super) async fn remember(
        &self,
        tx: &mut Transaction<'_>,
        answer: &str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        const REMEMBER: &str = "INSERT INTO idempotency (principal, request_id, digest, action_id, created_at) \
                                VALUES ($1, $2, $3, $4, $5)";
        let row = args![&self.principal, &self.request_id, &self.digest, answer, at];
        match tx.execute(REMEMBER, row).await {
            // Another replica stored the same request at the same time: retry, and find that action.
            Err(StoreError::Duplicate(why)) => Err(StoreError::Contended(why)),
            other => other.map(drop),
        }
    }
}

/// The outcome of [`Accept`].
#[derive(Debug, Clone)]
pub struct Accepted {
    /// The stored action: the new one, or the existing one that answers the request.
    pub action: Action,
    /// True if the action existed already.
    pub replayed: bool,
}

/// The decision about an action beside existing actions.
enum ConflictOutcome {
    /// The request is answered by this existing action.
    Joins(Box<Action>),
    /// The action is stored. It may run before actions that were accepted earlier.
    Runs { before_others: bool },
}

/// Returns true if a change of this kind makes it pointless to wait for the nodes that an earlier change requested.
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
        // Before any other write: the same request at another replica waits here, and then finds this action.
        if let Some(key) = &self.request {
            key.remember(tx, &self.action.id.to_string(), self.action.created_at).await?;
        }
        self.hold_profiles(tx).await?;
        let mut yields = false;
        match &self.cluster {
            Some(new) => make_cluster(tx, new).await?,
            None => match self.resolve_conflicts(tx).await? {
                ConflictOutcome::Joins(action) => {
                    let action = self.join(tx, *action).await?;
                    return Ok(Accepted { action, replayed: true });
                }
                ConflictOutcome::Runs { before_others } => yields = before_others,
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

    /// Checks that the referenced profiles exist, and locks them until the commit, after which they count as in use.
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

    /// Answers the request by an existing deletion, which becomes a forced one if the request is forced.
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

    /// Resolves conflicts: a user's action preempts healing; among users' actions the conflict rule decides. A deletion
    /// joins one in progress.
    async fn resolve_conflicts(&self, tx: &mut Transaction<'_>) -> Result<ConflictOutcome, StoreError> {
        let open = self.open_actions(tx).await?;
        let (healing, users): (Vec<Action>, Vec<Action>) =
            open.into_iter().partition(|action| action.cause == Cause::Healing);
        if self.action.cause == Cause::Healing {
            // At most one healing action per target, and never beside a user's action.
            return if healing.is_empty() && users.is_empty() {
                Ok(ConflictOutcome::Runs { before_others: false })
            } else {
                Err(StoreError::Conflict(healing.into_iter().chain(users).collect()))
            };
        }
        let same = |action: &&Action| action.kind == self.action.kind && action.target == self.action.target;
        if self.on_conflict == OnConflict::Preempt
            && matches!(self.action.kind, ActionKind::ClusterDelete | ActionKind::NodeDelete)
            && let Some(deletion) = users.iter().find(same)
        {
            return Ok(ConflictOutcome::Joins(Box::new(deletion.clone())));
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
            // Actions run in the order of their creation, which may differ from the order of their acceptance.
            let place = |action: &Action| (action.created_at, action.id);
            // A head that was not created yet cannot be restarted.
            let restarts_head = self.action.kind == ActionKind::NodeRecover;
            let needs_end = |action: &&Action| restarts_head && action.kind == ActionKind::ClusterCreate;
            for action in users.iter().filter(|action| !needs_end(action)) {
                if place(action) < place(&self.action) || action.started_at.is_some() {
                    super::signal::ask_to_yield(tx, action.id, self.action.created_at).await?;
                } else {
                    before_others |= supersedes(action.kind);
                }
            }
        }
        Ok(ConflictOutcome::Runs { before_others })
    }

    /// The conflicting actions that have not ended, on the same cluster or node.
    async fn open_actions(&self, tx: &mut Transaction<'_>) -> Result<Vec<Action>, StoreError> {
        let (column, id) = match (self.action.target, self.action.cluster_id) {
            (Target::Cluster(id), _) | (_, Some(id)) => ("cluster_id", id.to_string()),
            (target, None) => ("target", target.id().to_string()),
        };
        if let (Target::Node(id), None) = (self.action.target, self.action.cluster_id) {
            self.find_orphan(tx, id).await?;
        }
        if column == "cluster_id" {
            // Lock the row: two replicas that accept actions for one cluster at once must observe each other's action.
            let lock = tx.dialect().for_update();
            // Garbage is collected only of deleted clusters.
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
                // An unreadable action cannot run, and must not block the deletion of its cluster.
                Err(error) if self.on_conflict == OnConflict::Preempt => {
                    tracing::error!(%error, "ended an action whose row cannot be read, for another one");
                    super::signal::end_unreadable(tx, row.parse(0)?, self.action.created_at).await?;
                }
                Err(error) => return Err(error),
            }
        }
        let at_work = self.at_work(tx, &open).await?;
        // An action of a node conflicts with actions of the same node and of the cluster, not with those of other
        // nodes. An action of a cluster conflicts with that of a node if it works on that node or deletes the cluster;
        // otherwise the node's action waits. An unknown target counts as a conflict.
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

    /// The actions of the cluster that have an open child action for the same node. They are a reason to refuse, and
    /// are never cancelled for an action of a node.
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

    /// Checks that an orphan exists, and locks its row, so that two replicas that accept actions for it observe each
    /// other's action.
    async fn find_orphan(&self, tx: &mut Transaction<'_>, id: NodeId) -> Result<(), StoreError> {
        if self.nodes.iter().any(|node| node.id == id) {
            return Ok(());
        }
        let sql = format!("SELECT id FROM nodes WHERE id = $1{}", tx.dialect().for_update());
        let missing = || StoreError::NotFound { kind: "node", given: id.to_string() };
        tx.row(sql, args![id.to_string()]).await?.map(drop).ok_or_else(missing)
    }
}

/// Checks if a new cluster could be stored now; stores nothing.
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
        // Counts in an index, without reading rows.
        const COUNT_ALL: &str = "SELECT count(*) FROM clusters WHERE project = $1 AND deleted_at IS NULL";
        // Discovered clusters do not count against the quota; their observed object has the id of the cluster.
        const COUNT: &str = "SELECT count(*) FROM clusters WHERE project = $1 AND deleted_at IS NULL \
                             AND observed NOT LIKE '%\"object\":\"' || id || '\"%'";
        if tx.dialect() == Dialect::Postgres {
            // Without the lock, replicas that count at the same moment could all stay below the quota.
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
        // Two replicas checked at the same moment; the unique index admits one.
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
