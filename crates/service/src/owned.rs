//! Finds and changes clusters for their owners: only the owner of a cluster and admins see and change it.

use std::collections::HashMap;
use std::time::Duration;

use muster_core::action::{Action, ActionKind, ActionStatus, Milestone, REFUSAL_OUTPUT};
use muster_core::change::{Change, ClusterUpdate, GroupChange, NodeChange, ResizeGroup};
use muster_core::cluster::{Cluster, ClusterStatus, Framework};
use muster_core::domino;
use muster_core::ids::ClusterId;
use muster_core::node::NodeRole;
use muster_core::recipe::GivenRecipe;
use muster_core::resize::Resize;
use muster_core::restart::HeadRestart;
use muster_core::tier::HardwareTier;
use muster_core::time::TimeSpan;
use muster_engine::action_data::WriteOutcome;
use muster_engine::ports::provider::Membership;
use muster_store::Direction;
use muster_store::commands::SignalKind;
use muster_store::reads::{ActionQuery, ActionSort};

use crate::access::Access;
use crate::authorize::{Denied, Resource};
use crate::error::{ErrorKind, ServiceError};
use crate::find::FindError;
use crate::mutation::{Mutation, Submission};
use crate::service::Service;

/// The names of the nodes by cluster.
pub type PresentNodes = HashMap<ClusterId, Vec<String>>;

/// The longest wait for the end of a change that is cancelled because it was not applied in time.
const CANCELLED_WITHIN: TimeSpan = TimeSpan::from_secs(3);

/// The longest wait for a change of nodes that Muster starts itself; after that, the stored action is enough for a
/// response.
const STORED_WITHIN: TimeSpan = TimeSpan::from_millis(1_500);

/// The number of reads that wait for the head of a cluster that was just discovered, and the pause between them.
const HEAD_READS: u32 = 20;
const HEAD_READ_PAUSE: Duration = Duration::from_millis(100);

/// The number of reads that wait for the deletion of a cluster whose change was refused, and the pause between them.
const DELETION_READS: u32 = 5;
const DELETION_READ_PAUSE: Duration = Duration::from_millis(50);

/// The statuses of actions on clusters that have not ended.
pub(crate) const OPEN: [ActionStatus; 4] =
    [ActionStatus::Init, ActionStatus::Ready, ActionStatus::Running, ActionStatus::Suspended];

/// The number of latest restarts of a cluster that are read.
const KNOWN_RESTARTS: u32 = 50;

/// A change of a cluster by its owner; what is absent stays as it is.
#[derive(Debug, Clone, Default)]
pub struct OwnerChange {
    /// The number of workers.
    pub size: Option<u32>,
    /// The recipe of the workers.
    pub worker: Option<NodeChange>,
    /// The recipe of the head.
    pub head: Option<NodeChange>,
}

impl OwnerChange {
    fn of(self, cluster: &Cluster) -> Change {
        let Self { size, worker, head } = self;
        let group = cluster.groups.first();
        // The lower bound is reduced if the new size is below it.
        let min = size.filter(|size| group.is_some_and(|group| group.min > *size));
        if let (Some(size), None, None) = (size, &worker, &head) {
            let resize = Resize { min_size: min, ..Resize::exactly(size) };
            return Change::Resize(ResizeGroup { group: None, resize, candidates: None });
        }
        let name = group.map(|group| group.name.clone()).unwrap_or_default();
        let group = GroupChange {
            name,
            desired: size,
            min,
            node: worker.unwrap_or_default(),
            ..GroupChange::default()
        };
        let groups = (group.desired.is_some() || group.node != NodeChange::default()).then(|| vec![group]);
        Change::UpdateCluster(Box::new(ClusterUpdate { groups, head, ..ClusterUpdate::default() }))
    }
}

