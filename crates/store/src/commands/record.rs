//! The writes of a running action: its plan before it acts, its results, and its end.

use futures::future::BoxFuture;
use muster_core::action::{Action, ActionKind, ActionStatus, Control, Fence};
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::ids::{ActionId, ClusterId, EngineId, NodeId};
use muster_core::node::Node;
use muster_core::time::Timestamp;
use serde_json::Value as Json;

use super::BindingChange;
use crate::change_order;
use crate::connection::Dialect;
use crate::error::StoreError;
use crate::rows::{actions, apps, cluster_objects, clusters, events, nodes};
use crate::transaction::{Command, FEW, MANY, Touched, Transaction};
use crate::value::{IntoValue as _, Value, args, json};

/// Proof that this engine has claimed an action: a write with an outdated fence is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The action.
    pub action: ActionId,
    /// The engine.
    pub engine: EngineId,
    /// The fence that was drawn by the claim.
    pub fence: Fence,
}

impl Ticket {
    /// Fails unless this engine still runs the action.
    pub(super) async fn check(&self, tx: &mut Transaction<'_>) -> Result<(), StoreError> {
        const OURS: &str =
            "SELECT 1 FROM actions WHERE id = $1 AND owner = $2 AND fence = $3 AND status = $4";
        let Self { action, engine, fence } = *self;
        let running = ActionStatus::Running.as_str();
        let ours = tx.row(OURS, args![action.to_string(), engine.to_string(), fence.0, running]).await?;
        ours.map(drop).ok_or(StoreError::Fenced(action))
    }
}

/// The end of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionEnd {
    /// SUCCEEDED, FAILED or CANCELLED.
    pub status: ActionStatus,
    /// The reason, as a message.
    pub reason: String,
}

/// One commit of a running action.
#[derive(Debug, Clone)]
pub struct Record {
    /// Proof that this engine has claimed the action.
    pub ticket: Ticket,
    /// The present time.
    pub now: Timestamp,
    /// The new state of the cluster.
    pub cluster: Option<Cluster>,
    /// The root object of the cluster as APIs show it, if it changed.
    pub object: Option<(ClusterId, Json)>,
    /// Nodes that are new.
    pub new_nodes: Vec<Node>,
    /// Nodes that changed.
    pub nodes: Vec<Node>,
    /// Nodes that joined or left the cluster, or got another profile.
    pub moved_nodes: Vec<Node>,
    /// The moved nodes that join the cluster. They must be ACTIVE orphans that no other action has locked.
    pub joining: Vec<NodeId>,
    /// Nodes that are gone.
    pub gone_nodes: Vec<NodeId>,
    /// The changes of policy bindings.
    pub bindings: Vec<BindingChange>,
    /// New child actions, already RUNNING.
    pub children: Vec<Action>,
    /// Child actions that ended, by their outcome.
    pub ended_children: Vec<(ActionEnd, Vec<ActionId>)>,
    /// The end of all other running child actions.
    pub end_other_children: Option<ActionEnd>,
    /// True if the milestone `applied` was reached.
    pub applied: bool,
    /// The data that policies and steps share.
    pub data: Option<Json>,
    /// The outputs.
    pub outputs: Option<Json>,
    /// The events to record.
    pub events: Vec<Event>,
    /// The cluster whose status is computed from its rows, because other actions change its nodes, too.
    pub evaluate: Option<(ClusterId, ActionKind)>,
    /// The end of the action, which also releases its locks.
    pub end: Option<ActionEnd>,
}

impl Record {
    /// Creates a commit that writes nothing yet.
    pub fn new(ticket: Ticket, now: Timestamp) -> Self {
        Self {
            ticket,
            now,
            cluster: None,
            object: None,
            new_nodes: Vec::new(),
            nodes: Vec::new(),
            moved_nodes: Vec::new(),
            joining: Vec::new(),
            gone_nodes: Vec::new(),
            bindings: Vec::new(),
            children: Vec::new(),
            ended_children: Vec::new(),
            end_other_children: None,
            applied: false,
            data: None,
            outputs: None,
            events: Vec::new(),
            evaluate: None,
            end: None,
        }
    }
}

impl Command for Record {
    /// The signal that the action has received.
    type Output = Option<Control>;

