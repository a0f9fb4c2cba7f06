//! The secret that the nodes and clients of a cluster share.

use std::io;

use muster_core::ids::ClusterId;
use muster_frameworks::Secret;
use uuid::Uuid;

use super::paths::{self, LocalPaths};
use crate::files;

/// Reads the secret of a cluster, and creates it at the first call.
pub(super) fn read_or_create(paths: &LocalPaths, cluster: ClusterId) -> io::Result<Secret> {
    let file = paths.cluster(cluster).join("secret.json");
    if let Some(known) = paths::read_json(&file) {
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
    fn every_cluster_has_its_own_lasting_secret() {
        let folder = tempfile::tempdir().unwrap();
        let paths = LocalPaths::new(folder.path().to_owned());
        let [one, other] = [1, 2].map(|number| ClusterId::from_uuid(Uuid::from_u128(number)));
        for cluster in [one, other] {
            files::make_folder(&paths.cluster(cluster)).unwrap();
        }
        let secret = read_or_create(&paths, one).unwrap();
        assert!(secret.reveal().len() >= 32);
        assert_eq!(read_or_create(&paths, one).unwrap(), secret);
        assert_ne!(read_or_create(&paths, other).unwrap(), secret);
        let mode = paths.cluster(one).join("secret.json").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "other users may read it");
    }
}
