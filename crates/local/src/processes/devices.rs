//! Which accelerators a node is given.

use std::collections::HashMap;

use muster_core::node::Node;
use muster_engine::ports::provider::{FencedCall, ProviderError};

use super::kind::Kind;
use super::launch::recipe;
use super::seat::Seat;
use super::{Inner, capacity, on_disk};
use crate::shim::{Found, NodeFolder};

/// The variable that says to programs which accelerators are theirs.
pub(super) const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

impl Inner {
    /// Gives a node that is about to start as many accelerators as its shape says: those that the fewest nodes of this
    /// machine have. Called while no other node chooses.
    pub(super) fn devices(&self, call: FencedCall<'_>, node: &Node) -> Result<Vec<u32>, ProviderError> {
        if Kind::of(&call.profile.kind).and_then(Kind::framework).is_none() {
            return Ok(Vec::new());
        }
        let wanted = recipe(call, node)?.shape().gpu.unwrap_or(0);
        if wanted == 0 {
            return Ok(Vec::new());
        }
        let total = capacity::of_machine(self.settings.gpus).gpu;
        let used = self.devices_in_use(node).map_err(|error| on_disk("the folder of clusters", &error))?;
        Ok(choose(wanted, total, &used))
    }

    /// The accelerators of all other nodes that run, once for each.
    fn devices_in_use(&self, node: &Node) -> std::io::Result<Vec<u32>> {
        let mut used = Vec::new();
        for cluster in self.places.clusters()? {
            for folder in NodeFolder::all(&cluster)? {
                let seat = Seat::of(&folder).filter(|seat| !seat.gpus.is_empty() && folder.node() != node.id);
                let Some(seat) = seat else { continue };
                // One that is about to start does not run yet, and has chosen already.
                if matches!(self.shims.find(&folder), Ok(Found::Running(_))) || !seat.works {
                    used.extend(seat.gpus);
                }
            }
        }
        Ok(used)
    }
}

/// The accelerators that are used least, the first of them first.
fn choose(wanted: u32, total: u32, used: &[u32]) -> Vec<u32> {
    let mut uses: HashMap<u32, usize> = HashMap::new();
    for device in used {
        *uses.entry(*device).or_default() += 1;
    }
    let mut devices: Vec<u32> = (0..total).collect();
    devices.sort_by_key(|device| uses.get(device).copied().unwrap_or_default());
    devices.truncate(usize::try_from(wanted).unwrap_or(usize::MAX));
    devices.sort_unstable();
    devices
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::the_first(1, 2, &[], &[0])]
    #[case::another(1, 2, &[0], &[1])]
    #[case::several(2, 4, &[0, 2], &[1, 3])]
    #[case::shared_where_there_are_too_few(1, 2, &[0, 1, 0], &[1])]
    #[case::no_more_than_there_are(3, 2, &[], &[0, 1])]
    fn a_node_gets_what_the_fewest_others_have(
        #[case] wanted: u32,
        #[case] total: u32,
        #[case] used: &[u32],
        #[case] expected: &[u32],
    ) {
        assert_eq!(choose(wanted, total, used), expected);
    }
}
