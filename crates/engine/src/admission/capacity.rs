//! Checks whether a machine has the capacity for a cluster.

use std::collections::{HashMap, HashSet};

use muster_core::action::Action;
use muster_core::capacity::{Capacity, Demand, demands};
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::event::{Event, Level};
use muster_core::ids::ProfileId;
use muster_core::profile::Profile;
use muster_core::recipe::ClusterRecipe;
use muster_core::shape::Shape;
use muster_store::reads::ClusterQuery;
use muster_store::{Store, StoreError};

use crate::action_data::ActionData;
use crate::events::{self, reason};
use crate::intent::{Baseline, Intent};

/// The demand of one cluster on a machine, checked before the change is accepted.
pub(crate) struct CapacityCheck<'a> {
    /// The capacity of the machine.
    pub(crate) capacity: Capacity,
    /// The cluster after the change.
    pub(crate) cluster: &'a Cluster,
    /// The demands of the cluster after the change.
    pub(crate) demands: Vec<Demand>,
    /// Its demands before the change; none if the cluster is new.
    pub(crate) before: Vec<Demand>,
}

impl CapacityCheck<'_> {
    /// Returns the reason why a node that the change adds or enlarges could never run on the machine, alone or with the
    /// others of its cluster; none if each could. Other nodes are not checked, so that a cluster whose nodes are too large
    /// already can be changed.
    pub(crate) fn refusal(&self) -> Option<String> {
        let too_large = self.growth().find_map(|demand| self.capacity.refusal(&demand));
        let more_gpus = self.growth().any(|demand| demand.shape.gpu.is_some_and(|gpus| gpus > 0));
        too_large.or_else(|| self.capacity.too_few_gpus(&self.demands).filter(|_| more_gpus))
    }

    /// Returns true if the change adds or enlarges nodes.
    pub(crate) fn grows(&self) -> bool {
        self.growth().next().is_some()
    }

    /// Returns an event if all nodes of the cluster together need more than other clusters leave of the machine.
    pub(crate) fn warning(&self, others: &[Demand], action: &Action) -> Option<Event> {
        let sum = self.capacity.exceeded(&self.demands, others)?;
        let mut message = format!("{sum}: it is overcommitted");
        if self.capacity.must_wait_for_gpus(&self.demands, others) {
            message.push_str("; nodes wait until enough gpus are free");
        }
        let at = action.created_at;
        Some(events::of_cluster(Some(action), self.cluster, Level::Warn, reason::OVERCOMMITTED, &message, at))
    }

    fn growth(&self) -> impl Iterator<Item = Demand> {
        self.demands.iter().filter_map(|demand| growth(demand, &self.before))
    }
}

/// Returns what a demand exceeds the same demand before by: all of it if there are more nodes, else the larger amounts.
fn growth(demand: &Demand, before: &[Demand]) -> Option<Demand> {
    let before = before.iter().find(|before| before.subject == demand.subject);
    let Some(before) = before.filter(|before| demand.count <= before.count) else {
        return Some(demand.clone());
    };
    let (shape, old) = (&demand.shape, &before.shape);
    let larger = Shape {
        cpu: shape.cpu.filter(|_| shape.cpu > old.cpu),
        memory: shape.memory.filter(|_| shape.memory > old.memory),
        gpu: shape.gpu.filter(|_| shape.gpu > old.gpu),
        ..Shape::default()
    };
    (larger != Shape::default()).then(|| Demand { shape: larger, ..demand.clone() })
}

/// Returns the demands of the nodes of a cluster.
pub(crate) fn demands_of(cluster: &Cluster, profile: &Profile) -> Vec<Demand> {
    // Profile types without a framework give the shape per group, or not at all.
    let recipe = ClusterRecipe::of_cluster(cluster, profile).unwrap_or_default();
    demands(cluster, &recipe)
}

/// Returns the demands of the other clusters on the machine of a cluster.
pub(crate) async fn demands_of_others(store: &Store, cluster: &Cluster) -> Result<Vec<Demand>, StoreError> {
    let query = ClusterQuery { instance: Some(cluster.instance.clone()), ..ClusterQuery::default() };
    let others: Vec<Cluster> =
        store.clusters(&query).await?.items.into_iter().filter(|other| other.id != cluster.id).collect();
    let profiles: HashSet<ProfileId> = others.iter().map(|other| other.profile_id).collect();
    let profiles = store.profiles_of(&profiles.into_iter().collect::<Vec<_>>()).await?;
    let profiles: HashMap<ProfileId, Profile> =
        profiles.into_iter().map(|profile| (profile.id, profile)).collect();
    let with_profile = others.iter().filter_map(|other| Some((other, profiles.get(&other.profile_id)?)));
    Ok(with_profile.flat_map(|(other, profile)| demands_of(other, profile)).collect())
}

/// Returns the cluster after a change, if such a change can add workers or enlarge a shape.
pub(crate) fn after(cluster: &Cluster, change: &Change, limit: u32) -> Option<Cluster> {
    let may_grow = matches!(change, Change::UpdateCluster(_) | Change::Resize(_) | Change::ScaleOut(_));
    let intent = Intent { cluster, baseline: Baseline::Desired, limit };
    may_grow.then(|| intent.after(change, &ActionData::default()).ok()).flatten()
}
