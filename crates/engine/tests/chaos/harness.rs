//! A database and a world for several engines.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_core::action::{Action, ActionKind, ActionStatus};
use muster_core::ids::{ActionId, ClusterId};
use muster_store::Store;
pub(crate) use muster_testkit::DatabaseKind as Kind;
use muster_testkit::world::{Pace, Replica, WORLD_CLUSTER, World};
use muster_testkit::{Database, SmallDisk};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The default lease, which is longer than any fault here.
pub(crate) const UNHURRIED: Pace = Pace { lease: 15_000, heartbeat: 1_000, safety: 100 };

/// A short lease, so that the next engine does not wait long for a dead one. A live engine that loses it on a slow
/// machine registers again.
pub(crate) const PACE: Pace = Pace { lease: 600, heartbeat: 150, safety: 100 };

pub(crate) struct Harness {
    base: Base,
    pub(crate) world: World,
}

enum Base {
    File(TempDir),
    Disk(SmallDisk),
    Server(Database),
}

impl Harness {
    /// None where the machine has no PostgreSQL; the test is then reported as skipped.
    pub(crate) async fn open(kind: Kind) -> Option<Self> {
        let base = match kind {
            Kind::Sqlite => Base::File(tempfile::tempdir().expect("a folder can be made")),
            Kind::Postgres => Base::Server(muster_testkit::postgres().await?.database().await),
        };
        Some(Self { base, world: World::start().await })
    }

    /// Opens a harness on a disk that is soon full.
    pub(crate) async fn on(disk: SmallDisk) -> Self {
        Self { base: Base::Disk(disk), world: World::start().await }
    }

    /// The path or the URL of the database.
    pub(crate) fn address(&self) -> String {
        match &self.base {
            Base::File(_) | Base::Disk(_) => self.file().display().to_string(),
            Base::Server(database) => database.url().to_owned(),
        }
    }

    /// The file of an SQLite database.
    pub(crate) fn file(&self) -> PathBuf {
        match &self.base {
            Base::File(folder) => folder.path().join("muster.db"),
            Base::Disk(disk) => disk.path().join("muster.db"),
            Base::Server(_) => panic!("a server has no file"),
        }
    }

    /// The name of a database on a server.
    pub(crate) fn name(&self) -> &str {
        match &self.base {
            Base::File(_) | Base::Disk(_) => panic!("a file is on no server"),
            Base::Server(database) => database.name(),
        }
    }

    /// Runs SQL in a database on a server.
    pub(crate) async fn psql(&self, sql: &str) -> String {
        match &self.base {
            Base::File(_) | Base::Disk(_) => panic!("a file is on no server"),
            Base::Server(database) => database.psql(sql).await,
        }
    }

    /// An engine in a process of its own.
    pub(crate) async fn engine(&self) -> Replica {
        self.engine_at(PACE).await
    }

    /// An engine with other intervals, in a process of its own.
    pub(crate) async fn engine_at(&self, pace: Pace) -> Replica {
        Replica::start(&self.address(), &self.world, pace).await
    }

    /// Opens the store, to read rows, and to write recipes and policies, which the engines here have no request for.
    pub(crate) async fn store(&self) -> Store {
        match &self.base {
            Base::File(_) | Base::Disk(_) => Store::open_file(&self.file()).await,
            Base::Server(database) => Store::connect(database.url()).await,
        }
        .expect("the database opens")
    }

    /// The number of locks.
    pub(crate) async fn locks(&self) -> u64 {
        const COUNT: &str = "SELECT count(*) FROM locks";
        let count = match &self.base {
            Base::File(_) | Base::Disk(_) => python(SELECT, &self.file(), COUNT),
            Base::Server(database) => database.psql(COUNT).await,
        };
        count.trim().parse().unwrap_or_else(|_| panic!("'{count}' is no number"))
    }
}

const SELECT: &str =
    "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone()[0])";

/// The store does not expose SQL, so another program opens the file.
fn python(script: &str, file: &Path, sql: &str) -> String {
    let output = Command::new("python3").args(["-c", script]).arg(file).arg(sql).output();
    let output = output.expect("python3 is on the PATH");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}

pub(crate) fn new_cluster() -> ClusterId {
    ClusterId::from_uuid(muster_engine::new_id())
}

/// Creates a cluster with a head and waits for the end of the action.
pub(crate) async fn created(engine: &Replica, workers: u32) -> ClusterId {
    let cluster = new_cluster();
    let action = engine.create(cluster, WORLD_CLUSTER, workers).await;
    succeeded(&engine.end(action.id).await);
    cluster
}

/// Requests a relative size, so that a change that is applied twice is visible.
pub(crate) async fn grow(engine: &Replica, cluster: ClusterId, workers: i32) -> ActionId {
    engine.change(cluster, ActionKind::ClusterResize, by(workers)).await.id
}

pub(crate) fn by(workers: i32) -> Value {
    json!({"adjustment_type": "CHANGE_IN_CAPACITY", "number": workers})
}

pub(crate) fn succeeded(action: &Action) {
    assert_eq!(action.status, ActionStatus::Succeeded, "{}: {}", action.kind, action.status_reason);
}
