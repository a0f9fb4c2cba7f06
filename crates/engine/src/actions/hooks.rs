//! Lifecycle hooks: members are removed once the hook's receiver confirms, or after a timeout.
//!
//! Each member has a child action that waits; the id of the child action is the token of the confirmation. The receiver
//! is called at least once, always with the same token.

pub(crate) mod webhook_sender;

use std::collections::HashSet;
use std::time::Duration;

use muster_core::action::{Action, ActionKind, ActionStatus, Cause, Target};
use muster_core::change::Change;
use muster_core::event::Level;
use muster_core::ids::{ActionId, NodeId};
use muster_core::node::{Node, NodeStatus};
use muster_core::time::Timestamp;
use muster_store::Store;
use muster_store::commands::EndWait;
use muster_store::reads::ActionQuery;
use serde_json::{Value, json};

use crate::action_data::HookWait;
use crate::actions::hooks::webhook_sender::WebhookSender;
use crate::events::reason;
use crate::notify::Topic;
use crate::run::{ActionRun, Children, Members, Stop};

/// Poll every 30 s in case a notification was lost with its connection.
const POLL_PERIOD: Duration = Duration::from_secs(30);

/// Members whose child actions wait for a confirmation.
pub(crate) struct HookWaiting {
    kind: ActionKind,
    until: Timestamp,
    sender: Option<WebhookSender>,
}

impl HookWaiting {
    /// Commits a child action for each member and the start of the wait, before the receiver is called.
    pub(crate) async fn begin(
        run: &mut ActionRun,
        wait: HookWait,
        change: Change,
        leaving: &HashSet<NodeId>,
        intent: bool,
    ) -> Result<Self, Stop> {
        let began = match wait.began {
            Some(began) => began,
            None => record_wait(run, &change, leaving, intent).await?,
        };
        let sender = wait.url().map(|url| WebhookSender::new(&run.context, url.to_owned()));
        Ok(Self { until: began.after(wait.timeout()), kind: change.kind(), sender })
    }

    /// Waits until some members may be removed, and returns them; an empty set once no member is left to remove.
    pub(crate) async fn next(&mut self, run: &mut ActionRun) -> Result<HashSet<NodeId>, Stop> {
        loop {
            run.control.check()?;
            let changes = run.context.notifier.subscribe(Topic::Action(run.action.id));
            let version = changes.version();
            let waiting = waiting(&run.context.store, run.action.id, self.kind, &run.children).await?;
            let left_out: HashSet<NodeId> =
                run.control.cancelled(&run.children).into_iter().map(|(node, _)| node).collect();
            let waits = |id: &NodeId| waiting.iter().any(|(node, _)| node == id) && !left_out.contains(id);
            let open = run.children.open.keys().copied().filter(|id| run.subject.node(*id).is_some());
            let may_go: HashSet<NodeId> = open.filter(|id| !waits(id)).collect();
            if !may_go.is_empty() || waiting.is_empty() {
                return Ok(may_go);
            }
            if run.now() >= self.until {
                let end = EndWait { ticket: run.control.ticket(), now: run.now() };
                run.context.store.end_wait(end).await?;
                continue;
            }
            let until = self.until;
            // Receivers may take hours to confirm; the wait must not occupy a slot.
            let undelivered = run.control.wait_idly(async {
                tokio::select! {
                    stop = run.control.interrupted_or_child_cancelled(&run.children) => stop.map(|()| None),
                    why = self.send_pending(&run.subject.nodes, &waiting) => Ok(Some(why)),
                    () = changes.changed_since(version) => Ok(None),
                    () = run.context.clock.sleep_until(until) => Ok(None),
                    () = tokio::time::sleep(POLL_PERIOD) => Ok(None),
                }
            });
            if let Some(why) = undelivered.await? {
                report_undelivered(run, &why).await?;
            }
        }
    }

    /// Sends the messages of all waiting members; returns only with the reason of a failure.
    async fn send_pending(&mut self, nodes: &Members, waiting: &[(NodeId, ActionId)]) -> String {
        let Some(sender) = &mut self.sender else { return std::future::pending().await };
        let message = |(node, token): &(NodeId, ActionId)| Some((*token, message(nodes.get(*node)?, *token)));
        let messages: Vec<(ActionId, Value)> = waiting.iter().filter_map(message).collect();
        sender.send(&messages).await
    }
}

/// Reads the child actions that wait for a confirmation, with their nodes.
async fn waiting(
    store: &Store,
    parent: ActionId,
    kind: ActionKind,
    children: &Children,
) -> Result<Vec<(NodeId, ActionId)>, Stop> {
    let query = ActionQuery {
        parent: Some(parent),
        kinds: vec![kind],
        statuses: vec![ActionStatus::WaitingLifecycleCompletion],
        ..ActionQuery::default()
    };
    let waiting: HashSet<ActionId> =
        store.actions(&query).await?.items.into_iter().map(|child| child.id).collect();
    Ok(children.open_among(&waiting))
}

/// Records an event when the receiver cannot be reached: otherwise the wait would have no visible reason.
async fn report_undelivered(run: &mut ActionRun, why: &str) -> Result<(), Stop> {
    let message =
        format!("nodes wait for their removal, because the lifecycle hook could not be delivered: {why}");
    let now = run.now();
    run.journal.report_cluster(&run.subject.cluster, Level::Warn, reason::HOOK_NOT_DELIVERED, &message, now);
    run.flush().await
}

async fn record_wait(
    run: &mut ActionRun,
    change: &Change,
    leaving: &HashSet<NodeId>,
    intent: bool,
) -> Result<Timestamp, Stop> {
    let now = run.now();
    let ids: Vec<NodeId> = leaving.iter().copied().collect();
    let children = run.children.begin_all(change, &ids, now);
    let children: Vec<Action> =
        children.into_iter().map(|child| with_hook(&run.subject.nodes, child)).collect();
    let messages = messages(&run.subject.nodes, &children);
    if let Some(wait) = &mut run.data.hooks {
        (wait.began, wait.messages) = (Some(now), Some(messages));
    }
    run.commit_with(children, intent).await?;
    Ok(now)
}

/// Makes a child action wait for the hook; a node that does not run needs no confirmation.
fn with_hook(nodes: &Members, child: Action) -> Action {
    let runs = node_of(nodes, &child)
        .is_some_and(|node| node.status == NodeStatus::Active && node.physical_id.is_some());
    let status = if runs { ActionStatus::WaitingLifecycleCompletion } else { ActionStatus::Ready };
    let status_reason =
        if runs { "Waiting for lifecycle completion.".to_owned() } else { child.status_reason };
    Action { cause: Cause::DerivedWithHook, status, status_reason, ..child }
}

fn node_of<'n>(nodes: &'n Members, child: &Action) -> Option<&'n Node> {
    let Target::Node(id) = child.target else { return None };
    nodes.get(id)
}

/// Returns the messages of all waiting members. They are stored with the action for receivers that poll it.
fn messages(nodes: &Members, children: &[Action]) -> Vec<Value> {
    let waits = |child: &&Action| child.status == ActionStatus::WaitingLifecycleCompletion;
    children
        .iter()
        .filter(waits)
        .filter_map(|child| Some(message(node_of(nodes, child)?, child.id)))
        .collect()
}

fn message(node: &Node, token: ActionId) -> Value {
    json!({
        "lifecycle_action_token": token,
        "node_id": node.id,
        "resource_id": node.physical_id,
        "lifecycle_transition_type": "termination",
    })
}
