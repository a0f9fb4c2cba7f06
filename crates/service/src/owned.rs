//! Clusters as their owners have them: only the owner of a cluster and admins see and change it.

use std::collections::HashMap;

use muster_core::action::{Action, ActionKind, Milestone, REFUSAL_OUTPUT};
use muster_core::change::{Change, ClusterUpdate, GroupChange, NodeChange, ResizeGroup};
use muster_core::cluster::{Cluster, Framework};
use muster_core::ids::ClusterId;
use muster_core::node::{Node, NodeRole};
use muster_core::resize::Resize;
use muster_core::restart::ReplacedHead;
use muster_core::tier::HardwareTier;
use muster_core::time::TimeSpan;
use muster_engine::ports::provider::Membership;
use muster_store::Direction;
use muster_store::commands::SignalKind;
use muster_store::reads::{ActionQuery, ActionSort, ClusterQuery, ClusterSort};

use crate::access::Access;
use crate::authorize::{Denied, Resource};
use crate::error::{ErrorKind, ServiceError};
use crate::find::FindError;
use crate::lists::LONGEST_PAGE;
use crate::mutation::{Mutation, Submission};
use crate::service::Service;

/// The names of nodes by their cluster.
pub type PresentNodes = HashMap<ClusterId, Vec<String>>;

/// The flavor of clusters whose objects are Domino's.
pub const DOMINO_FLAVOR: &str = "domino";

/// How long a change that was not applied in time may take to be cancelled.
const CANCELLED_WITHIN: TimeSpan = TimeSpan::from_secs(3);

/// The most restarts of one cluster that a status is looked up in.
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
        if let (Some(size), None, None) = (size, &worker, &head) {
            let resize = Resize::exactly(size);
            return Change::Resize(ResizeGroup { group: None, resize, candidates: None });
        }
        let name = cluster.groups.first().map(|group| group.name.clone()).unwrap_or_default();
        let group =
            GroupChange { name, desired: size, node: worker.unwrap_or_default(), ..GroupChange::default() };
        let groups = (group.desired.is_some() || group.node != NodeChange::default()).then(|| vec![group]);
        Change::UpdateCluster(Box::new(ClusterUpdate { groups, head, ..ClusterUpdate::default() }))
    }
}

impl Service {
    /// The cluster of this name and framework, in any namespace. An object of Domino in the `preferred` namespace counts
    /// more than others of its name; otherwise the caller has to see only one.
    pub async fn find_owned(
        &self,
        access: &Access,
        framework: Framework,
        name: &str,
        preferred: &str,
    ) -> Result<Cluster, FindError> {
        let query = ClusterQuery {
            names: vec![name.to_owned()],
            framework: Some(framework),
            sort: vec![(ClusterSort::Namespace, Direction::Ascending)],
            limit: Some(LONGEST_PAGE),
            ..ClusterQuery::default()
        };
        let mut found = self.store().clusters(&query).await?.items;
        let is_preferred = |cluster: &Cluster| {
            cluster.flavor.as_deref() == Some(DOMINO_FLAVOR) && cluster.namespace == preferred
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
        self.apply_or_cancel(mutation, submit).await
    }

    /// Restarts the head of an owner's cluster.
    pub async fn restart_owned(
        &self,
        mutation: &Mutation,
        cluster: &Cluster,
    ) -> Result<(Cluster, Action), ServiceError> {
        let submit = Box::pin(self.restart_head(&mutation.caller, cluster));
        self.apply_or_cancel(mutation, submit).await
    }

    /// Waits until a change is applied. One that is not in time is cancelled, so that what is refused changes nothing.
    async fn apply_or_cancel(
        &self,
        mutation: &Mutation,
        submit: Submission<'_, ServiceError>,
    ) -> Result<(Cluster, Action), ServiceError> {
        let refused = match self.mutate(mutation, submit).await {
            Err(error) if error.kind == ErrorKind::TimedOut => error,
            done => return done,
        };
        let Some(action) = (match refused.action {
            Some(id) => self.store().action(id).await?,
            None => None,
        }) else {
            return Err(refused);
        };
        // It may have ended by now.
        drop(self.signal(&action, SignalKind::Cancel, None).await);
        let ended = self.wait_for_end(action, CANCELLED_WITHIN).await?;
        let cluster = match ended.cluster_id {
            Some(id) => self.store().cluster(id).await?,
            None => None,
        };
        match cluster.filter(|_| ended.has_reached(Milestone::Applied)) {
            Some(cluster) => Ok((cluster, ended)),
            None => Err(ServiceError::new(ErrorKind::Conflict, refused.message)),
        }
    }

    /// The nodes of an owner's cluster: the head, then the workers in the order of their names.
    pub async fn nodes_of(&self, cluster: &Cluster) -> Result<Vec<Node>, ServiceError> {
        let mut nodes = self.store().members(cluster.id).await?;
        nodes.sort_by(|one, other| {
            let key = |node: &Node| (node.role != NodeRole::Head, node.name.clone());
            key(one).cmp(&key(other))
        });
        Ok(nodes)
    }

    /// The names of the nodes of clusters whose pod or process works: the head, then the workers.
    pub async fn present_nodes(&self, clusters: &[ClusterId]) -> Result<PresentNodes, ServiceError> {
        Ok(self.store().present_nodes(clusters).await?)
    }

    /// The tier that the compute template or the shape of this name is; none if there is neither.
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

    /// Whether nodes whose recipe changes are replaced by that, without a restart.
    pub fn replaces_changed_nodes(&self, cluster: &Cluster) -> bool {
        let provider = self.engine.provider(&cluster.instance);
        let capabilities = provider
            .and_then(|provider| provider.capabilities(&cluster.profile_type, cluster.flavor.as_deref()));
        match capabilities.map(|capabilities| capabilities.membership) {
            Some(Membership::Delegated(operator)) => operator.rolls,
            _ => true,
        }
    }

    /// The latest restarts of a cluster's head, the newest first.
    pub async fn restarts_of(&self, cluster: &Cluster) -> Result<Vec<ReplacedHead>, ServiceError> {
        let query = ActionQuery {
            cluster: Some(cluster.id),
            kinds: vec![ActionKind::NodeRecover],
            sort: vec![(ActionSort::CreatedAt, Direction::Descending)],
            limit: Some(KNOWN_RESTARTS),
            ..ActionQuery::default()
        };
        let actions = self.store().actions(&query).await?.items;
        Ok(actions.iter().filter_map(ReplacedHead::of).collect())
    }
}

/// The reason for which a provider refused the change of an action for good.
pub(crate) fn refusal(action: &Action) -> Option<String> {
    action.outputs.get(REFUSAL_OUTPUT)?.as_str().map(str::to_owned)
}
