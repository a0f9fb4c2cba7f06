//! Rolling update: members move to their cluster's new profile in batches.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use muster_core::action::ActionStatus;
use muster_core::change::{Change, NodeUpdate, RestartScope};
use muster_core::cluster::Cluster;
use muster_core::ids::{NodeId, ProfileId};
use muster_core::node::{Node, NodeRole, NodeStatus};
use muster_core::profile::{Profile, ProfileType};
use muster_store::Store;
use muster_store::commands::ActionEnd;

use crate::action_data::{ActionData, RecipeBefore};
use crate::intent::recipe::{RecipeChange, Replacement};
use crate::ports::provider::{FencedCall, ProviderError, UpdateOutcome};
use crate::reconcile::individual::{self, Goal};
use crate::reconcile::reasons::report_restart_needed;
use crate::run::{ActionRun, RunControl, RunSubject, Stop, succeeded, summarize};

/// Limits the concurrent updates within a batch.
const MAX_CONCURRENT: usize = 32;

/// The status reason of updated nodes.
const UPDATED: &str = "Update succeeded";

/// Begins to move the cluster's nodes to a new recipe, from another profile or from the cluster itself. The head
/// follows at once, and with a new head those workers that cannot rejoin it; all of that is written with the intent.
/// Other workers follow in [`roll_out`].
pub(crate) async fn begin(
    run: &mut ActionRun,
    before: &Cluster,
    new_profile: Option<Profile>,
    restart: Option<RestartScope>,
) -> Result<(), Stop> {
    let old = run.subject.profile.clone();
    let follows_another = new_profile.is_some();
    if let Some(profile) = new_profile {
        run.data.update().before = Some(old.id);
        run.subject.change_profile(profile);
    }
    let (cluster, profile) = (run.subject.cluster.clone(), run.subject.profile.clone());
    let change = RecipeChange::between((before, &old), (&cluster, &profile));
    let Replacement { head, replaced, outdated } =
        Replacement::decide(&change, run.subject.nodes.as_slice(), restart, &run.subject.capabilities);
    let new_head = begin_with_head(run, head, follows_another).await?;
    let follows_head = new_head && !run.subject.capabilities.workers_outlive_head;
    let mut recreate: HashSet<NodeId> = HashSet::new();
    if !follows_head {
        let workers = workers(&run.subject).into_iter().filter(|id| replaced.contains(id));
        recreate.extend(workers);
    }
    let newly = |node: &&Node| outdated.contains(&node.id) && !node.is_outdated();
    run.data.update().outdated = run.subject.nodes.iter().filter(newly).map(|node| node.id).collect();
    run.subject.nodes.change_where(|node| outdated.contains(&node.id), |node| node.set_outdated(true));
    if restart.is_some() && !outdated.is_empty() {
        report_restart_needed(run);
    }
    if follows_another || new_head || !recreate.is_empty() {
        run.data.update().recipe_before = Some(RecipeBefore::of(before));
    }
    // A node that has used up its budget of starts may work with the new recipe.
    run.subject.nodes.change_where(|node| recreate.contains(&node.id), |node| node.starts.clear());
    if !recreate.is_empty() {
        run.data.update().recreate = recreate;
    }
    Ok(())
}

/// Reads a profile; fails if the profile does not exist or has another type.
pub(crate) async fn check_profile(store: &Store, kind: &ProfileType, id: ProfileId) -> Result<Profile, Stop> {
    let missing = || Stop::Failed(format!("The specified profile '{id}' could not be found."));
    let profile = store.profile(id).await?.ok_or_else(missing)?;
    if profile.kind != *kind {
        let why = "Cannot update a cluster to a different profile type, operation aborted.";
        return Err(Stop::Failed(why.to_owned()));
    }
    Ok(profile)
}

/// Moves the head to a new recipe or profile; returns true if the head is replaced by a new one.
async fn begin_with_head(run: &mut ActionRun, is_concerned: bool, new_profile: bool) -> Result<bool, Stop> {
    let Some(head) = run.subject.nodes.iter().find(|node| node.role == NodeRole::Head).cloned() else {
        return Ok(false);
    };
    let replaced = if is_concerned {
        true
    } else if new_profile {
        let before = run.subject.profile_of_row(&head).clone();
        let updated =
            run.control.call_provider(run.node_provider()?.update_node(run.call(), &head, &before)).await?;
        updated? == UpdateOutcome::MustRecreate
    } else {
        false
    };
    if replaced {
        run.subject.cluster.incarnation += 1;
    }
    if new_profile {
        let follow_head = replaced && !run.subject.capabilities.workers_outlive_head;
        let nodes: Vec<NodeId> = run.subject.nodes.ids();
        for follower in nodes.into_iter().filter(|id| follow_head || *id == head.id) {
            run.subject.follow_cluster(follower);
        }
    }
    Ok(replaced)
}

