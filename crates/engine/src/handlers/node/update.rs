//! Changing a node.

use std::collections::HashMap;

use muster_core::ids::ProfileId;
use muster_core::node::{Node, NodeStatus};
use muster_core::profile::Profile;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::target;
use crate::handlers::{provider_failed, update::merge};
use crate::members::Aim;
use crate::provider::{Call, Updated};
use crate::work::{Stop, Work};

/// Where an action keeps what a node was before it was made anew.
const KEY: &str = "update";

/// What can be changed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Inputs {
    name: Option<String>,
    role: Option<String>,
    metadata: Option<Map<String, Value>>,
    tainted: Option<bool>,
    profile_id: Option<ProfileId>,
}

/// Changes what is said of a node, and what it is made from.
pub(crate) async fn update(work: &mut Work) -> Result<(), Stop> {
    let before = target(work)?;
    let inputs: Inputs = work.inputs()?;
    if before.physical_id.is_none() && work.action.applied_at.is_none() {
        return Err(Stop::Failed(
            "Node update failed. It was never made, or is not there any more.".to_owned(),
        ));
    }
    let profile = inputs.profile_id;
    change(work, &before, inputs);
    let new = |profile: &ProfileId| *profile != before.profile_id || work.data.contains_key(KEY);
    if let Some(profile) = profile.filter(new) {
        follow(work, &before, profile).await?;
    }
    work.settle(before.id, NodeStatus::Active, "Update succeeded");
    Ok(())
}

fn change(work: &mut Work, node: &Node, inputs: Inputs) {
    let Inputs { name, role, metadata, tainted, profile_id: _ } = inputs;
    let Some(node) = work.node_mut(node.id) else { return };
    node.name = name.unwrap_or_else(|| std::mem::take(&mut node.name));
    node.user_role = role.unwrap_or_else(|| std::mem::take(&mut node.user_role));
    node.tainted = tainted.unwrap_or(node.tainted);
    merge(&mut node.metadata, metadata);
}

/// Has a node follow another recipe: in place where that is possible, else by making it anew.
async fn follow(work: &mut Work, node: &Node, id: ProfileId) -> Result<(), Stop> {
    let missing = || Stop::Failed(format!("The specified profile '{id}' could not be found."));
    let profile = work.inner.store.profile(id).await?.ok_or_else(missing)?;
    let before = work.profile_of(node).clone();
    if profile.kind != before.kind {
        let why = "Cannot update a node to a different profile type, operation aborted.";
        return Err(Stop::Failed(why.to_owned()));
    }
    if work.data.contains_key(KEY) {
        // Found to need it by an engine before us: the row follows already, and nothing would differ any more.
        return make_anew(work, node, profile).await;
    }
    work.settle(node.id, NodeStatus::Updating, "Update in progress");
    work.commit(false).await?;
    let updated = {
        let call = Call { profile: &profile, ..work.call() };
        work.call_provider(work.provider.update_node(call, node, &before)).await?
    };
    match updated {
        Ok(Updated::InPlace) => {
            work.follow_recipe(node.id, profile);
            Ok(())
        }
        Ok(Updated::MakeAnew) => make_anew(work, node, profile).await,
        Err(error) => {
            if !error.transient {
                work.settle(node.id, NodeStatus::Error, &format!("Update failed: {}", error.message));
            }
            Err(provider_failed(error))
        }
    }
}

async fn make_anew(work: &mut Work, node: &Node, profile: Profile) -> Result<(), Stop> {
    work.follow_recipe(node.id, profile);
    if !work.data.contains_key(KEY) {
        if let Some(node) = work.node_mut(node.id) {
            node.starts.clear();
        }
        work.data.insert(KEY.to_owned(), json!({"old": node.physical_id}));
        work.commit(false).await?;
    }
    let old = work.data.get(KEY).and_then(|kept| kept.get("old")).and_then(Value::as_str);
    let again: HashMap<_, _> = old.map(|old| (node.id, old.to_owned())).into_iter().collect();
    work.reach(&Aim { start: true, only: Some(node.id), again, ..Aim::default() }).await
}
