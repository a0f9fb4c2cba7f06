//! Placement of nodes: region, zone and server group.

mod spread;
mod victims;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::node::Node;
use crate::string_enum::{deserialize_stored, string_enum};

pub use spread::{Share, grow, shrink};
pub use victims::{Quota, choose};

/// The key of the [`Placement`] in a node's data.
pub const KEY: &str = "placement";

/// The number of nodes by the name of a region or zone.
pub type PlacementCounts = BTreeMap<String, u32>;

/// The placement of a node. Undecided parts are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region_name: Option<String>,
    /// The server group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servergroup: Option<ServerGroup>,
}

/// A group of nodes with a rule about sharing a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerGroup {
    /// The affinity of the nodes of the group.
    #[serde(deserialize_with = "deserialize_stored")]
    pub policy: Affinity,
    /// The name of the group.
    pub id: String,
}

string_enum! {
    /// The rule for the hosts of a group of nodes.
    stored Affinity, "affinity" {
        /// All nodes share a host.
        Together = "affinity",
        /// No two nodes share a host.
        Apart = "anti-affinity",
    }
}

/// The kind of domains over which nodes are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Regions.
    Region,
    /// Zones.
    Zone,
}

impl Placement {
    /// The placement of a node; unreadable values count as undecided.
    pub fn from_node(node: &Node) -> Self {
        node.data.get(KEY).and_then(|place| Self::deserialize(place).ok()).unwrap_or_default()
    }

    /// The stored form; none if nothing was decided.
    pub fn to_data(&self) -> Option<Value> {
        serde_json::to_value(self).ok().filter(|_| *self != Self::default())
    }
}

impl Axis {
    /// The key under which policies and actions list the domains.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Region => "regions",
            Self::Zone => "zones",
        }
    }

    /// The word for one domain in messages.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Zone => "zone",
        }
    }

    /// The domain of a placement on this axis.
    pub fn name_in(self, place: &Placement) -> Option<&str> {
        match self {
            Self::Region => place.region_name.as_deref(),
            Self::Zone => place.zone.as_deref(),
        }
    }

    /// The domain of a placement on the other axis.
    fn across(self, place: &Placement) -> Option<&str> {
        match self {
            Self::Region => Self::Zone,
            Self::Zone => Self::Region,
        }
        .name_in(place)
    }

    fn put(self, place: &mut Placement, name: &str) {
        let slot = match self {
            Self::Region => &mut place.region_name,
            Self::Zone => &mut place.zone,
        };
        *slot = Some(name.to_owned());
    }

    /// Counts the placements in the domain of each share.
    pub fn count<'p>(
        self,
        shares: &[Share],
        places: impl IntoIterator<Item = &'p Placement>,
    ) -> PlacementCounts {
        let mut counts: PlacementCounts = shares.iter().map(|share| (share.name.clone(), 0)).collect();
        for name in places.into_iter().filter_map(|place| self.name_in(place)) {
            if let Some(count) = counts.get_mut(name) {
                *count += 1;
            }
        }
        counts
    }

    /// Assigns domains to the new placements, as many of each as the plan says. They are assigned in turn, and zones
    /// evenly within every region, as far as the plan allows.
    pub fn assign(
        self,
        shares: &[Share],
        plan: &PlacementCounts,
        present: &[Placement],
        new: &mut [Placement],
    ) {
        let mut left = plan.clone();
        let mut taken: BTreeMap<(Option<String>, String), u64> = BTreeMap::new();
        let cell = |across: Option<&str>, name: &str| (across.map(str::to_owned), name.to_owned());
        for place in present {
            if let Some(name) = self.name_in(place) {
                *taken.entry(cell(self.across(place), name)).or_default() += 1;
            }
        }
        for place in new {
            let across = self.across(place).map(str::to_owned);
            let after = |share: &Share| {
                taken.get(&cell(across.as_deref(), &share.name)).copied().unwrap_or_default() + 1
            };
            let remaining = |share: &Share| left.get(&share.name).copied().unwrap_or_default();
            let open = shares.iter().filter(|share| remaining(share) > 0);
            let next = open.min_by(|one, other| {
                let load =
                    (after(one) * u64::from(other.weight)).cmp(&(after(other) * u64::from(one.weight)));
                load.then_with(|| remaining(other).cmp(&remaining(one)))
            });
            let Some(name) = next.map(|share| share.name.clone()) else { return };
            self.put(place, &name);
            *taken.entry(cell(across.as_deref(), &name)).or_default() += 1;
            left.entry(name).and_modify(|left| *left -= 1);
        }
    }
}

#[cfg(test)]
mod tests;
