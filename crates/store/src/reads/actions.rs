//! Reads of actions.

use std::collections::HashMap;

use muster_core::action::{Action, ActionKind, ActionStatus, Control, Fence};
use muster_core::ids::{ActionId, ClusterId, NodeId};

use crate::commands::RequestKey;
use crate::connection::Dialect;
use crate::error::StoreError;
use crate::keyset::{Cursor, Direction, Filter, Page, SortColumn, SortKey};
use crate::paging::{Selection, listed};
use crate::rows::actions;
use crate::store::Store;
use crate::value::args;

/// The name of an action, the same as [`Action::name`] returns; the databases read the operation from the inputs in
/// different ways.
macro_rules! name {
    ($operation:literal) => {
        concat!(
            "CASE WHEN a.door = 'webhook' AND a.reason LIKE 'receiver %' THEN 'webhook_' || substr(a.reason, 10, 8) ELSE CASE a.kind \
             WHEN 'CLUSTER_ATTACH_POLICY' THEN 'attach_policy' \
             WHEN 'CLUSTER_DETACH_POLICY' THEN 'detach_policy' \
             WHEN 'CLUSTER_UPDATE_POLICY' THEN 'update_policy' \
             WHEN 'CLUSTER_OPERATION' THEN 'cluster_' || coalesce(",
            $operation,
            ", 'operation') WHEN 'NODE_OPERATION' THEN 'node_' || coalesce(",
            $operation,
            ", 'operation') ELSE lower(a.kind) END || '_' || substr(a.target, 1, 8) END"
        )
    };
}

const fn name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => name!("a.inputs ->> 'operation'"),
        Dialect::Postgres => name!("a.inputs::json ->> 'operation'"),
    }
}

/// The keys by which actions can be sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionSort {
    /// By the name that clients see.
    Name,
    /// By kind.
    Kind,
    /// By target.
    Target,
    /// By state.
    Status,
    /// By the time of acceptance.
    CreatedAt,
}

impl SortKey for ActionSort {
    fn column(self, dialect: Dialect) -> SortColumn {
        match self {
            Self::Name => SortColumn::text(name(dialect)),
            Self::Kind => SortColumn::text("a.kind"),
            Self::Target => SortColumn::text("a.target"),
            Self::Status => SortColumn::text("a.status"),
            Self::CreatedAt => SortColumn::number("a.created_at"),
        }
    }
}

/// The query for a list of actions.
#[derive(Debug, Clone, Default)]
pub struct ActionQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// Of clusters in this namespace only.
    pub namespace: Option<String>,
    /// Of this cluster and its nodes only.
    pub cluster: Option<ClusterId>,
    /// Of one of these clusters, even if they do not exist any more.
    pub clusters: Vec<String>,
    /// About one of these clusters or nodes, even if they do not exist any more.
    pub targets: Vec<String>,
    /// With one of these names.
    pub names: Vec<String>,
    /// About this node only.
    pub node: Option<NodeId>,
    /// Children of this action only.
    pub parent: Option<ActionId>,
    /// Requested by this user only.
    pub user: Option<String>,
    /// Without child actions.
    pub top_level: bool,
    /// Of one of these kinds.
    pub kinds: Vec<ActionKind>,
    /// In one of these states.
    pub statuses: Vec<ActionStatus>,
    /// True if running actions with open child actions count as waiting.
    pub parents_wait: bool,
    /// The order; ids break ties.
    pub sort: Vec<(ActionSort, Direction)>,
    /// Only rows after this cursor.
    pub after: Option<Cursor>,
    /// Only rows after the row of this id; ignored if no such row exists.
    pub marker: Option<String>,
    /// The largest number of rows; `None` means all.
    pub limit: Option<u32>,
    /// True to count the rows of all pages.
    pub with_total: bool,
}

/// The signals of an action that it has not followed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionSignals {
    /// The fence of the run that the signals are for.
    pub fence: Fence,
    /// The signal of the action itself.
    pub control: Option<Control>,
    /// The child actions that were cancelled.
    pub cancelled_children: Vec<ActionId>,
}

/// The dependencies of an action.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edges {
    /// The child actions, which the action waits for.
    pub on: Vec<ActionId>,
    /// The parent action.
    pub by: Vec<ActionId>,
    /// True if some child actions have not ended.
    pub waits: bool,
}

/// The names of what an action is about. A name is empty if the row of the cluster or node is gone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ActionNames {
    /// The name of the cluster or node that the action changes.
    pub target: String,
    /// The name of the cluster that the action belongs to.
    pub cluster: String,
}

/// The status of an action, where running actions with open child actions count as waiting.
const SHOWN_STATUS: &str = "CASE WHEN a.status = 'RUNNING' \
     AND EXISTS (SELECT 1 FROM actions part WHERE part.parent_id = a.id AND part.ended_at IS NULL) \
     THEN 'WAITING' ELSE a.status END";

listed!(Action, ActionSort, "actions a", "a.id", actions);

impl Store {
    /// The action of this id.
    pub async fn action(&self, id: ActionId) -> Result<Option<Action>, StoreError> {
        let sql = actions::select("WHERE a.id = $1");
        let row = self.read(async |tx| tx.row(sql, args![id.to_string()]).await).await?;
        row.as_ref().map(actions::read).transpose()
    }

