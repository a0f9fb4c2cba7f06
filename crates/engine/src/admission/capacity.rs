//! Whether a machine has room for what is asked of it.

use muster_core::action::Action;
use muster_core::capacity::{Capacity, demands};
use muster_core::change::Change;
use muster_core::cluster::Cluster;
use muster_core::event::{Event, Level};
use muster_core::profile::Profile;
use muster_core::recipe::ClusterRecipe;
use muster_core::shape::Shape;
use serde_json::Map;

use crate::action_data::ActionData;
use crate::events::{self, reason};
use crate::intent::{Baseline, Intent};

/// What is asked of a machine for one cluster, before it is accepted.
pub(crate) struct CapacityCheck<'a> {
    /// What the machine has.
    pub(crate) capacity: Capacity,
    /// The cluster as it should become.
    pub(crate) cluster: &'a Cluster,
    /// The recipe of its nodes.
    pub(crate) profile: &'a Profile,
}

impl CapacityCheck<'_> {
    /// Why one of its nodes could never run there; nothing if each could.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.demands().iter().find_map(|demand| self.capacity.refusal(demand))
    }

    /// That all its nodes together ask for more than there is; nothing if they do not.
    pub(crate) fn warning(&self, action: &Action) -> Option<Event> {
        let sum = self.capacity.exceeded(&self.demands())?;
        let message = format!("{sum}: they have to share it");
        let at = action.created_at;
        Some(events::of_cluster(Some(action), self.cluster, Level::Warn, reason::OVERCOMMITTED, &message, at))
    }

    fn demands(&self) -> Vec<muster_core::capacity::Demand> {
        // Types that are no framework's say it for each group, or not at all.
        let recipe = ClusterRecipe::of_cluster(self.cluster, &self.profile.properties).unwrap_or_default();
        demands(self.cluster, &recipe)
    }
}

/// The cluster after a change, if that needs more than the cluster does now.
pub(crate) fn grown(cluster: &Cluster, change: &Change, limit: u32) -> Option<Cluster> {
    let grows = matches!(change, Change::UpdateCluster(_) | Change::Resize(_) | Change::ScaleOut(_));
    let intent = Intent { cluster, baseline: Baseline::Desired, limit };
    let after = intent.after(change, &ActionData::default()).ok().filter(|_| grows)?;
    let shapes = |cluster: &Cluster| -> Vec<Shape> {
        let own = ClusterRecipe::of_cluster(cluster, &Map::new()).unwrap_or_default();
        let groups = cluster.groups.iter().map(|group| own.workers(Some(group)).shape());
        std::iter::once(own.head().shape()).chain(groups).collect()
    };
    (after.desired() > cluster.desired() || shapes(&after) != shapes(cluster)).then_some(after)
}
