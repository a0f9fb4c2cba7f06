//! The choice of the Machine of a group.

use kube::ResourceExt as _;

use crate::types::Machine;

/// The Machine of a group, if one exists, and its rivals, which claim the group, too, and are ignored. The oldest
/// Machine is chosen, so that a new one takes no slots away from the guests of the group.
pub(crate) fn machine_and_rivals<'m>(
    machines: impl IntoIterator<Item = &'m Machine>,
    group: &str,
) -> (Option<&'m Machine>, Vec<&'m Machine>) {
    let of_group = machines.into_iter().filter(|machine| machine.group() == Some(group));
    let mut claimants: Vec<&Machine> = of_group.collect();
    claimants.sort_by_key(|machine| (machine.creation_timestamp(), machine.uid()));
    let rivals = claimants.split_off(claimants.len().min(1));
    (claimants.pop(), rivals)
}

/// The Machine of a group.
pub(crate) fn machine_of<'m>(
    machines: impl IntoIterator<Item = &'m Machine>,
    group: &str,
) -> Option<&'m Machine> {
    machine_and_rivals(machines, group).0
}
