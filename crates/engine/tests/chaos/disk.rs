//! A disk that is full, and is not any more.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use muster_testkit::world::WORLD_NODE;
use tempfile::TempDir;

use crate::facts::{self, Expected};
use crate::ground::{Ground, UNHURRIED, new_cluster, succeeded};

/// More clusters than fit into what a full disk still has of its log.
const ENOUGH: usize = 200;

/// A file system in memory, unmounted with this value.
pub(crate) struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// None where nothing may be mounted; the test is then reported as skipped.
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "muster-test"]).arg(folder.path());
        match mount.output() {
            Ok(Output { status, .. }) if status.success() => Some(Self { folder }),
            Ok(Output { stderr, .. }) => {
                let why = String::from_utf8_lossy(&stderr);
                muster_testkit::skip(&format!("a small disk cannot be mounted: {}", why.trim()));
                None
            }
            Err(error) => {
                muster_testkit::skip(&format!("a small disk cannot be mounted: {error}"));
                None
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: whoever has a file open there ends in a moment.
        let unmounted = Command::new("umount").arg("--lazy").arg(self.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted", self.path().display());
        }
    }
}

fn fill(file: &Path) {
    let mut file = File::create(file).expect("a file can be made");
    while file.write_all(&[0; 512]).is_ok() {}
}

#[tokio::test]
async fn a_full_disk_refuses_in_words_and_keeps_what_was_accepted() {
    let Some(disk) = SmallDisk::mount("4m") else { return };
    let filler = disk.path().join("filler");
    let ground = Ground::on(disk).await;
    let engine = ground.engine_at(UNHURRIED).await;
    let first = new_cluster();
    succeeded(&engine.end(engine.create(first, WORLD_NODE, 1).await.id).await);
    fill(&filler);
    let (mut accepted, mut refused) = (Vec::new(), None);
    for _ in 0..ENOUGH {
        let cluster = new_cluster();
        match engine.try_create(cluster, WORLD_NODE, 1).await {
            Ok(action) => accepted.push((cluster, action.id)),
            Err(why) => {
                refused = Some((cluster, why));
                break;
            }
        }
    }
    let (half_made, why) = refused.expect("the disk is full");
    assert!(why.starts_with("the database cannot be used now: "), "{why}");
    assert!(why.contains("full"), "{why}");

    fs::remove_file(&filler).unwrap();
    let later = new_cluster();
    accepted.push((later, engine.create(later, WORLD_NODE, 1).await.id));
    for (cluster, action) in accepted {
        succeeded(&engine.end(action).await);
        facts::agree(&ground, cluster, Expected { workers: Some(1), made: 1, again: 0 }).await;
    }
    let store = ground.store().await;
    assert!(store.cluster(half_made).await.unwrap().is_none(), "it was refused, and is there");
    store.close().await;
    assert!(engine.stop().await.success());
    facts::no_locks(&ground).await;
}
