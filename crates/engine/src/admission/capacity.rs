//! Whether a machine has capacity for a cluster.

use std::collections::{HashMap, HashSet};

use muster_core::action::Action;
use muster_core::capacity::{Capacity, Demand, demands};
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::event::{Event, Level};
use muster_core::ids::ProfileId;
use muster_core::profile::Profile;
use muster_core::recipe::{ClusterRecipe, GivenRecipe, NodeRecipe};
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
    /// The profile of its nodes.
    pub(crate) profile: &'a Profile,
}

impl CapacityCheck<'_> {
    /// Why one of its nodes could never run there; none if each could.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.demands().iter().find_map(|demand| self.capacity.refusal(demand))
    }

    /// An event if all its nodes together need more than other clusters leave of the machine.
    pub(crate) fn warning(&self, others: &[Demand], action: &Action) -> Option<Event> {
        let sum = self.capacity.exceeded(&self.demands(), others)?;
        let message = format!("{sum}: they have to share it");
        let at = action.created_at;
        Some(events::of_cluster(Some(action), self.cluster, Level::Warn, reason::OVERCOMMITTED, &message, at))
    }

    fn demands(&self) -> Vec<Demand> {
        demands_of(self.cluster, self.profile)
    }
}

fn demands_of(cluster: &Cluster, profile: &Profile) -> Vec<Demand> {
    // Profile types without a framework give the shape per group, or not at all.
    let recipe = ClusterRecipe::of_cluster(cluster, profile).unwrap_or_default();
    demands(cluster, &recipe)
}

/// The demands of the other clusters on the machine of a cluster.
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

/// The cluster after a change, if that needs more than the cluster does now.
pub(crate) fn grown(cluster: &Cluster, change: &Change, limit: u32) -> Option<Cluster> {
    let grows = matches!(change, Change::UpdateCluster(_) | Change::Resize(_) | Change::ScaleOut(_));
    let intent = Intent { cluster, baseline: Baseline::Desired, limit };
    let after = intent.after(change, &ActionData::default()).ok().filter(|_| grows)?;
    let shapes = |cluster: &Cluster| -> Vec<Shape> {
        let groups = cluster.groups.iter().map(|group| NodeRecipe::of_group(group).shape());
        std::iter::once(GivenRecipe::stored_in(&cluster.spec).head.shape()).chain(groups).collect()
    };
    (after.desired() > cluster.desired() || shapes(&after) != shapes(cluster)).then_some(after)
}
