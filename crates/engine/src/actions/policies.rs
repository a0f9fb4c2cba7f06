//! Attaching policies to a cluster, and detaching them.

use muster_core::action::Action;
use muster_core::change::{Change, PolicyChange};
use muster_core::ids::{BindingId, PolicyId};
use muster_core::policy::{self, Binding, Policy};
use muster_store::commands::BindingChange;

use crate::action_data::ActionData;
use crate::context::Context;
use crate::ids::new_id;
use crate::policy::{Effects, PolicyContext, set_or_remove};
use crate::run::{ActionRun, Journal, RunSubject, Stop};

pub(crate) async fn attach(
    run: &mut ActionRun,
    PolicyChange { policy_id, enabled }: PolicyChange,
) -> Result<String, Stop> {
    if find_binding(&run.subject.bindings, policy_id).is_ok() {
        return Ok("Policy already attached.".to_owned());
    }
    let missing = || Stop::Failed(format!("The specified policy '{policy_id}' could not be found."));
    let policy = run.context.store.policy(policy_id).await?.ok_or_else(missing)?;
    check(&run.subject, &policy).map_err(Stop::Failed)?;
    let priority = policy::find(&policy.kind).map_or(0, |(kind, _)| kind.priority);
    let unknown = || Stop::Failed(format!("this server does not support policies of type '{}'", policy.kind));
    let policy_type = run.context.policies.get(&policy.kind).ok_or_else(unknown)?;
    let mut binding = Binding {
        id: BindingId::from_uuid(new_id()),
        cluster_id: run.subject.cluster.id,
        policy,
        enabled: enabled.unwrap_or(true),
        priority,
        data: serde_json::Map::new(),
        last_op: None,
    };
    let mut effects = Effects::default();
    let ActionRun { context, action, change, subject, data, .. } = &mut *run;
    let mut policy_context = policy_context(context, (action, change), subject, data, &mut effects);
    policy_type.attach(&mut binding, &mut policy_context).await.map_err(Stop::Failed)?;
    drop(policy_context);
    effects.put_binding(binding);
    apply_effects(&mut run.subject, &mut run.journal, effects);
    Ok("Policy attached.".to_owned())
}

/// Checks that a policy applies to a cluster's profile type and is compatible with the policies that are attached.
fn check(subject: &RunSubject, policy: &Policy) -> Result<(), String> {
    let Some((kind, _)) = policy::find(&policy.kind) else { return Ok(()) };
    let profile_type = &subject.cluster.profile_type;
    if !kind.applies_to(profile_type) {
        let others = kind.profile_types.unwrap_or_default().join(", ");
        return Err(format!(
            "Policy not applicable on profile type: {profile_type}. Policies of type {} act on {others} only.",
            policy.kind
        ));
    }
    let another = subject.bindings.iter().find(|binding| binding.policy.kind == policy.kind);
    match another.filter(|_| kind.singleton) {
        None => Ok(()),
        Some(another) => Err(format!(
            "Only one instance of policy type ({}) can be attached to a cluster, but another instance ({}) is found \
             attached to the cluster ({}) already.",
            policy.kind, another.policy.id, subject.cluster.id
        )),
    }
}

pub(crate) async fn detach(run: &mut ActionRun, policy: PolicyId) -> Result<String, Stop> {
    let binding = find_binding(&run.subject.bindings, policy)?;
    detach_binding(run, &binding).await.map_err(Stop::Failed)?;
    Ok("Policy detached.".to_owned())
}

/// Detaches all policies before their cluster is deleted.
pub(crate) async fn detach_all(run: &mut ActionRun) -> Result<(), Stop> {
    for binding in run.subject.bindings.clone() {
        if let Err(why) = detach_binding(run, &binding).await {
            tracing::warn!(policy = %binding.policy.id, why, "cannot be detached");
            return Err(Stop::Failed(format!("Unable to detach policy {} before deletion.", binding.id)));
        }
        run.subject.bindings.retain(|other| other.id != binding.id);
    }
    Ok(())
}

async fn detach_binding(run: &mut ActionRun, binding: &Binding) -> Result<(), String> {
    let mut effects = Effects::default();
    if let Some(policy_type) = run.context.policies.get(&binding.policy.kind) {
        let ActionRun { context, action, change, subject, data, .. } = &mut *run;
        let mut policy_context = policy_context(context, (action, change), subject, data, &mut effects);
        policy_type.detach(binding, &mut policy_context).await?;
    }
    effects.bindings.push(BindingChange::Remove(binding.id));
    apply_effects(&mut run.subject, &mut run.journal, effects);
    Ok(())
}

/// Enables or disables an attached policy.
pub(crate) fn enable(
    bindings: &[Binding],
    journal: &mut Journal,
    PolicyChange { policy_id, enabled }: PolicyChange,
) -> Result<String, Stop> {
    let binding = find_binding(bindings, policy_id)?;
    let enabled = enabled.unwrap_or(binding.enabled);
    if enabled == binding.enabled {
        return Ok("No update is needed.".to_owned());
    }
    journal.bindings.push(BindingChange::Put(Box::new(Binding { enabled, ..binding })));
    Ok("Policy updated.".to_owned())
}

fn find_binding(bindings: &[Binding], policy: PolicyId) -> Result<Binding, Stop> {
    let binding = bindings.iter().find(|binding| binding.policy.id == policy);
    binding.cloned().ok_or_else(|| Stop::Failed("Policy not attached.".to_owned()))
}

/// Creates the policies' view of an action.
pub(crate) fn policy_context<'a>(
    context: &'a Context,
    (action, change): (&'a Action, &'a Change),
    subject: &'a RunSubject,
    data: &'a mut ActionData,
    effects: &'a mut Effects,
) -> PolicyContext<'a> {
    PolicyContext {
        action,
        change,
        cluster: &subject.cluster,
        nodes: subject.nodes.as_slice(),
        capabilities: subject.capabilities,
        profile_created_at: Box::new(|node| subject.profile_of(node).created_at),
        probe: context.policies.probe(),
        hooks: context.hooks.as_ref(),
        limit: subject.node_limit,
        data,
        effects,
        now: context.clock.now(),
    }
}

/// Applies the changes of a policy in memory. The next commits write them; the last commit of the action writes the
/// bindings.
pub(crate) fn apply_effects(subject: &mut RunSubject, journal: &mut Journal, effects: Effects) {
    let Effects { bindings, node_data, cluster_data } = effects;
    journal.bindings.extend(bindings);
    for (id, key, value) in node_data {
        // Removing an absent key leaves the row unchanged.
        let known = subject.node(id).is_some_and(|node| value.is_some() || node.data.contains_key(key));
        if known && let Some(node) = subject.nodes.get_mut(id) {
            set_or_remove(&mut node.data, key, value);
        }
    }
    for (key, value) in cluster_data {
        set_or_remove(&mut subject.cluster.data, key, value);
    }
}