    fn rows(&self) -> usize {
        let ended: usize = self.ended_children.iter().map(|(_, children)| children.len()).sum();
        let nodes = self.new_nodes.len() + self.nodes.len() + self.moved_nodes.len() + self.gone_nodes.len();
        match &self.end_other_children {
            // After a success there are no other running child actions.
            Some(end) if end.status != ActionStatus::Succeeded => MANY,
            _ => nodes + self.children.len() + ended + self.events.len(),
        }
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<Option<Control>, StoreError>> {
        Box::pin(async move {
            lock_cluster(tx, self.ticket.action).await?;
            let control = self.write_action(tx).await?;
            nodes::insert(tx, &self.new_nodes).await?;
            nodes::update(tx, &self.nodes).await?;
            super::join::check(tx, self.ticket.action, &self.joining).await?;
            nodes::relocate(tx, &self.moved_nodes).await?;
            delete_nodes(tx, &self.gone_nodes).await?;
            for change in &self.bindings {
                change.write(tx).await?;
            }
            if let Some((cluster, object)) = &self.object {
                cluster_objects::write(tx, *cluster, object).await?;
            }
            if let Some(cluster) = &self.cluster {
                clusters::update(tx, cluster).await?;
                if cluster.deleted_at.is_some() {
                    forget_cluster(tx, cluster).await?;
                }
            }
            if let Some((cluster, kind)) = self.evaluate {
                super::evaluate::evaluate(tx, cluster, kind, self.now).await?;
            }
            actions::insert(tx, &self.children).await?;
            self.end_children(tx).await?;
            events::insert(tx, &self.events).await?;
            if self.end.is_some() {
                tx.execute("DELETE FROM locks WHERE action_id = $1", args![self.ticket.action.to_string()])
                    .await?;
                super::claim::notify_waiting(tx).await?;
            }
            let touched = if self.end.is_some() { Touched::Action } else { Touched::Progress };
            tx.touch(touched(self.ticket.action));
            Ok(control)
        })
    }
}

impl Record {
    /// Writes the action's own row, if this engine still has the claim, and reads the signal.
    async fn write_action(&self, tx: &mut Transaction<'_>) -> Result<Option<Control>, StoreError> {
        let Ticket { action, engine, fence } = self.ticket;
        let mut row =
            args![action.to_string(), engine.to_string(), fence.0, ActionStatus::Running.as_str(), self.now];
        let mut set = vec!["updated_at = $5, deaths = 0".to_owned()];
        let mut assign = |column: &str, value: Value| {
            row.push(value);
            set.push(format!("{column} = ${}", row.len()));
        };
        if let Some(data) = &self.data {
            assign("data", json(data));
        }
        if let Some(outputs) = &self.outputs {
            assign("outputs", json(outputs));
        }
        if let Some(ActionEnd { status, reason }) = &self.end {
            assign("status", status.as_str().into_value());
            assign("status_reason", reason.into_value());
            set.push("ended_at = $5".to_owned());
        }
        if self.applied {
            set.push("applied_at = coalesce(applied_at, $5)".to_owned());
        }
        let sql = format!(
            "UPDATE actions SET {} WHERE id = $1 AND owner = $2 AND fence = $3 AND status = $4 RETURNING control",
            set.join(", ")
        );
        let written = tx.update(sql, row).await?;
        written.ok_or(StoreError::Fenced(action))?.opt_word(0)
    }