impl Service {
    /// The cluster with this name and framework in any namespace. A cluster of Domino in the `preferred` namespace
    /// takes precedence; otherwise the name is ambiguous if the caller may access several clusters.
    pub async fn find_owned(
        &self,
        access: &Access,
        framework: Framework,
        name: &str,
        preferred: &str,
    ) -> Result<Cluster, FindError> {
        let mut found = self.store().clusters_of_name(name, framework).await?;
        let is_preferred = |cluster: &Cluster| {
            cluster.flavor.as_deref() == Some(domino::FLAVOR) && cluster.namespace == preferred
        };
        if let Some(place) = found.iter().position(is_preferred) {
            found = vec![found.swap_remove(place)];
        }
        let (mut own, mut denied) = (Vec::new(), None);
        for cluster in found {
            let what = format!("cluster '{}'", cluster.name);
            let on = Resource { what: &what, project: &cluster.project, owner: &cluster.owner };
            match access.check(on) {
                Ok(()) => own.push(cluster),
                Err(why) => denied = Some(why),
            }
        }
        match (own.len(), denied) {
            (1, _) => own.pop().ok_or(FindError::Missing),
            (0, None | Some(Denied::Unseen(_))) => Err(FindError::Missing),
            (0, Some(denied @ Denied::Forbidden(_))) => Err(ServiceError::from(denied).into()),
            (_, _) => Err(FindError::Ambiguous(own)),
        }
    }

    /// Submits the change of an owner.
    pub async fn change_owned(
        &self,
        mutation: &Mutation,
        cluster: &Cluster,
        change: OwnerChange,
    ) -> Result<(Cluster, Action), ServiceError> {
        let change = change.of(cluster);
        let submit = Box::pin(self.change_cluster(&mutation.caller, cluster, change));
        self.apply(mutation, cluster, submit).await
    }

    /// Restarts the head of an owner's cluster.
    pub async fn restart_owned(
        &self,
        mutation: &Mutation,
        cluster: &Cluster,
    ) -> Result<(Cluster, Action), ServiceError> {
        self.wait_for_head(cluster).await?;
        let submit = Box::pin(self.restart_head(&mutation.caller, cluster));
        self.apply(mutation, cluster, submit).await
    }

    /// Waits until the head of a delegated cluster was observed, because a cluster that was just discovered has no
    /// nodes yet.
    async fn wait_for_head(&self, cluster: &Cluster) -> Result<(), ServiceError> {
        if !cluster.has_head || !self.is_delegated(cluster) {
            return Ok(());
        }
        for _ in 0..HEAD_READS {
            let members = self.store().members(cluster.id).await?;
            if members.iter().any(|node| node.role == NodeRole::Head && node.physical_id.is_some()) {
                return Ok(());
            }
            tokio::time::sleep(HEAD_READ_PAUSE).await;
        }
        Ok(())
    }

    /// Waits until a change is applied. If an operator or another server makes the change and it is not applied in
    /// time, it is cancelled, so that a refused change has no effect. A change of nodes that this server starts itself
    /// is stored, and runs after those before it.
    async fn apply(
        &self,
        mutation: &Mutation,
        cluster: &Cluster,
        submit: Submission<'_, ServiceError>,
    ) -> Result<(Cluster, Action), ServiceError> {
        let membership = self.capabilities(cluster).map(|capabilities| capabilities.membership);
        let is_own = membership == Some(Membership::Individual);
        let mut mutation = mutation.clone();
        if is_own {
            mutation.wait.at_most = STORED_WITHIN;
        }
        let refused = match self.mutate(&mutation, submit).await {
            Err(error) if error.kind == ErrorKind::TimedOut => error,
            Err(_) if self.is_being_deleted(cluster.id, !is_own).await? => {
                return Err(ServiceError::not_found("the cluster was deleted in the meantime"));
            }
            done => return done,
        };
        let Some(action) = (match refused.action {
            Some(id) => self.store().action(id).await?,
            None => None,
        }) else {
            return Err(refused);
        };
        if is_own {
            let cluster = self.store().cluster(cluster.id).await?;
            return cluster.map(|cluster| (cluster, action)).ok_or(refused);
        }
        // The signal may fail because the action has ended by now.
        drop(self.signal(&action, SignalKind::Cancel, None).await);
        let ended = match self.wait_for_end(action.clone(), CANCELLED_WITHIN).await {
            Err(error) if error.kind == ErrorKind::TimedOut => self.store().action(action.id).await?,
            ended => Some(ended?),
        };
        let Some(ended) = ended else { return Err(refused) };
        let cluster = match ended.cluster_id {
            Some(id) => self.store().cluster(id).await?,
            None => None,
        };
        match cluster.filter(|_| ended.has_reached(Milestone::Applied)) {
            Some(cluster) => Ok((cluster, ended)),
            None if membership.is_none() && action.tries == 0 => Err(not_served(&action)),
            None => Err(not_applied(&action, WriteOutcome::of(&ended))),
        }
    }