/// Restores the cluster's profile and recipe after an update that did not reach all members, so that it can be
/// requested again. Members that have profiles of their own keep the new one.
pub(crate) fn roll_back(subject: &mut RunSubject, data: &ActionData) {
    let Some(rollout) = data.update.clone() else { return };
    if let Some(before) = rollout.before {
        subject.restore_profile(before);
        if !subject.capabilities.orphans {
            for id in subject.nodes.ids() {
                subject.nodes.set_profile(id, before);
            }
        }
    }
    if let Some(before) = rollout.recipe_before {
        let tried = subject.cluster.clone();
        before.restore(&mut subject.cluster);
        if !tried.has_same_recipe(&subject.cluster) {
            // Nodes that kept the recipe are not older than the cluster any more.
            let kept = |node: &Node| rollout.outdated.contains(&node.id);
            subject.nodes.change_where(kept, |node| node.set_outdated(false));
            // Members of finished batches were recreated from the recipe that is rolled back.
            let done: HashSet<NodeId> =
                rollout.plan.iter().flatten().take(rollout.batches_done).flatten().copied().collect();
            let follows = |node: &Node| done.contains(&node.id) && rollout.recreate.contains(&node.id);
            subject.nodes.change_where(follows, |node| node.set_outdated(true));
        }
        // Failed starts with the new recipe must not use up the budget of starts with the restored one.
        let did_not_work = |node: &Node| node.status != NodeStatus::Active && !node.starts.is_empty();
        subject.nodes.change_where(did_not_work, |node| node.starts.clear());
    }
}

/// Returns true if workers are recreated because the update changes their recipe.
pub(crate) fn recreates(data: &ActionData) -> bool {
    data.update.as_ref().is_some_and(|rollout| !rollout.recreate.is_empty())
}

/// Returns true if this or an earlier engine has begun to update members.
pub(crate) fn has_begun(data: &ActionData) -> bool {
    data.update.as_ref().is_some_and(|rollout| rollout.begun)
}

/// Updates the workers batch by batch; stops after the first batch with a failure.
pub(crate) async fn roll_out(run: &mut ActionRun) -> Result<(), Stop> {
    let all_workers = workers(&run.subject);
    let rollout = run.data.update();
    // With a changed recipe the workers are replaced one after the other, so that the others continue the work.
    let one_by_one = rollout.before.is_none();
    let recreate = rollout.recreate.clone();
    let singly = || all_workers.iter().filter(|id| recreate.contains(id)).map(|id| vec![*id]).collect();
    let batches = if one_by_one { singly() } else { vec![all_workers.clone()] };
    let plan = rollout.plan.get_or_insert(batches).clone();
    pause_between_batches(&run.control, &run.data).await?;
    for (place, batch) in plan.iter().enumerate().skip(run.data.update().batches_done) {
        let failures = update(run, batch).await?;
        if !failures.is_empty() {
            return Err(Stop::Failed(format!("Failed in updating nodes. {}", summarize(&failures))));
        }
        let now = run.now();
        let rollout = run.data.update();
        rollout.batches_done = place + 1;
        rollout.rests_until = Some(now.after(rollout.pause()));
        run.commit(false).await?;
        pause_between_batches(&run.control, &run.data).await?;
    }
    Ok(())
}

fn workers(subject: &RunSubject) -> Vec<NodeId> {
    subject.nodes.iter().filter(|node| node.role == NodeRole::Worker).map(|node| node.id).collect()
}

async fn pause_between_batches(control: &RunControl, data: &ActionData) -> Result<(), Stop> {
    let until = data.update.as_ref().and_then(|rollout| rollout.rests_until);
    match until.filter(|until| *until > control.now()) {
        Some(until) => control.pause_until(until).await,
        None => Ok(()),
    }
}

