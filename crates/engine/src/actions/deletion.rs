//! How members go: what policies said about it, and the wait before.

use std::collections::HashSet;

use muster_core::action::ActionKind;
use muster_core::ids::NodeId;
use muster_core::time::{Span, Timestamp};
use serde_json::{Map, Value, json};

use crate::actions::hooks::{Hook, Waiting};
use crate::reconcile::individual::Aim;
use crate::run::{ActionRun, Stop};
use crate::run::{succeeded, summarize};

/// Where policies and steps leave for each other what is said about members that go.
const KEY: &str = "deletion";

/// When the wait before members are stopped began.
const GRACE_BEGAN: &str = "grace_began";

/// What policies, or else the request, said about members that go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Deletion {
    /// Those that go first.
    pub(crate) candidates: Vec<NodeId>,
    /// Whether they end; otherwise they become orphans.
    pub(crate) destroy: Option<bool>,
    /// Whether there shall be fewer from then on.
    pub(crate) reduces: bool,
    grace: Span,
    began: Option<Timestamp>,
}

impl Deletion {
    pub(crate) fn of(run: &ActionRun) -> Self {
        Self::read(&run.data, &run.action.inputs)
    }

    fn read(data: &Map<String, Value>, inputs: &Value) -> Self {
        let said = data.get(KEY).unwrap_or(&Value::Null);
        let candidates = said.get("candidates").or_else(|| inputs.get("candidates"));
        let candidates = candidates.and_then(|chosen| serde_json::from_value(chosen.clone()).ok());
        let grace = said.get("grace_period").and_then(Value::as_u64);
        Self {
            candidates: candidates.unwrap_or_default(),
            destroy: said.get("destroy_after_deletion").and_then(Value::as_bool),
            reduces: said.get("reduce_desired_capacity").and_then(Value::as_bool).unwrap_or(true),
            grace: Span::from_secs(grace.map_or(0, |grace| u32::try_from(grace).unwrap_or(u32::MAX))),
            began: said.get(GRACE_BEGAN).and_then(Value::as_i64).map(Timestamp::from_micros),
        }
    }
}

/// Members that go, and how.
pub(crate) struct Leaving {
    pub(crate) nodes: HashSet<NodeId>,
    /// They end; otherwise they become orphans.
    pub(crate) destroy: bool,
    /// What is missing of the others comes back.
    pub(crate) start: bool,
    /// The cluster's row is behind.
    pub(crate) intent: bool,
}

/// Brings a cluster to its size: members that are too many go, what is missing comes.
pub(crate) async fn shrink(run: &mut ActionRun, nodes: HashSet<NodeId>, intent: bool) -> Result<(), Stop> {
    let destroy = Deletion::of(run).destroy.unwrap_or(true) || !run.capabilities.orphans;
    go(run, Leaving { nodes, destroy, start: true, intent }).await
}

/// Lets members go.
pub(crate) async fn go(run: &mut ActionRun, leaving: Leaving) -> Result<(), Stop> {
    let Leaving { nodes, destroy, start, intent } = leaving;
    let mut new_intent = prepare(run, &nodes, intent).await?;
    if let Some(hook) = Hook::of(run).filter(|_| !nodes.is_empty()) {
        let kind = if destroy { ActionKind::NodeDelete } else { ActionKind::NodeLeave };
        let intent = std::mem::take(&mut new_intent);
        let waiting = Waiting::begin(run, hook, kind, &nodes, intent).await?;
        go_one_by_one(run, waiting, destroy).await?;
    } else if destroy {
        return run.reach(&Aim { leaving: nodes, start, new_intent, ..Aim::default() }).await;
    } else if !nodes.is_empty() {
        run.let_go(&nodes, std::mem::take(&mut new_intent)).await?;
    }
    if start || new_intent {
        return run.reach(&Aim { start, new_intent, keep_size: !start, ..Aim::default() }).await;
    }
    Ok(())
}

/// Members go as somebody lets them; one that cannot does not keep the others.
async fn go_one_by_one(run: &mut ActionRun, mut waiting: Waiting, destroy: bool) -> Result<(), Stop> {
    let mut failures = Vec::new();
    loop {
        let leaving = waiting.next(run).await?;
        if leaving.is_empty() {
            break;
        }
        if !destroy {
            run.let_go(&leaving, false).await?;
            continue;
        }
        match run.reach(&Aim { leaving, keep_size: true, ..Aim::default() }).await {
            Ok(()) => run.flush().await?,
            Err(Stop::Failed(why)) => failures.push(why),
            Err(stop) => return Err(stop),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Stop::Failed(summarize(&failures))) }
}

/// Keeps with the action who goes, and waits where they are given time; whether the intent is still to be written.
pub(crate) async fn prepare(
    run: &mut ActionRun,
    leaving: &HashSet<NodeId>,
    mut intent: bool,
) -> Result<bool, Stop> {
    if leaving.is_empty() {
        return Ok(intent);
    }
    note(run, leaving);
    let Deletion { grace, began, .. } = Deletion::of(run);
    if grace > Span::default() {
        let began = match began {
            Some(began) => began,
            None => {
                let now = run.now();
                say(run, GRACE_BEGAN, json!(now.micros()));
                run.commit(std::mem::take(&mut intent)).await?;
                now
            }
        };
        run.pause_until(began.after(grace)).await?;
    }
    Ok(intent)
}

/// Who goes is kept with the action, whoever asks later; an action that is taken over lets the same ones go.
pub(crate) fn note(run: &mut ActionRun, leaving: &HashSet<NodeId>) {
    let mut ids: Vec<NodeId> = leaving.iter().copied().collect();
    ids.sort_unstable();
    let known = Deletion::of(run).candidates;
    // In the order in which they were chosen; what is gone already stays named.
    let rest = ids.into_iter().filter(|id| !known.contains(id)).collect::<Vec<_>>();
    let begun = run.action.applied_at.is_some();
    let chosen: Vec<NodeId> =
        known.into_iter().filter(|id| begun || leaving.contains(id)).chain(rest).collect();
    say(run, "count", json!(chosen.len()));
    say(run, "candidates", json!(chosen));
}

impl ActionRun {
    /// Members become orphans: a change of rows, and of nothing else.
    async fn let_go(&mut self, leaving: &HashSet<NodeId>, intent: bool) -> Result<(), Stop> {
        let ids: Vec<NodeId> = leaving.iter().copied().collect();
        let children = self.children_for(ActionKind::NodeLeave, &ids);
        for id in &ids {
            self.end_child(*id, succeeded("Node successfully left cluster."));
        }
        self.move_out(leaving);
        self.commit_with(children, intent).await
    }
}

fn say(run: &mut ActionRun, key: &str, value: Value) {
    let mut said = match run.data.remove(KEY) {
        Some(Value::Object(said)) => said,
        _ => Map::new(),
    };
    said.insert(key.to_owned(), value);
    run.data.insert(KEY.to_owned(), said.into());
}
