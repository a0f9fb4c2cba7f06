//! Admission: every change of a cluster or node becomes a durable action here.

use muster_core::action::{Action, ActionKind, Cause, OnConflict, Target};
use muster_core::change::Change;
use muster_core::cluster::{Cluster, DEFAULT_TIMEOUT};
use muster_core::event::{Event, Level};
use muster_core::ids::{ActionId, NodeId};
use muster_core::membership::cannot_have_own_profile;
use muster_core::node::Node;
use muster_core::principal::{Door, Principal};
use muster_core::time::TimeSpan;
use muster_store::StoreError;
use muster_store::commands::{
    Accept, Accepted, CheckNewCluster, CompleteLifecycle, NewCluster, RequestKey, Signal, SignalKind,
};

use crate::admission::capacity::{self, CapacityCheck};
use crate::admission::delegated;
use crate::admission::recipe;
use crate::admission::request::{Caller, ChangeRequest, NewClusterUser, Recipe, SubmitError};
use crate::context::{Context, Engine};
use crate::events;
use crate::ids::new_id;
use crate::intent::naming;

impl Engine {
    /// Accepts a new cluster.
    pub async fn create_cluster(
        &self,
        cluster: Cluster,
        from: Recipe,
        unique_name: bool,
        caller: Caller,
    ) -> Result<Accepted, SubmitError> {
        self.create_cluster_for(cluster, from, unique_name, NewClusterUser::None, caller).await
    }

    /// Accepts a new cluster together with the app or job that it is created for.
    pub async fn create_cluster_for(
        &self,
        cluster: Cluster,
        from: Recipe,
        unique_name: bool,
        user: NewClusterUser,
        caller: Caller,
    ) -> Result<Accepted, SubmitError> {
        let (accept, new) = Box::pin(self.admit_cluster(cluster, from, unique_name, user, &caller)).await?;
        let accept = Accept { cluster: Some(new), ..accept };
        Ok(log_accepted(Box::pin(self.context.store.accept(accept)).await?))
    }

    /// Validates a new cluster as a create does, and returns the cluster as it would be created; stores nothing.
    pub async fn validate_cluster(
        &self,
        cluster: Cluster,
        from: Recipe,
        unique_name: bool,
        caller: &Caller,
    ) -> Result<Cluster, SubmitError> {
        let (_, new) =
            Box::pin(self.admit_cluster(cluster, from, unique_name, NewClusterUser::None, caller)).await?;
        let cluster = new.cluster.clone();
        self.context.store.check_new_cluster(CheckNewCluster(new)).await?;
        Ok(cluster)
    }

    /// Refuses a cluster that cannot be created; otherwise returns the action and the cluster to store.
    async fn admit_cluster(
        &self,
        cluster: Cluster,
        from: Recipe,
        unique_name: bool,
        user: NewClusterUser,
        caller: &Caller,
    ) -> Result<(Accept, NewCluster), SubmitError> {
        self.check_local_code(&caller.principal, &cluster.instance)?;
        let provider = self
            .provider(&cluster.instance)
            .ok_or_else(|| SubmitError::NoProvider(cluster.instance.to_string()))?;
        let flavor = cluster.flavor.clone().or_else(|| provider.default_flavor(&cluster.profile_type));
        let mut cluster = Cluster { flavor, ..cluster };
        let profile = from.profile();
        let waits = Box::pin(self.resolve_images(&mut cluster, profile)).await?;
        recipe::admit(provider.as_ref(), profile, cluster.flavor.as_deref()).await?;
        let kind = &cluster.profile_type;
        let unknown = || SubmitError::unknown_type(provider.as_ref(), kind);
        let capabilities = provider.capabilities(kind, cluster.flavor.as_deref()).ok_or_else(unknown)?;
        if cluster.groups.len() > 1 && !capabilities.several_groups {
            let groups = cluster.groups.len();
            return Err(SubmitError::NotSupported(format!(
                "clusters of type {kind} have one worker group, and {groups} were given: leave out the others"
            )));
        }
        if cluster.limits.idle_timeout.is_some() && !capabilities.reports_activity {
            return Err(SubmitError::NotSupported(never_idle(&cluster)));
        }
        naming::refusal(&cluster.config).map_or(Ok(()), |why| Err(SubmitError::Invalid(why)))?;
        let limit = self.context.config.max_nodes_per_cluster;
        if cluster.desired() > limit {
            let desired = cluster.desired();
            return Err(SubmitError::Invalid(format!(
                "the cluster would have {desired} workers: must be at most {limit}"
            )));
        }
        let cluster = Cluster { has_head: capabilities.head, ..cluster };
        recipe::admit_cluster(provider.as_ref(), &cluster, profile).await?;
        let action = self.context.action(ActionKind::ClusterCreate, &cluster, None, caller);
        let mut accept = accept(action, &cluster, OnConflict::Queue, caller.request_key());
        if let Some(capacity) = provider.capacity() {
            let demands = capacity::demands_of(&cluster, profile);
            let check = CapacityCheck { capacity, cluster: &cluster, demands, before: Vec::new() };
            check.refusal().map_or(Ok(()), |why| Err(SubmitError::TooLarge(why)))?;
            let others = Box::pin(capacity::demands_of_others(&self.context.store, &cluster)).await?;
            accept.events.extend(check.warning(&others, &accept.action));
        }
        let quota = Some(self.context.config.max_clusters_per_project);
        let profile = from.into_new();
        let (app, job) = match user {
            NewClusterUser::None => (None, None),
            NewClusterUser::App(app) => (Some(app), None),
            NewClusterUser::Job(job) => (None, Some(job)),
        };
        let new = NewCluster { cluster, profile, unique_name, quota, app, job };
        Ok((Accept { waits, ..accept }, new))
    }

