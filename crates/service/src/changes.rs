//! Submits changes of clusters and nodes, for every API.

use futures::future::try_join_all;
use muster_core::action::{Action, ActionKind, ActionStatus, Milestone, OnConflict, Target};
use muster_core::app::App;
use muster_core::change::{Change, Delete, Recovery};
use muster_core::cluster::Cluster;
use muster_core::ids::{ActionId, ClusterId, NodeId};
use muster_core::node::{Node, NodeRole};
use muster_core::principal::Door;
use muster_core::time::TimeSpan;
use muster_engine::{Caller, ChangeRequest, NewClusterUser, NewNode, NodeChangeRequest, Recipe, SubmitError};
use muster_store::StoreError;
use muster_store::reads::{ActionQuery, NodeQuery};

use crate::error::{ErrorKind, Obstacle, ServiceError};
use crate::owned::OPEN;
use crate::service::Service;

/// The conflict rule of each API.
const fn on_conflict(door: Door, kind: ActionKind) -> OnConflict {
    match (kind, door) {
        (_, Door::Webhook) => OnConflict::Reject,
        (ActionKind::ClusterDelete | ActionKind::NodeDelete, _) => OnConflict::Preempt,
        (ActionKind::NodeOperation, _) => OnConflict::Queue,
        (_, Door::Clustering) => OnConflict::Reject,
        _ => OnConflict::Queue,
    }
}

/// The longest wait of a create for the deletion of clusters with the same name.
const NAME_FREE_WITHIN: TimeSpan = TimeSpan::from_secs(5);

const fn is_name_taken(error: &SubmitError) -> bool {
    matches!(error, SubmitError::Store(StoreError::NameTaken { .. }))
}

fn refused(error: SubmitError, kind: ActionKind, target: Target) -> ServiceError {
    let obstacle = error.conflict(kind, target).map(|conflict| Obstacle::Conflict(Box::new(conflict)));
    ServiceError { obstacle, ..error.into() }
}

impl Service {
    /// Creates a cluster.
    pub async fn create_cluster(
        &self,
        caller: &Caller,
        cluster: Cluster,
        recipe: Recipe,
        unique_name: bool,
    ) -> Result<Action, ServiceError> {
        let create = async || {
            self.engine.create_cluster(cluster.clone(), recipe.clone(), unique_name, caller.clone()).await
        };
        let accepted = match create().await {
            Err(error) if is_name_taken(&error) && self.wait_for_name(&cluster).await? => create().await,
            accepted => accepted,
        };
        Ok(accepted?.action)
    }

