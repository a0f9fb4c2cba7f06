//! The choice of free devices. Pure: the same uses give the same choice.

use std::collections::{BTreeMap, BTreeSet};

/// The most users of devices that a message names.
const MAX_NAMED: usize = 5;

/// Devices that a node uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeviceUse {
    /// The name of the node's cluster.
    pub(super) owner: String,
    /// The numbers of the devices.
    pub(super) devices: Vec<u32>,
}

/// Chooses the free devices with the lowest numbers, or returns what a node that needs them waits for.
pub(super) fn choose_free(wanted: u32, total: u32, uses: &[DeviceUse]) -> Result<Vec<u32>, String> {
    let used: BTreeMap<u32, &str> = uses
        .iter()
        .flat_map(|held| held.devices.iter().map(|device| (*device, held.owner.as_str())))
        .filter(|(device, _)| *device < total)
        .collect();
    let wanted_count = usize::try_from(wanted).unwrap_or(usize::MAX);
    let free: Vec<u32> = (0..total).filter(|device| !used.contains_key(device)).take(wanted_count).collect();
    if free.len() == wanted_count {
        return Ok(free);
    }
    let gpus = if wanted == 1 { "GPU" } else { "GPUs" };
    let are = if used.len() == 1 { "is" } else { "are" };
    let owners: BTreeSet<&str> = used.values().copied().collect();
    let mut names: Vec<String> = owners.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    let more = owners.len().saturating_sub(MAX_NAMED);
    names.extend((more > 0).then(|| format!("{more} more")));
    Err(format!(
        "waiting for {wanted} {gpus}: {} of {total} {are} in use by {}",
        used.len(),
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn uses(of: &[(&str, &[u32])]) -> Vec<DeviceUse> {
        let one = |(owner, devices): &(&str, &[u32])| DeviceUse {
            owner: (*owner).to_owned(),
            devices: devices.to_vec(),
        };
        of.iter().map(one).collect()
    }

    #[rstest]
    #[case::the_first(1, 2, &[], Ok(&[0][..]))]
    #[case::another(1, 2, &[("fred", &[0][..])], Ok(&[1][..]))]
    #[case::several(2, 4, &[("fred", &[0, 2][..])], Ok(&[1, 3][..]))]
    #[case::all(2, 2, &[], Ok(&[0, 1][..]))]
    #[case::devices_that_are_gone_do_not_count(1, 1, &[("fred", &[3][..])], Ok(&[0][..]))]
    #[case::none_is_free(
        1, 2, &[("fred", &[0][..]), ("ann", &[1][..])],
        Err("waiting for 1 GPU: 2 of 2 are in use by ann, fred")
    )]
    #[case::too_few_are_free(2, 2, &[("fred", &[1][..])], Err("waiting for 2 GPUs: 1 of 2 is in use by fred"))]
    #[case::a_cluster_is_named_once(
        1, 2, &[("fred", &[0][..]), ("fred", &[1][..])],
        Err("waiting for 1 GPU: 2 of 2 are in use by fred")
    )]
    #[case::many_clusters(
        1, 7, &[("a", &[0][..]), ("b", &[1][..]), ("c", &[2][..]), ("d", &[3][..]), ("e", &[4][..]), ("f", &[5][..]), ("g", &[6][..])],
        Err("waiting for 1 GPU: 7 of 7 are in use by a, b, c, d, e, 2 more")
    )]
    fn a_node_gets_free_devices_or_waits(
        #[case] wanted: u32,
        #[case] total: u32,
        #[case] of: &[(&str, &[u32])],
        #[case] expected: Result<&[u32], &str>,
    ) {
        let expected = expected.map(<[u32]>::to_vec).map_err(str::to_owned);
        assert_eq!(choose_free(wanted, total, &uses(of)), expected);
    }
}