    async fn end_children(&self, tx: &mut Transaction<'_>) -> Result<(), StoreError> {
        const END_OTHERS: &str = "UPDATE actions SET status = $2, status_reason = $3, ended_at = $4, updated_at = $4 \
                                  WHERE parent_id = $1 AND ended_at IS NULL";
        for (end, children) in &self.ended_children {
            let (these, ids) = tx.dialect().any_of("id", "$4", children);
            let sql = format!(
                "UPDATE actions SET status = $1, status_reason = $2, ended_at = $3, updated_at = $3 WHERE {these}"
            );
            tx.execute(sql, args![end.status.as_str(), &end.reason, self.now, ids]).await?;
        }
        if let Some(end) = &self.end_other_children {
            let parent = self.ticket.action.to_string();
            tx.execute(END_OTHERS, args![parent, end.status.as_str(), &end.reason, self.now]).await?;
        }
        Ok(())
    }
}

pub(super) async fn delete_nodes(tx: &mut Transaction<'_>, gone: &[NodeId]) -> Result<(), StoreError> {
    if !gone.is_empty() {
        let (these, ids) = tx.dialect().any_of("id", "$1", gone);
        tx.execute(format!("DELETE FROM nodes WHERE {these}"), args![ids]).await?;
    }
    Ok(())
}

/// Locks the cluster's row before the action's, the order of all commands: another order could deadlock on PostgreSQL.
async fn lock_cluster(tx: &mut Transaction<'_>, action: ActionId) -> Result<(), StoreError> {
    const LOCK: &str =
        "SELECT id FROM clusters WHERE id = (SELECT cluster_id FROM actions WHERE id = $1) FOR UPDATE";
    if tx.dialect() == Dialect::Postgres {
        tx.row(LOCK, args![action.to_string()]).await?;
    }
    Ok(())
}

/// Deletes the rows that belong to a deleted cluster: nodes, bindings, receivers, its object and its implicit profile.
/// The row of the cluster stays as history.
pub(super) async fn forget_cluster(tx: &mut Transaction<'_>, cluster: &Cluster) -> Result<(), StoreError> {
    let id = cluster.id.to_string();
    tx.execute("DELETE FROM nodes WHERE cluster_id = $1", args![&id]).await?;
    tx.execute("DELETE FROM bindings WHERE cluster_id = $1", args![&id]).await?;
    tx.execute("DELETE FROM receivers WHERE cluster_id = $1", args![&id]).await?;
    tx.execute("DELETE FROM cluster_objects WHERE cluster_id = $1", args![&id]).await?;
    apps::forget_cluster(tx, cluster.id).await?;
    let profile = cluster.profile_id.to_string();
    tx.execute("DELETE FROM profiles WHERE id = $1 AND implicit = 1", args![profile]).await?;
    Ok(())
}

/// Requeues an action after a transient failure, or because the engine stops.
#[derive(Debug, Clone)]
pub struct Requeue {
    /// Proof that this engine has claimed the action.
    pub ticket: Ticket,
    /// The time before which the action is not claimed.
    pub not_before: Option<Timestamp>,
    /// True to follow a signal to suspend: the action becomes SUSPENDED instead of READY.
    pub suspend: bool,
    /// True if this attempt counts as a try.
    pub count: bool,
    /// The reason, as a message.
    pub reason: String,
    /// The higher fence that a target reported, if any.
    pub above: Option<Above>,
    /// The present time.
    pub now: Timestamp,
}

/// Sets the number of consecutive engines that died while they ran an action.
#[derive(Debug, Clone)]
pub struct CountDeaths {
    /// Proof that this engine has claimed the action.
    pub ticket: Ticket,
    /// The number of consecutive engines that died.
    pub deaths: u32,
}

impl Command for CountDeaths {
    type Output = ();

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        const COUNT: &str = "UPDATE actions SET deaths = $4 WHERE id = $1 AND owner = $2 AND fence = $3";
        Box::pin(async move {
            let Ticket { action, engine, fence } = self.ticket;
            let row = args![action.to_string(), engine.to_string(), fence.0, i64::from(self.deaths)];
            let counted = tx.execute(COUNT, row).await?;
            if counted > 0 { Ok(()) } else { Err(StoreError::Fenced(action)) }
        })
    }
}

/// The fence that all later fences must exceed.
#[derive(Debug, Clone)]
pub struct Above {
    /// The fence.
    pub fence: Fence,
    /// The event that is recorded if fences had to be raised: the fence was drawn by another database, or before this
    /// one was restored from an older copy.
    pub event: Event,
}

impl Command for Requeue {
    type Output = ();

    fn rows(&self) -> usize {
        // The child actions are suspended, too.
        if self.suspend { MANY } else { FEW }
    }

    fn run<'c>(&'c self, tx: &'c mut Transaction<'_>) -> BoxFuture<'c, Result<(), StoreError>> {
        // Clears only the signal to suspend, which is followed here: a signal to cancel that came meanwhile stays.
        const REQUEUE: &str = "UPDATE actions SET status = CASE WHEN control = $5 AND $6 = 1 THEN $7 ELSE $8 END, \
                                control = CASE WHEN control = $5 AND $6 = 1 THEN NULL ELSE control END, \
                                suspended_at = CASE WHEN control = $5 AND $6 = 1 THEN $9 ELSE NULL END, \
                                status_reason = $10, not_before = CASE WHEN control IS NULL THEN $11 ELSE NULL END, \
                                tries = tries + $12, deaths = 0, owner = NULL, updated_at = $9 \
                                WHERE id = $1 AND owner = $2 AND fence = $3 AND status = $4 RETURNING status";
        Box::pin(async move {
            let Ticket { action, engine, fence } = self.ticket;
            let row = args![
                action.to_string(),
                engine.to_string(),
                fence.0,
                ActionStatus::Running.as_str(),
                Control::Suspend.as_str(),
                self.suspend,
                ActionStatus::Suspended.as_str(),
                ActionStatus::Ready.as_str(),
                self.now,
                &self.reason,
                self.not_before,
                i64::from(self.count),
            ];
            let written = tx.update(REQUEUE, row).await?.ok_or(StoreError::Fenced(action))?;
            if written.word::<ActionStatus>(0)? == ActionStatus::Suspended {
                let (running, suspended) = (ActionStatus::Running, ActionStatus::Suspended);
                super::signal::show_children(tx, action, running, suspended, self.now).await?;
            }
            if let Some(Above { fence, event }) = &self.above
                && tx.raise_fences(fence.0).await?
            {
                change_order::leave_history(tx).await?;
                events::insert(tx, std::slice::from_ref(event)).await?;
            }
            tx.touch(Touched::Action(action));
            tx.touch(Touched::Work);
            Ok(())
        })
    }
}