    /// Waits for the deletion of the clusters that have this name; returns true if the name is free afterwards. A
    /// deletion is answered before Kubernetes reports that the object is gone, and clients recreate the cluster right
    /// after the answer.
    async fn wait_for_name(&self, wanted: &Cluster) -> Result<bool, ServiceError> {
        // Discovered clusters of different frameworks or providers may have the same name, and each of them takes it.
        let present = self.store().clusters_named(&wanted.namespace, &wanted.name).await?;
        if present.is_empty() {
            return Ok(true);
        }
        let query = ActionQuery {
            clusters: present.iter().map(|cluster| cluster.id.to_string()).collect(),
            kinds: vec![ActionKind::ClusterDelete],
            statuses: OPEN.to_vec(),
            ..ActionQuery::default()
        };
        let open = self.store().actions(&query).await?.items;
        let of = |cluster: &Cluster| open.iter().find(|action| action.cluster_id == Some(cluster.id));
        let deletions: Option<Vec<&Action>> = present.iter().map(of).collect();
        let Some(deletions) = deletions else { return Ok(false) };
        let ends = deletions.into_iter().map(|action| self.wait_for_end(action.clone(), NAME_FREE_WITHIN));
        match try_join_all(ends).await {
            Ok(ended) => Ok(ended.iter().all(|deletion| deletion.status == ActionStatus::Succeeded)),
            Err(error) if matches!(error.kind, ErrorKind::TimedOut | ErrorKind::Unavailable) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Validates a new cluster as [`Self::create_cluster`] does, and returns it as it would be created.
    pub async fn validate_cluster(
        &self,
        caller: &Caller,
        cluster: Cluster,
        recipe: Recipe,
    ) -> Result<Cluster, ServiceError> {
        Ok(self.engine.validate_cluster(cluster, recipe, true, caller).await?)
    }

    /// Creates a cluster that an app uses. An ephemeral cluster is deleted with the app.
    pub async fn create_cluster_for_app(
        &self,
        caller: &Caller,
        cluster: Cluster,
        recipe: Recipe,
        app: &App,
        ephemeral: bool,
    ) -> Result<Action, ServiceError> {
        let instance = cluster.instance.clone();
        let ephemeral = ephemeral.then(|| Box::new(app.mark()));
        let cluster = Cluster { ephemeral, ..cluster };
        let create = async || {
            let (cluster, recipe, user) = (cluster.clone(), recipe.clone(), NewClusterUser::App(app.id));
            self.engine.create_cluster_for(cluster, recipe, true, user, caller.clone()).await
        };
        let accepted = match create().await {
            Err(error) if is_name_taken(&error) && self.wait_for_name(&cluster).await? => create().await,
            accepted => accepted,
        };
        let accepted = accepted?;
        self.write_marks(&instance).await;
        Ok(accepted.action)
    }

    /// Deletes the cluster of a create that failed before anything but its row existed, so that its name is free
    /// again.
    pub async fn discard_refused(&self, caller: &Caller, create: ActionId) -> Result<(), ServiceError> {
        /// The wait is short, because nothing but the row has to be removed.
        const AT_MOST: TimeSpan = TimeSpan::from_secs(10);
        let action = self.store().action(create).await?;
        let failed = |action: &Action| {
            action.kind == ActionKind::ClusterCreate
                && action.status == ActionStatus::Failed
                && !action.has_reached(Milestone::Applied)
        };
        let Some(id) = action.filter(failed).and_then(|action| action.cluster_id) else { return Ok(()) };
        let Some(cluster) = self.store().cluster(id).await? else { return Ok(()) };
        if cluster.deleted_at.is_some() || cluster.observed.object.is_some() {
            return Ok(());
        }
        let caller = Caller { request: None, ..caller.clone() };
        let deletion = self.delete_cluster(&caller, &cluster, false).await?;
        self.wait_for_end(deletion, AT_MOST).await.map(drop)
    }

    /// Creates a node, as an orphan or as a member; returns the action and the stored node.
    pub async fn create_node(&self, caller: &Caller, new: NewNode) -> Result<(Action, Node), ServiceError> {
        let (accepted, node) = self.engine.create_node(new, caller.clone()).await?;
        Ok((accepted.action, node))
    }

    /// Changes a cluster. A scale-out or scale-in is refused during a scaling policy's cooldown.
    pub async fn change_cluster(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        change: Change,
    ) -> Result<Action, ServiceError> {
        if matches!(change, Change::ScaleOut(_) | Change::ScaleIn(_)) {
            self.check_cooldown(cluster.id, change.kind()).await?;
        }
        self.submit(caller, cluster, None, change).await
    }

    /// Deletes a cluster. With `force`, a cluster whose instance has had no engine for long is only deleted from the
    /// database, because no engine could execute the deletion.
    pub async fn delete_cluster(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        force: bool,
    ) -> Result<Action, ServiceError> {
        if force && let Some(action) = self.engine.abandon(cluster, caller).await? {
            return Ok(action);
        }
        self.submit(caller, cluster, None, Change::DeleteCluster(Delete { force })).await
    }

    /// Restarts the head of a cluster. A head that was never created is created, together with other missing nodes.
    pub async fn restart_head(&self, caller: &Caller, cluster: &Cluster) -> Result<Action, ServiceError> {
        let query = NodeQuery {
            cluster: Some(cluster.id),
            role: Some(NodeRole::Head),
            limit: Some(1),
            ..NodeQuery::default()
        };
        let heads = self.engine.store().nodes(&query).await?.items;
        let head = heads.first().map(|node| node.id);
        let change = match head {
            Some(_) => Change::RecoverNode(Recovery::default()),
            None if cluster.has_head => Change::RecoverCluster(Recovery::default()),
            None => {
                let message = format!("clusters of type {} have no head to restart", cluster.profile_type);
                return Err(ServiceError::invalid(message).code("NoHead"));
            }
        };
        self.submit(caller, cluster, head, change).await
    }

    /// Changes a node, which may be a member or an orphan.
    pub async fn change_node(
        &self,
        caller: &Caller,
        node: &Node,
        change: Change,
    ) -> Result<Action, ServiceError> {
        let kind = change.kind();
        let on_conflict = on_conflict(caller.door, kind);
        let request = NodeChangeRequest { change, node: node.clone(), on_conflict, timeout: None };
        let submitted = Box::pin(self.engine.submit_node(request, caller.clone())).await;
        submitted.map(|accepted| accepted.action).map_err(|error| refused(error, kind, Target::Node(node.id)))
    }

    async fn submit(
        &self,
        caller: &Caller,
        cluster: &Cluster,
        node: Option<NodeId>,
        change: Change,
    ) -> Result<Action, ServiceError> {
        let kind = change.kind();
        let on_conflict = on_conflict(caller.door, kind);
        let target = node.map_or(Target::Cluster(cluster.id), Target::Node);
        let request = ChangeRequest { change, cluster: cluster.clone(), node, on_conflict, timeout: None };
        let submitted = Box::pin(self.engine.submit(request, caller.clone())).await;
        submitted.map(|accepted| accepted.action).map_err(|error| refused(error, kind, target))
    }

    /// Refuses to scale during the cooldown of a scaling policy.
    async fn check_cooldown(&self, cluster: ClusterId, kind: ActionKind) -> Result<(), ServiceError> {
        let Some(policy) = self.engine.cooling(cluster, kind).await? else { return Ok(()) };
        let message = format!(
            "The {kind} action for cluster {cluster} cannot be processed due to Policy {} cooldown still in progress",
            policy.id
        );
        let obstacle = Some(Obstacle::Cooldown);
        Err(ServiceError { obstacle, ..ServiceError::new(ErrorKind::Conflict, message) })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Door::Core, ActionKind::ClusterResize, OnConflict::Queue)]
    #[case(Door::Scaler, ActionKind::ClusterResize, OnConflict::Queue)]
    #[case(Door::Clustering, ActionKind::ClusterResize, OnConflict::Reject)]
    #[case(Door::Clustering, ActionKind::ClusterDelete, OnConflict::Preempt)]
    #[case(Door::Core, ActionKind::ClusterDelete, OnConflict::Preempt)]
    #[case(Door::Clustering, ActionKind::NodeDelete, OnConflict::Preempt)]
    #[case(Door::Clustering, ActionKind::NodeOperation, OnConflict::Queue)]
    #[case(Door::Webhook, ActionKind::ClusterDelete, OnConflict::Reject)]
    fn each_api_has_its_rule_for_conflicts(
        #[case] door: Door,
        #[case] kind: ActionKind,
        #[case] rule: OnConflict,
    ) {
        assert_eq!(on_conflict(door, kind), rule);
    }
}
