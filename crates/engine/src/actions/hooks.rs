//! Members that go only once somebody has said so, or has been silent for long enough.
//!
//! Each has a part of the action that waits; its id is the token by which the word is said. Who is to say it is told
//! at least once, always with the same token.

pub(crate) mod webhook_sender;

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

use crate::actions::hooks::webhook_sender::Teller;
use crate::events::{self, reason};
use crate::notify::Topic;
use crate::run::{ActionRun, Stop};

/// Where policies say whom to ask, and steps what became of it.
const KEY: &str = "hooks";

/// A word may get lost with its connection: now and then it is looked for without one.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Whom to ask, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hook {
    /// Where it is told; nowhere where whoever has to say the word looks into the action.
    url: Option<String>,
    timeout: Span,
    began: Option<Timestamp>,
}

impl Hook {
    /// What policies said; nothing if nobody is to be asked.
    pub(crate) fn of(run: &ActionRun) -> Option<Self> {
        let said = run.data.get(KEY)?.as_object().filter(|said| !said.is_empty())?;
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
pub(crate) struct Waiting {
    kind: ActionKind,
    until: Timestamp,
    teller: Option<Teller>,
}

impl Waiting {
    /// The commit before anybody is told: a part for each member, and since when they wait.
    pub(crate) async fn begin(
        run: &mut ActionRun,
        hook: Hook,
        kind: ActionKind,
        leaving: &HashSet<NodeId>,
        intent: bool,
    ) -> Result<Self, Stop> {
        let began = match hook.began {
            Some(began) => began,
            None => commit(run, kind, leaving, intent).await?,
        };
        let teller = hook.url.map(|url| Teller::new(&run.context, url));
        Ok(Self { until: began.after(hook.timeout), kind, teller })
    }

    /// Waits until some may go that have not gone yet; nobody any more if all have.
    pub(crate) async fn next(&mut self, run: &mut ActionRun) -> Result<HashSet<NodeId>, Stop> {
        loop {
            run.check()?;
            let follow = run.context.notifier.subscribe(Topic::Action(run.action.id));
            let version = follow.version();
            let waiting = waiting(run, self.kind).await?;
            let left_out: HashSet<NodeId> =
                run.cancelled_children().into_iter().map(|(node, _)| node).collect();
            let free = |id: &NodeId| !waiting.iter().any(|(node, _)| node == id) || left_out.contains(id);
            let may_go: HashSet<NodeId> =
                run.children.keys().copied().filter(free).filter(|id| run.node(*id).is_some()).collect();
            if !may_go.is_empty() || waiting.is_empty() {
                return Ok(may_go);
            }
            if run.now() >= self.until {
                let end = EndWait { ticket: run.ticket(), now: run.now() };
                run.context.store.end_wait(end).await?;
                continue;
            }
            let until = self.until;
            tokio::select! {
                stop = run.interrupted_or_told() => stop?,
                why = self.tell(run, &waiting) => complain(run, &why).await?,
                () = follow.changed_since(version) => {}
                () = run.context.clock.sleep_until(until) => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// Tells whoever has to say the word of all that wait; returns only with a reason why that does not run.
    async fn tell(&mut self, run: &ActionRun, waiting: &[(NodeId, ActionId)]) -> String {
        let Some(teller) = &mut self.teller else { return std::future::pending().await };
        let message = |(node, token): &(NodeId, ActionId)| Some((*token, message(run.node(*node)?, *token)));
        let messages: Vec<(ActionId, Value)> = waiting.iter().filter_map(message).collect();
        teller.tell(&messages).await
    }
}

/// Parts that wait, with their nodes.
async fn waiting(run: &ActionRun, kind: ActionKind) -> Result<Vec<(NodeId, ActionId)>, Stop> {
    let query = ActionQuery {
        parent: Some(run.action.id),
        kinds: vec![kind],
        statuses: vec![ActionStatus::WaitingLifecycleCompletion],
        ..ActionQuery::default()
    };
    let waiting: HashSet<ActionId> =
        run.context.store.actions(&query).await?.items.into_iter().map(|child| child.id).collect();
    let children = run.children.iter().filter(|(_, child)| waiting.contains(child));
    Ok(children.map(|(node, child)| (*node, *child)).collect())
}

/// Who waits for a word has to know that nobody heard that it is waited for.
async fn complain(run: &mut ActionRun, why: &str) -> Result<(), Stop> {
    let message = format!("nodes wait to go, and whoever should let them was not told: {why}");
    let (action, now) = (Some(&run.action), run.now());
    let event = events::of_cluster(action, &run.cluster, Level::Warn, reason::HOOK_NOT_TOLD, &message, now);
    run.events.push(event);
    run.flush().await
}

async fn commit(
    run: &mut ActionRun,
    kind: ActionKind,
    leaving: &HashSet<NodeId>,
    intent: bool,
) -> Result<Timestamp, Stop> {
    let now = run.now();
    let ids: Vec<NodeId> = leaving.iter().copied().collect();
    let children = run.children_for(kind, &ids);
    let children: Vec<Action> = children.into_iter().map(|child| hooked(run, child)).collect();
    let messages = messages(run, &children);
    if let Some(Value::Object(said)) = run.data.get_mut(KEY) {
        said.insert("began".to_owned(), json!(now.micros()));
        said.insert("messages".to_owned(), json!(messages));
    }
    run.commit_with(children, intent).await?;
    Ok(now)
}

/// A part that waits, if there is anything to wait for: nobody is asked about a node that does not run.
fn hooked(run: &ActionRun, child: Action) -> Action {
    let works = node_of(run, &child)
        .is_some_and(|node| node.status == NodeStatus::Active && node.physical_id.is_some());
    let status = if works { ActionStatus::WaitingLifecycleCompletion } else { ActionStatus::Ready };
    let status_reason =
        if works { "Waiting for lifecycle completion.".to_owned() } else { child.status_reason };
    Action { cause: Cause::DerivedWithHook, status, status_reason, ..child }
}

fn node_of<'w>(run: &'w ActionRun, child: &Action) -> Option<&'w Node> {
    match child.target {
        muster_core::action::Target::Node(id) => run.node(id),
        muster_core::action::Target::Cluster(_) => None,
    }
}

/// What is told of each that waits; kept with the action for whoever looks there.
fn messages(run: &ActionRun, children: &[Action]) -> Vec<Value> {
    let waits = |child: &&Action| child.status == ActionStatus::WaitingLifecycleCompletion;
    children.iter().filter(waits).filter_map(|child| Some(message(node_of(run, child)?, child.id))).collect()
}

fn message(node: &Node, token: ActionId) -> Value {
    json!({
        "lifecycle_action_token": token,
        "node_id": node.id,
        "resource_id": node.physical_id,
        "lifecycle_transition_type": "termination",
    })
}