    /// The signals of an action and of its child actions; `None` if the action does not exist.
    pub async fn signals(&self, id: ActionId) -> Result<Option<ActionSignals>, StoreError> {
        const OWN: &str = "SELECT fence, control FROM actions WHERE id = $1";
        const PARTS: &str =
            "SELECT id FROM actions WHERE parent_id = $1 AND control = $2 AND ended_at IS NULL ORDER BY id";
        self.read(async |tx| {
            let Some(own) = tx.row(OWN, args![id.to_string()]).await? else { return Ok(None) };
            let parts = tx.rows(PARTS, args![id.to_string(), Control::Cancel.as_str()]).await?;
            let cancelled_children = parts.iter().map(|row| row.parse(0)).collect::<Result<_, _>>()?;
            Ok(Some(ActionSignals {
                fence: Fence(own.int(0)?),
                control: own.opt_word(1)?,
                cancelled_children,
            }))
        })
        .await
    }

    /// The action that the first request with this key created; an error if the key was used for a different request.
    pub async fn request(&self, key: &RequestKey) -> Result<Option<Action>, StoreError> {
        self.read(async |tx| key.find(tx).await).await
    }

    /// The id of the object that the first write with this key wrote without an action; an error if the key was used
    /// for a different request.
    pub async fn named_write(&self, key: &RequestKey) -> Result<Option<String>, StoreError> {
        self.read(async |tx| key.find_answer(tx).await).await
    }

    /// The child actions and the parents of actions, also after the end.
    pub async fn edges(&self, ids: &[ActionId]) -> Result<HashMap<ActionId, Edges>, StoreError> {
        // The columns of the action and of the other action, and true if the first waits for the second.
        const SIDES: [(&str, &str, bool); 2] = [("parent_id", "id", true), ("id", "parent_id", false)];
        self.read_many(async |tx| {
            let mut edges: HashMap<ActionId, Edges> = HashMap::new();
            for (own, other, waits) in SIDES {
                let (these, ids) = tx.dialect().any_of(own, "$1", ids);
                let sql = format!(
                    "SELECT {own}, {other}, ended_at FROM actions WHERE {these} AND {other} IS NOT NULL ORDER BY {other}"
                );
                for row in tx.rows(sql, args![ids]).await? {
                    let found = edges.entry(row.parse(0)?).or_default();
                    let side = if waits { &mut found.on } else { &mut found.by };
                    side.push(row.parse(1)?);
                    found.waits |= waits && row.opt_time(2)?.is_none();
                }
            }
            Ok(edges)
        })
        .await
    }

    /// The names of what these actions are about.
    pub async fn action_names(&self, ids: &[ActionId]) -> Result<HashMap<ActionId, ActionNames>, StoreError> {
        self.read_many(async |tx| {
            let (these, ids) = tx.dialect().any_of("a.id", "$1", ids);
            let sql = format!(
                "SELECT a.id, coalesce(n.name, t.name, ''), coalesce(c.name, '') FROM actions a \
                 LEFT JOIN clusters c ON c.id = a.cluster_id LEFT JOIN clusters t ON t.id = a.target \
                 LEFT JOIN nodes n ON n.id = a.target WHERE {these}"
            );
            let rows = tx.rows(sql, args![ids]).await?;
            let read = |row: &crate::value::Row| {
                Ok((row.parse(0)?, ActionNames { target: row.text(1)?, cluster: row.text(2)? }))
            };
            rows.iter().map(read).collect()
        })
        .await
    }

    /// A page of actions.
    pub async fn actions(&self, query: &ActionQuery) -> Result<Page<Action>, StoreError> {
        let (dialect, mut filter) = (self.dialect(), Filter::default());
        filter.equal("a.project", query.project.as_ref());
        filter.equal("a.cluster_id", query.cluster.map(|id| id.to_string()));
        filter.equal("a.target", query.node.map(|id| id.to_string()));
        filter.equal("a.parent_id", query.parent.map(|id| id.to_string()));
        filter.equal("a.user_id", query.user.as_ref());
        if let Some(namespace) = &query.namespace {
            let place = filter.place(namespace);
            filter.add(format!(
                "EXISTS (SELECT 1 FROM clusters c WHERE c.id = a.cluster_id AND c.namespace = {place})"
            ));
        }
        if query.top_level {
            filter.add("a.parent_id IS NULL");
        }
        filter.any_of("a.cluster_id", query.clusters.iter());
        filter.any_of("a.target", query.targets.iter());
        filter.any_of(name(dialect), query.names.iter());
        filter.any_of("a.kind", query.kinds.iter().map(|kind| kind.as_str()));
        let status = if query.parents_wait { SHOWN_STATUS } else { "a.status" };
        filter.any_of(status, query.statuses.iter().map(|status| status.as_str()));
        let selection = Selection {
            after: query.after.as_ref(),
            with_total: query.with_total,
            ..Selection::new(&query.sort, query.marker.as_ref(), query.limit)
        };
        self.list(filter, selection).await
    }
}