    /// Returns the action that an earlier request with the same request id created, if there is one.
    pub async fn replayed(&self, caller: &Caller) -> Result<Option<Action>, StoreError> {
        match caller.request_key() {
            Some(key) => self.context.store.request(&key).await,
            None => Ok(None),
        }
    }

    /// Accepts a change of a cluster or node.
    pub async fn submit(&self, request: ChangeRequest, caller: Caller) -> Result<Accepted, SubmitError> {
        let ChangeRequest { change, cluster, node, on_conflict, timeout } = request;
        if cluster.deleted_at.is_some() {
            return Err(StoreError::NotFound { kind: "cluster", given: cluster.name }.into());
        }
        self.check_changed_code(&caller.principal, &cluster.instance, &change)?;
        if let Some(refusal) = self.refusal(&change, &cluster, node).await? {
            return Err(SubmitError::NotSupported(refusal));
        }
        Box::pin(self.check_references(&cluster.project, &change, &caller.principal)).await?;
        Box::pin(self.check_profile_images(&cluster, &change)).await?;
        Box::pin(self.check_change(&change, &cluster)).await?;
        Box::pin(self.admit_recipe(
            &cluster.instance,
            cluster.flavor.as_deref(),
            cluster.profile_id,
            &change,
        ))
        .await?;
        let mut action = self.context.action(change.kind(), &cluster, node, &caller);
        (action.version, action.inputs) = (change.version(), change.inputs());
        action.timeout = timeout.unwrap_or(action.timeout);
        let warning = Box::pin(self.check_capacity(&action, &change, &cluster)).await?;
        let mut accept = accept(action, &cluster, on_conflict, caller.request_key());
        accept.events.extend(warning);
        Ok(log_accepted(Box::pin(self.context.store.accept(accept)).await?))
    }

    /// Refuses a change if nodes that it adds or enlarges could not run; returns a warning if all nodes together need
    /// too much.
    async fn check_capacity(
        &self,
        action: &Action,
        change: &Change,
        cluster: &Cluster,
    ) -> Result<Option<Event>, SubmitError> {
        let limit = self.context.config.max_nodes_per_cluster;
        let capacity = self.provider(&cluster.instance).and_then(|provider| provider.capacity());
        let after = capacity::after(cluster, change, limit);
        let Some((capacity, after)) = capacity.zip(after) else { return Ok(None) };
        let profiles = self.context.store.profiles_of(&[cluster.profile_id, after.profile_id]).await?;
        let demands_of = |cluster: &Cluster| {
            let profile = profiles.iter().find(|profile| profile.id == cluster.profile_id)?;
            Some(capacity::demands_of(cluster, profile))
        };
        let Some((before, demands)) = demands_of(cluster).zip(demands_of(&after)) else { return Ok(None) };
        let check = CapacityCheck { capacity, cluster: &after, demands, before };
        if !check.grows() {
            return Ok(None);
        }
        check.refusal().map_or(Ok(()), |why| Err(SubmitError::TooLarge(why)))?;
        let others = capacity::demands_of_others(&self.context.store, &after).await?;
        Ok(check.warning(&others, action))
    }

    /// Returns the reason why this cluster cannot make the change; none if it can, or if another engine serves its
    /// instance.
    pub(crate) async fn refusal(
        &self,
        change: &Change,
        cluster: &Cluster,
        node: Option<NodeId>,
    ) -> Result<Option<String>, StoreError> {
        let provider = self.provider(&cluster.instance);
        let flavor = cluster.flavor.as_deref();
        let Some(capabilities) =
            provider.and_then(|provider| provider.capabilities(&cluster.profile_type, flavor))
        else {
            return Ok(None);
        };
        if sets_idle_timeout(change) && !capabilities.reports_activity {
            return Ok(Some(never_idle(cluster)));
        }
        let node = match node {
            Some(id) => self.context.store.node(id).await?,
            None => None,
        };
        let role = node.as_ref().map(|node| node.role);
        if let Some(refusal) = delegated::refusal(capabilities, cluster, change, role) {
            return Ok(Some(refusal));
        }
        let leaves = node.is_some_and(|node| names_other_profile(change, &node)) && !capabilities.orphans;
        Ok(leaves.then(|| cannot_have_own_profile(&cluster.profile_type)))
    }