    /// Returns true if a cluster is deleted or being deleted. The row of a delegated cluster is read several times,
    /// because a deletion is observed a moment after it began.
    async fn is_being_deleted(&self, cluster: ClusterId, is_delegated: bool) -> Result<bool, ServiceError> {
        let reads = if is_delegated { DELETION_READS } else { 1 };
        for read in 0..reads {
            if read > 0 {
                tokio::time::sleep(DELETION_READ_PAUSE).await;
            }
            let row = self.store().cluster(cluster).await?;
            if row.is_none_or(|row| row.deleted_at.is_some() || row.status == ClusterStatus::Deleting) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The names of the working nodes of each cluster: the head, then the workers.
    pub async fn present_nodes(&self, clusters: &[ClusterId]) -> Result<PresentNodes, ServiceError> {
        Ok(self.store().present_nodes(clusters).await?)
    }

    /// The compute template, otherwise the configured shape, with this name as a tier; none if neither exists.
    pub async fn template_tier(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<HardwareTier>, ServiceError> {
        match self.shape_of_template(namespace, name).await {
            Ok(shape) => Ok(Some(HardwareTier::from_shape(name, shape))),
            Err(error) if error.kind == ErrorKind::Invalid => {
                let shape = self.shapes().iter().find(|shape| shape.name == name);
                Ok(shape.map(|shape| HardwareTier::from_shape(name, shape.shape.clone())))
            }
            Err(error) => Err(error),
        }
    }

    /// The clusters as they will be after changes that are stored and not applied yet: with the requested sizes and
    /// recipes of nodes.
    pub async fn with_pending_changes(
        &self,
        mut clusters: Vec<Cluster>,
    ) -> Result<Vec<Cluster>, ServiceError> {
        if clusters.is_empty() {
            return Ok(clusters);
        }
        let query = ActionQuery {
            clusters: clusters.iter().map(|cluster| cluster.id.to_string()).collect(),
            kinds: vec![ActionKind::ClusterResize, ActionKind::ClusterUpdate],
            statuses: OPEN.to_vec(),
            top_level: true,
            sort: vec![(ActionSort::CreatedAt, Direction::Ascending)],
            ..ActionQuery::default()
        };
        let open = self.store().actions(&query).await?.items;
        for action in open.iter().filter(|action| action.applied_at.is_none()) {
            if let Some(cluster) = clusters.iter_mut().find(|cluster| action.cluster_id == Some(cluster.id)) {
                show_change(cluster, action);
            }
        }
        Ok(clusters)
    }

    /// Returns true if a change of the recipe replaces the nodes without a restart.
    pub fn replaces_changed_nodes(&self, cluster: &Cluster) -> bool {
        match self.capabilities(cluster).map(|capabilities| capabilities.membership) {
            Some(Membership::Delegated(operator)) => operator.rolls,
            _ => true,
        }
    }

    /// The latest restarts of a cluster's head, also those by updates of its recipe, the newest first.
    pub async fn restarts_of(&self, cluster: &Cluster) -> Result<Vec<HeadRestart>, ServiceError> {
        let query = ActionQuery {
            cluster: Some(cluster.id),
            kinds: vec![ActionKind::NodeRecover, ActionKind::ClusterUpdate],
            sort: vec![(ActionSort::CreatedAt, Direction::Descending)],
            limit: Some(KNOWN_RESTARTS),
            ..ActionQuery::default()
        };
        let actions = self.store().actions(&query).await?.items;
        Ok(actions.iter().filter_map(HeadRestart::of).collect())
    }
}

/// Returns the error for a change that was not applied in time, and was cancelled for that. `action` is its action
/// before that, and `write` the outcome of its write.
fn not_applied(action: &Action, write: WriteOutcome) -> ServiceError {
    let was_tried = action.status == ActionStatus::Running || action.tries > 0;
    let (kind, message) = match write {
        WriteOutcome::Unknown => (
            ErrorKind::Unavailable,
            "Kubernetes has not confirmed the change in time, and it is not known whether the change was made or will \
             still be made: read the cluster, and repeat the request if the cluster is not as requested",
        ),
        WriteOutcome::Refused => (
            ErrorKind::Conflict,
            "other programs changed the cluster again and again at the same time; nothing was changed: try again",
        ),
        WriteOutcome::NotSent if was_tried => (
            ErrorKind::Unavailable,
            "Kubernetes has not accepted the change in time; nothing was changed: try again",
        ),
        WriteOutcome::NotSent => (
            ErrorKind::Conflict,
            "another change of the cluster was in progress; nothing was changed: try again",
        ),
    };
    ServiceError::new(kind, message)
}

/// Returns the error for a change of a cluster that no running server makes changes of.
fn not_served(action: &Action) -> ServiceError {
    let message = format!(
        "no running server serves '{}', where the cluster is; nothing was changed: start a server for it, and try again",
        action.instance
    );
    ServiceError::new(ErrorKind::Unavailable, message)
}

/// Applies the sizes and recipes that an action requests to a cluster that is only shown.
fn show_change(cluster: &mut Cluster, action: &Action) {
    match Change::read(action.kind, &action.inputs) {
        Ok(Change::Resize(ResizeGroup { group, resize, .. })) => {
            let is_asked = |name: &str| group.as_deref().is_none_or(|group| group == name);
            let asked = cluster.groups.iter_mut().find(|group| is_asked(&group.name));
            if let (Some(group), Some(size)) = (asked, resize.exact_size()) {
                group.desired = size;
            }
        }
        Ok(Change::UpdateCluster(update)) => {
            for change in update.groups.iter().flatten() {
                let Some(group) = cluster.groups.iter_mut().find(|group| group.name == change.name) else {
                    continue;
                };
                group.desired = change.desired.unwrap_or(group.desired);
                change.apply_recipe(group);
            }
            GivenRecipe::update(&mut cluster.spec, &update);
        }
        _ => {}
    }
}

/// The reason for which a provider permanently refused the change of an action.
pub(crate) fn refusal(action: &Action) -> Option<String> {
    action.outputs.get(REFUSAL_OUTPUT)?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use muster_core::shape::Shape;
    use muster_core::shape::ShapeChange;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    #[rstest]
    #[case::more(3, json!({"adjustment_type": "EXACT_CAPACITY", "number": 3, "strict": true}))]
    #[case::the_least(2, json!({"adjustment_type": "EXACT_CAPACITY", "number": 2, "strict": true}))]
    #[case::fewer(1, json!({"adjustment_type": "EXACT_CAPACITY", "number": 1, "min_size": 1, "strict": true}))]
    #[case::none(0, json!({"adjustment_type": "EXACT_CAPACITY", "number": 0, "min_size": 0, "strict": true}))]
    fn the_least_number_of_workers_follows_their_number(#[case] size: u32, #[case] inputs: Value) {
        let cluster = sample::cluster(2, 2, Some(5));
        let change = OwnerChange { size: Some(size), ..OwnerChange::default() }.of(&cluster);
        assert_eq!(change.inputs(), inputs);
        let with_tier = OwnerChange { size: Some(size), worker: Some(NodeChange::default()), head: None };
        let Change::UpdateCluster(update) = with_tier.of(&cluster) else { panic!("an update") };
        let group = &update.groups.as_ref().expect("groups")[0];
        assert_eq!((group.desired, group.min), (Some(size), Some(size).filter(|size| *size < 2)));
    }

    #[rstest]
    #[case::not_begun(ActionStatus::Ready, 0, json!({}), ErrorKind::Conflict, "another change of the cluster was in progress; nothing was changed")]
    #[case::before_its_write(ActionStatus::Running, 0, json!({}), ErrorKind::Unavailable, "nothing was changed")]
    #[case::before_its_write_again(ActionStatus::Ready, 1, json!({}), ErrorKind::Unavailable, "nothing was changed")]
    #[case::during_its_write(ActionStatus::Running, 0, json!({"delegated": {"called": 7}}), ErrorKind::Unavailable, "it is not known whether the change was made")]
    #[case::after_a_lost_write(ActionStatus::Ready, 1, json!({"delegated": {"called": 7}}), ErrorKind::Unavailable, "it is not known whether the change was made")]
    #[case::against_others(ActionStatus::Ready, 1, json!({"delegated": {"called": 7, "refused": true}}), ErrorKind::Conflict, "nothing was changed")]
    fn the_error_says_whether_a_change_that_was_not_confirmed_may_have_been_made(
        #[case] status: ActionStatus,
        #[case] tries: u32,
        #[case] data: Value,
        #[case] kind: ErrorKind,
        #[case] words: &str,
    ) {
        let cluster = sample::cluster(2, 2, Some(5));
        let mut action = sample::action(1, ActionKind::ClusterResize, cluster.id);
        (action.status, action.tries, action.data) = (status, tries, data);
        let error = not_applied(&action, WriteOutcome::of(&action));
        assert_eq!(error.kind, kind);
        assert!(error.message.contains(words), "{}", error.message);
        assert_eq!(error.message.contains("nothing was changed"), words.contains("nothing was changed"));
    }

    #[test]
    fn a_cluster_is_shown_as_pending_changes_ask_for() {
        let mut cluster = sample::cluster(2, 2, Some(5));
        let mut action = sample::action(1, ActionKind::ClusterResize, cluster.id);
        action.inputs = OwnerChange { size: Some(4), ..OwnerChange::default() }.of(&cluster).inputs();
        show_change(&mut cluster, &action);
        assert_eq!(cluster.desired(), 4);
        action.inputs = json!({"adjustment_type": "CHANGE_IN_CAPACITY", "number": 1});
        show_change(&mut cluster, &action);
        assert_eq!(cluster.desired(), 4, "a relative size is unknown until it is applied");
        let node = |cpu: &str| NodeChange {
            shape: ShapeChange { cpu: Some(cpu.parse().ok()), ..ShapeChange::default() },
            ..NodeChange::default()
        };
        let change =
            OwnerChange { size: Some(3), worker: Some(node("500m")), head: Some(node("250m")) }.of(&cluster);
        (action.kind, action.inputs) = (change.kind(), change.inputs());
        show_change(&mut cluster, &action);
        let cpu = |shape: &Shape| shape.cpu.map(|cpu| cpu.to_string());
        assert_eq!((cluster.desired(), cpu(&cluster.groups[0].shape)), (3, Some("500m".to_owned())));
        let head = GivenRecipe::stored_in(&cluster.spec).head;
        assert_eq!(cpu(&head.shape()), Some("250m".to_owned()));
    }
}
