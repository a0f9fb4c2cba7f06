//! Sizes of a delegated cluster that were decided once; others may change the cluster until they are written.

use muster_core::cluster::{Cluster, WorkerGroup};

use crate::action_data::GroupSizes;
use crate::ports::provider::Bounds;

/// Returns the groups whose sizes or bounds differ, with their new values.
pub(crate) fn size_changes(before: &Cluster, after: &Cluster) -> Vec<GroupSizes> {
    let change = |after: &WorkerGroup| {
        let before = before.group(&after.name)?;
        let desired = (before.desired != after.desired).then_some(after.desired);
        let bounds = Some(bounds(after)).filter(|after| *after != bounds(before));
        let group = after.name.clone();
        (desired.is_some() || bounds.is_some()).then_some(GroupSizes {
            group,
            desired,
            bounds,
            ..GroupSizes::default()
        })
    };
    after.groups.iter().filter_map(change).collect()
}

/// Returns a changed cluster with these sizes, and otherwise with those of the present cluster.
pub(crate) fn with_sizes(changed: Cluster, present: &Cluster, sizes: &[GroupSizes]) -> Cluster {
    let mut after = changed;
    for group in &mut after.groups {
        let present = present.group(&group.name).unwrap_or(group).clone();
        let decided = sizes.iter().find(|sizes| sizes.group == group.name);
        let Bounds { min, max } =
            decided.and_then(|decided| decided.bounds).unwrap_or_else(|| bounds(&present));
        group.desired = decided.and_then(|decided| decided.desired).unwrap_or(present.desired);
        (group.min, group.max) = (min, max);
    }
    after
}

fn bounds(group: &WorkerGroup) -> Bounds {
    Bounds { min: group.min, max: group.max }
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use rstest::rstest;

    use super::*;

    fn cluster(desired: u32, min: u32, max: Option<u32>) -> Cluster {
        sample::cluster(desired, min, max)
    }

    #[rstest]
    #[case::same(cluster(2, 0, None), None)]
    #[case::size(cluster(5, 0, None), Some((Some(5), None)))]
    #[case::bounds(cluster(2, 1, Some(9)), Some((None, Some(Bounds { min: 1, max: Some(9) }))))]
    fn only_what_differs_is_decided(
        #[case] after: Cluster,
        #[case] expected: Option<(Option<u32>, Option<Bounds>)>,
    ) {
        let before = cluster(2, 0, None);
        let found = size_changes(&before, &after);
        assert_eq!(found.first().map(|sizes| (sizes.desired, sizes.bounds)), expected);
        assert_eq!(with_sizes(before.clone(), &before, &found).groups, after.groups, "they lead to it");
    }

    #[test]
    fn sizes_that_others_changed_meanwhile_are_kept() {
        let sizes = size_changes(&cluster(2, 0, None), &cluster(2, 1, None));
        let (present, asked) = (cluster(7, 0, None), cluster(3, 0, None));
        assert_eq!(with_sizes(asked, &present, &sizes).groups, cluster(7, 1, None).groups);
    }
}