    /// Cancels, suspends or resumes an action.
    pub async fn signal(
        &self,
        id: ActionId,
        kind: SignalKind,
        caller: Option<&Caller>,
    ) -> Result<Action, StoreError> {
        let request = caller.and_then(Caller::request_key);
        self.context.store.signal(Signal { id, kind, now: self.now(), request }).await
    }

    /// Completes the lifecycle hook that a child action waits for before its node is deleted. Idempotent.
    pub async fn complete_lifecycle(&self, token: ActionId) -> Result<Action, StoreError> {
        self.context.store.complete_lifecycle(CompleteLifecycle { token, now: self.now() }).await
    }
}

impl Context {
    pub(crate) fn action(
        &self,
        kind: ActionKind,
        cluster: &Cluster,
        node: Option<NodeId>,
        caller: &Caller,
    ) -> Action {
        let now = self.clock.now();
        let (id, instance) = (ActionId::from_uuid(new_id()), cluster.instance.clone());
        let target = node.map_or(Target::Cluster(cluster.id), Target::Node);
        // The action belongs to the cluster's project, even if an admin of another project requests it.
        let principal = Principal { project: cluster.project.clone(), ..caller.principal.clone() };
        Action {
            cluster_id: Some(cluster.id),
            reason: caller.reason.clone(),
            // With a timeout of zero every action would fail at once, even one that changes the timeout.
            timeout: Some(cluster.timeout)
                .filter(|timeout| *timeout > TimeSpan::default())
                .unwrap_or(DEFAULT_TIMEOUT),
            ..Action::new(id, kind, target, instance, principal, caller.door, now)
        }
    }
}

fn names_other_profile(change: &Change, node: &Node) -> bool {
    matches!(change, Change::UpdateNode(update) if update.profile_id.is_some_and(|id| id != node.profile_id))
}

fn sets_idle_timeout(change: &Change) -> bool {
    let limits = match change {
        Change::UpdateCluster(update) => update.limits,
        _ => None,
    };
    limits.is_some_and(|limits| matches!(limits.idle_timeout, Some(Some(_))))
}

/// Returns the message that refuses an idle timeout for a cluster that reports no activity.
fn never_idle(cluster: &Cluster) -> String {
    let kind = &cluster.profile_type;
    format!(
        "idle_timeout is not supported for type {kind}, whose use is not observed: omit it, or use max_lifetime instead"
    )
}

/// Logs that an action was accepted. Every later line about the action has its id, including those of providers.
pub(crate) fn log_accepted(accepted: Accepted) -> Accepted {
    let Action { id, kind, door, principal, cluster_id, .. } = &accepted.action;
    let cluster = cluster_id.map(|id| id.to_string()).unwrap_or_default();
    tracing::info!(action = %id, %kind, %cluster, %door, by = %principal.id, replayed = accepted.replayed, "accepted");
    accepted
}

/// Returns the command by which the engine itself deletes a cluster, with an event that gives the reason.
pub(crate) fn deletion(context: &Context, cluster: &Cluster, reason: &str, message: &str) -> Accept {
    let caller = Caller {
        principal: Principal::engine(),
        door: Door::Engine,
        reason: reason.to_owned(),
        request: None,
    };
    let action = context.action(ActionKind::ClusterDelete, cluster, None, &caller);
    let expired = events::of_cluster(Some(&action), cluster, Level::Info, reason, message, action.created_at);
    let mut accept = accept(action, cluster, OnConflict::Preempt, None);
    accept.events.insert(0, expired);
    accept
}

/// Returns the command that recovers lost nodes; the store drops it if another action is in progress.
pub(crate) fn healing(context: &Context, cluster: &Cluster) -> Accept {
    let principal = Principal { project: cluster.project.clone(), ..Principal::engine() };
    let caller =
        Caller { principal, door: Door::Engine, reason: events::reason::NODE_LOST.to_owned(), request: None };
    let mut action = context.action(ActionKind::ClusterRecover, cluster, None, &caller);
    action.cause = Cause::Healing;
    accept(action, cluster, OnConflict::Queue, None)
}

/// Returns the command that deletes the leftover object of a deleted cluster; the store drops it if such an action is
/// in progress.
pub(crate) fn garbage_collection(context: &Context, history: &Cluster) -> Accept {
    let reason = events::reason::LEFTOVER_FOUND;
    let caller = Caller {
        principal: Principal::engine(),
        door: Door::Engine,
        reason: reason.to_owned(),
        request: None,
    };
    let mut action = context.action(ActionKind::ClusterDelete, history, None, &caller);
    action.cause = Cause::Healing;
    let (message, now) = ("the object of the deleted cluster still exists", action.created_at);
    let found = events::of_cluster(Some(&action), history, Level::Warn, reason, message, now);
    let mut accept = accept(action, history, OnConflict::Queue, None);
    accept.events.insert(0, found);
    accept
}

/// Returns the command that stores an action on a cluster, with the event of its start.
pub(crate) fn accept(
    action: Action,
    cluster: &Cluster,
    on_conflict: OnConflict,
    request: Option<RequestKey>,
) -> Accept {
    let begun = events::of_action(&action, cluster, "start", &action.id.short(), action.created_at);
    Accept { request, events: vec![begun], ..Accept::new(action, on_conflict) }
}
