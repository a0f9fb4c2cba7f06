//! What nodes and clients of a cluster know, and nobody else.

use std::io;

use muster_core::ids::ClusterId;
use muster_frameworks::Secret;
use uuid::Uuid;

use super::place::{self, Places};
use crate::files;

/// The secret of a cluster, drawn when it is first asked for.
pub(super) fn of(places: &Places, cluster: ClusterId) -> io::Result<Secret> {
    let file = places.cluster(cluster).join("secret.json");
    if let Some(known) = place::read(&file) {
        return Ok(known);
    }
    let secret = Secret::new(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()));
    files::write(&file, &secret)?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn every_cluster_has_its_own_and_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::new(folder.path().to_owned());
        let [one, other] = [1, 2].map(|number| ClusterId::from_uuid(Uuid::from_u128(number)));
        for cluster in [one, other] {
            files::make_folder(&places.cluster(cluster)).unwrap();
        }
        let secret = of(&places, one).unwrap();
        assert!(secret.reveal().len() >= 32);
        assert_eq!(of(&places, one).unwrap(), secret);
        assert_ne!(of(&places, other).unwrap(), secret);
        let mode = places.cluster(one).join("secret.json").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "others may read it");
    }
}
