//! How members go: what policies said about it, and the wait before.

use std::collections::HashSet;

use muster_core::action::ActionKind;
use muster_core::ids::NodeId;
use muster_core::time::{Span, Timestamp};
use serde_json::{Map, Value, json};

use super::hooks::{Hook, Waiting};
use crate::members::{Aim, in_one, succeeded};
use crate::work::{Stop, Work};

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
    pub(crate) fn of(work: &Work) -> Self {
        Self::read(&work.data, &work.action.inputs)
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
pub(super) struct Leaving {
    pub(super) nodes: HashSet<NodeId>,
    /// They end; otherwise they become orphans.
    pub(super) destroy: bool,
    /// What is missing of the others comes back.
    pub(super) start: bool,
    /// The cluster's row is behind.
    pub(super) intent: bool,
}

/// Brings a cluster to its size: members that are too many go, what is missing comes.
pub(super) async fn shrink(work: &mut Work, nodes: HashSet<NodeId>, intent: bool) -> Result<(), Stop> {
    let destroy = Deletion::of(work).destroy.unwrap_or(true) || !work.capabilities.orphans;
    go(work, Leaving { nodes, destroy, start: true, intent }).await
}

/// Lets members go.
pub(super) async fn go(work: &mut Work, leaving: Leaving) -> Result<(), Stop> {
    let Leaving { nodes, destroy, start, intent } = leaving;
    let mut new_intent = prepare(work, &nodes, intent).await?;
    if let Some(hook) = Hook::of(work).filter(|_| !nodes.is_empty()) {
        let kind = if destroy { ActionKind::NodeDelete } else { ActionKind::NodeLeave };
        let intent = std::mem::take(&mut new_intent);
        let waiting = Waiting::begin(work, hook, kind, &nodes, intent).await?;
        go_one_by_one(work, waiting, destroy).await?;
    } else if destroy {
        return work.reach(&Aim { leaving: nodes, start, new_intent, ..Aim::default() }).await;
    } else if !nodes.is_empty() {
        work.let_go(&nodes, std::mem::take(&mut new_intent)).await?;
    }
    if start || new_intent {
        return work.reach(&Aim { start, new_intent, keep_size: !start, ..Aim::default() }).await;
    }
    Ok(())
}

/// Members go as somebody lets them; one that cannot does not keep the others.
async fn go_one_by_one(work: &mut Work, mut waiting: Waiting, destroy: bool) -> Result<(), Stop> {
    let mut failures = Vec::new();
    loop {
        let leaving = waiting.next(work).await?;
        if leaving.is_empty() {
            break;
        }
        if !destroy {
            work.let_go(&leaving, false).await?;
            continue;
        }
        match work.reach(&Aim { leaving, keep_size: true, ..Aim::default() }).await {
            Ok(()) => work.flush().await?,
            Err(Stop::Failed(why)) => failures.push(why),
            Err(stop) => return Err(stop),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Stop::Failed(in_one(&failures))) }
}

/// Keeps with the action who goes, and waits where they are given time; whether the intent is still to be written.
pub(super) async fn prepare(
    work: &mut Work,
    leaving: &HashSet<NodeId>,
    mut intent: bool,
) -> Result<bool, Stop> {
    if leaving.is_empty() {
        return Ok(intent);
    }
    note(work, leaving);
    let Deletion { grace, began, .. } = Deletion::of(work);
    if grace > Span::default() {
        let began = match began {
            Some(began) => began,
            None => {
                let now = work.now();
                say(work, GRACE_BEGAN, json!(now.micros()));
                work.commit(std::mem::take(&mut intent)).await?;
                now
            }
        };
        work.pause_until(began.after(grace)).await?;
    }
    Ok(intent)
}

/// Who goes is kept with the action, whoever asks later; an action that is taken over lets the same ones go.
pub(super) fn note(work: &mut Work, leaving: &HashSet<NodeId>) {
    let mut ids: Vec<NodeId> = leaving.iter().copied().collect();
    ids.sort_unstable();
    let known = Deletion::of(work).candidates;
    // In the order in which they were chosen; what is gone already stays named.
    let rest = ids.into_iter().filter(|id| !known.contains(id)).collect::<Vec<_>>();
    let begun = work.action.applied_at.is_some();
    let chosen: Vec<NodeId> =
        known.into_iter().filter(|id| begun || leaving.contains(id)).chain(rest).collect();
    say(work, "count", json!(chosen.len()));
    say(work, "candidates", json!(chosen));
}

impl Work {
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

fn say(work: &mut Work, key: &str, value: Value) {
    let mut said = match work.data.remove(KEY) {
        Some(Value::Object(said)) => said,
        _ => Map::new(),
    };
    said.insert(key.to_owned(), value);
    work.data.insert(KEY.to_owned(), said.into());
}