/// Updates one batch; returns the reasons of the nodes that failed.
async fn update(run: &mut ActionRun, batch: &[NodeId]) -> Result<Vec<String>, Stop> {
    let mut failures: Vec<String> =
        batch.iter().filter_map(|id| run.children.given_up.get(id).cloned()).collect();
    let recreate = run.data.update().recreate.clone();
    let outdated = |node: &Node| {
        node.profile_id != run.subject.profile.id
            || recreate.contains(&node.id)
            || run.children.open.contains_key(&node.id)
    };
    let open = |id: &NodeId| !run.children.done.contains(id) && !run.children.given_up.contains_key(id);
    let nodes: Vec<NodeId> =
        batch.iter().copied().filter(open).filter(|id| run.subject.node(*id).is_some_and(outdated)).collect();
    if nodes.is_empty() {
        return Ok(failures);
    }
    record_batch(run, &nodes).await?;
    // If the row names the new profile already, an earlier engine decided to recreate the node; the row does not name
    // the old profile any more.
    let follows =
        |id: &NodeId| run.subject.node(*id).is_some_and(|node| node.profile_id == run.subject.profile.id);
    let (mut to_recreate, open): (Vec<_>, Vec<_>) =
        nodes.into_iter().partition(|id| recreate.contains(id) || follows(id));
    for id in &to_recreate {
        run.subject.follow_cluster(*id);
    }
    let mut failed = Vec::new();
    for (id, updated) in call_each(run, &open).await? {
        match updated {
            Ok(UpdateOutcome::InPlace) => {
                run.subject.follow_cluster(id);
                run.subject.nodes.set_status(id, NodeStatus::Active, UPDATED, run.now());
                run.children.end(id, succeeded(UPDATED));
            }
            Ok(UpdateOutcome::MustRecreate) => {
                run.subject.follow_cluster(id);
                to_recreate.push(id);
            }
            Err(error) if error.transient => return Err(error.into()),
            Err(error) => failed.push((id, format!("Update failed: {}", error.message))),
        }
    }
    if !to_recreate.is_empty() {
        failures.extend(recreate_nodes(run, &to_recreate).await?);
    }
    for (id, message) in failed {
        let name = run.subject.node(id).map(|node| node.name.clone()).unwrap_or_default();
        run.subject.nodes.set_status(id, NodeStatus::Error, &message, run.now());
        failures.push(format!("{name}: {message}"));
        run.children.end(id, ActionEnd { status: ActionStatus::Failed, reason: message });
    }
    Ok(failures)
}

/// Commits a child action for each node, before the nodes change.
async fn record_batch(run: &mut ActionRun, nodes: &[NodeId]) -> Result<(), Stop> {
    let follow = NodeUpdate { new_profile_id: Some(run.subject.profile.id), ..NodeUpdate::default() };
    let children = run.children.begin_all(&Change::UpdateNode(follow), nodes, run.now());
    for id in nodes {
        run.subject.nodes.set_status(*id, NodeStatus::Updating, "Update in progress", run.now());
    }
    run.data.update().begun = true;
    run.commit_with(children, true).await
}

type NodeUpdateResult = (NodeId, Result<UpdateOutcome, ProviderError>);

/// Asks the provider to update each node.
async fn call_each(run: &ActionRun, nodes: &[NodeId]) -> Result<Vec<NodeUpdateResult>, Stop> {
    let fence = run.action.fence;
    let shared = Arc::new((run.node_provider()?, run.subject.cluster.clone(), run.subject.profile.clone()));
    let mut recipes: HashMap<ProfileId, Arc<Profile>> = HashMap::new();
    let mut calls: Vec<BoxFuture<'static, NodeUpdateResult>> = Vec::new();
    for node in nodes.iter().filter_map(|id| run.subject.node(*id)).cloned() {
        let before = recipes.entry(node.profile_id);
        let before =
            Arc::clone(before.or_insert_with(|| Arc::new(run.subject.profile_of_row(&node).clone())));
        let shared = Arc::clone(&shared);
        calls.push(Box::pin(async move {
            let (provider, cluster, profile) = shared.as_ref();
            let call = FencedCall { cluster, profile, fence };
            (node.id, provider.update_node(call, &node, &before).await)
        }));
    }
    tokio::select! {
        biased;
        done = futures::stream::iter(calls).buffer_unordered(MAX_CONCURRENT).collect() => Ok(done),
        stop = run.control.interrupted() => Err(stop),
    }
}

/// Recreates nodes that cannot be updated in place; returns the reasons of a failure.
///
/// The row names the old instance until its child action has ended: an engine that takes over stops only that
/// instance.
async fn recreate_nodes(run: &mut ActionRun, nodes: &[NodeId]) -> Result<Vec<String>, Stop> {
    for id in nodes {
        if let Some(node) = run.subject.nodes.get_mut(*id) {
            // A requested restart does not count as a crash.
            node.starts.clear();
        }
    }
    run.flush().await?;
    let old = |id: &NodeId| Some((*id, run.subject.node(*id)?.physical_id.clone()?));
    let recreate = nodes.iter().filter_map(old).collect();
    let reached =
        individual::reconcile(run, &Goal { start: true, keep_size: true, recreate, ..Goal::default() }).await;
    for id in nodes {
        if run.subject.node(*id).is_some_and(|node| node.status == NodeStatus::Active) {
            run.subject.nodes.set_status(*id, NodeStatus::Active, UPDATED, run.now());
        }
    }
    match reached {
        Ok(()) => Ok(Vec::new()),
        Err(Stop::Failed(why)) => Ok(vec![why]),
        Err(stop) => Err(stop),
    }
}
