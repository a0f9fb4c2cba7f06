//! Members that go only once somebody has said so, or has been silent for long enough.
//!
//! Each has a part of the action that waits; its id is the token by which the word is said. Who is to say it is told
//! at least once, always with the same token.

mod teller;

use std::collections::HashSet;
use std::time::Duration;

use muster_core::action::{Action, ActionKind, ActionStatus, Cause};
use muster_core::event::Level;
use muster_core::ids::{ActionId, NodeId};
use muster_core::node::{Node, NodeStatus};
use muster_core::time::{Span, Timestamp};
use muster_store::commands::EndWait;
use muster_store::reads::ActionQuery;
use serde_json::{Value, json};

use crate::events::{self, reason};
use crate::hub::Topic;
use crate::work::{Stop, Work};
use teller::Teller;

/// Where policies say whom to ask, and steps what became of it.
const KEY: &str = "hooks";

/// A word may get lost with its connection: now and then it is looked for without one.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Whom to ask, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hook {
    /// Where it is told; nowhere where whoever has to say the word looks into the action.
    url: Option<String>,
    timeout: Span,
    began: Option<Timestamp>,
}

impl Hook {
    /// What policies said; nothing if nobody is to be asked.
    pub(super) fn of(work: &Work) -> Option<Self> {
        let said = work.data.get(KEY)?.as_object().filter(|said| !said.is_empty())?;
        let seconds = said.get("timeout").and_then(Value::as_u64).unwrap_or(0);
        let url = said.get("params").and_then(|params| params.get("url")).and_then(Value::as_str);
        let webhook = said.get("type").and_then(Value::as_str) == Some("webhook");
        Some(Self {
            url: url.filter(|url| webhook && !url.is_empty()).map(str::to_owned),
            timeout: Span::from_secs(u32::try_from(seconds).unwrap_or(u32::MAX)),
            began: said.get("began").and_then(Value::as_i64).map(Timestamp::from_micros),
        })
    }
}

/// The members whose parts wait still.
pub(super) struct Waiting {
    kind: ActionKind,
    until: Timestamp,
    teller: Option<Teller>,
}

impl Waiting {
    /// The commit before anybody is told: a part for each member, and since when they wait.
    pub(super) async fn begin(
        work: &mut Work,
        hook: Hook,
        kind: ActionKind,
        leaving: &HashSet<NodeId>,
        intent: bool,
    ) -> Result<Self, Stop> {
        let began = match hook.began {
            Some(began) => began,
            None => commit(work, kind, leaving, intent).await?,
        };
        let teller = hook.url.map(|url| Teller::new(&work.inner, url));
        Ok(Self { until: began.after(hook.timeout), kind, teller })
    }

    /// Waits until some may go that have not gone yet; nobody any more if all have.
    pub(super) async fn next(&mut self, work: &mut Work) -> Result<HashSet<NodeId>, Stop> {
        loop {
            work.check()?;
            let follow = work.inner.hub.follow(Topic::Action(work.action.id));
            let version = follow.version();
            let waiting = waiting(work, self.kind).await?;
            let left_out: HashSet<NodeId> =
                work.cancelled_children().into_iter().map(|(node, _)| node).collect();
            let free = |id: &NodeId| !waiting.iter().any(|(node, _)| node == id) || left_out.contains(id);
            let may_go: HashSet<NodeId> =
                work.children.keys().copied().filter(free).filter(|id| work.node(*id).is_some()).collect();
            if !may_go.is_empty() || waiting.is_empty() {
                return Ok(may_go);
            }
            if work.now() >= self.until {
                let end = EndWait { ticket: work.ticket(), now: work.now() };
                work.inner.store.end_wait(end).await?;
                continue;
            }
            let until = self.until;
            tokio::select! {
                stop = work.interrupted_or_told() => stop?,
                why = self.tell(work, &waiting) => complain(work, &why).await?,
                () = follow.changed_since(version) => {}
                () = work.inner.clock.sleep_until(until) => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// Tells whoever has to say the word of all that wait; returns only with a reason why that does not work.
    async fn tell(&mut self, work: &Work, waiting: &[(NodeId, ActionId)]) -> String {
        let Some(teller) = &mut self.teller else { return std::future::pending().await };
        let message = |(node, token): &(NodeId, ActionId)| Some((*token, message(work.node(*node)?, *token)));
        let messages: Vec<(ActionId, Value)> = waiting.iter().filter_map(message).collect();
        teller.tell(&messages).await
    }
}

/// Parts that wait, with their nodes.
async fn waiting(work: &Work, kind: ActionKind) -> Result<Vec<(NodeId, ActionId)>, Stop> {
    let query = ActionQuery {
        parent: Some(work.action.id),
        kinds: vec![kind],
        statuses: vec![ActionStatus::WaitingLifecycleCompletion],
        ..ActionQuery::default()
    };
    let waiting: HashSet<ActionId> =
        work.inner.store.actions(&query).await?.items.into_iter().map(|child| child.id).collect();
    let children = work.children.iter().filter(|(_, child)| waiting.contains(child));
    Ok(children.map(|(node, child)| (*node, *child)).collect())
}

/// Who waits for a word has to know that nobody heard that it is waited for.
async fn complain(work: &mut Work, why: &str) -> Result<(), Stop> {
    let message = format!("nodes wait to go, and whoever should let them was not told: {why}");
    let (action, now) = (Some(&work.action), work.now());
    let event = events::of_cluster(action, &work.cluster, Level::Warn, reason::HOOK_NOT_TOLD, &message, now);
    work.events.push(event);
    work.flush().await
}

async fn commit(
    work: &mut Work,
    kind: ActionKind,
    leaving: &HashSet<NodeId>,
    intent: bool,
) -> Result<Timestamp, Stop> {
    let now = work.now();
    let ids: Vec<NodeId> = leaving.iter().copied().collect();
    let children = work.children_for(kind, &ids);
    let children: Vec<Action> = children.into_iter().map(|child| hooked(work, child)).collect();
    let messages = messages(work, &children);
    if let Some(Value::Object(said)) = work.data.get_mut(KEY) {
        said.insert("began".to_owned(), json!(now.micros()));
        said.insert("messages".to_owned(), json!(messages));
    }
    work.commit_with(children, intent).await?;
    Ok(now)
}

/// A part that waits, if there is anything to wait for: nobody is asked about a node that does not work.
fn hooked(work: &Work, child: Action) -> Action {
    let works = node_of(work, &child)
        .is_some_and(|node| node.status == NodeStatus::Active && node.physical_id.is_some());
    let status = if works { ActionStatus::WaitingLifecycleCompletion } else { ActionStatus::Ready };
    let status_reason =
        if works { "Waiting for lifecycle completion.".to_owned() } else { child.status_reason };
    Action { cause: Cause::DerivedWithHook, status, status_reason, ..child }
}

fn node_of<'w>(work: &'w Work, child: &Action) -> Option<&'w Node> {
    match child.target {
        muster_core::action::Target::Node(id) => work.node(id),
        muster_core::action::Target::Cluster(_) => None,
    }
}

/// What is told of each that waits; kept with the action for whoever looks there.
fn messages(work: &Work, children: &[Action]) -> Vec<Value> {
    let waits = |child: &&Action| child.status == ActionStatus::WaitingLifecycleCompletion;
    children.iter().filter(waits).filter_map(|child| Some(message(node_of(work, child)?, child.id))).collect()
}

fn message(node: &Node, token: ActionId) -> Value {
    json!({
        "lifecycle_action_token": token,
        "node_id": node.id,
        "resource_id": node.physical_id,
        "lifecycle_transition_type": "termination",
    })
}
