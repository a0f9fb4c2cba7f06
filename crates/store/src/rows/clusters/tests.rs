//! The columns that a change of a cluster writes.

use muster_core::sample;
use muster_core::time::Timestamp;
use rusqlite::Connection as Sqlite;

use super::*;
use crate::connection::Connection;
use crate::migrate;
use crate::sqlite::at_once;

struct World {
    database: Sqlite,
    cluster: Cluster,
}

impl World {
    fn new() -> Self {
        let mut database = Sqlite::open_in_memory().expect("a database");
        migrate::sqlite(&mut database).expect("a schema");
        let cluster = sample::cluster(1, 0, None);
        let profile = muster_core::profile::Profile { id: cluster.profile_id, ..sample::profile() };
        let mut tx = Transaction::new(Connection::Sqlite(&mut database));
        at_once(profiles::insert(&mut tx, &profile)).expect("a profile");
        at_once(insert(&mut tx, &cluster, None)).expect("a cluster");
        Self { database, cluster }
    }

    /// Writes the cluster, and returns the number of written rows.
    fn update(&mut self) -> u64 {
        let before = self.database.total_changes();
        let mut tx = Transaction::new(Connection::Sqlite(&mut self.database));
        at_once(update(&mut tx, &self.cluster)).expect("an update");
        let read =
            at_once(fetch(&mut tx, "WHERE c.id = $1", args![self.cluster.id.to_string()])).expect("a read");
        assert_eq!(read, std::slice::from_ref(&self.cluster));
        self.database.total_changes() - before
    }
}

#[test]
fn a_change_of_a_cluster_writes_its_groups_and_what_is_in_indexes_only_if_they_changed() {
    // The number of the commit, and the cluster's row.
    const LEAST: u64 = 2;
    let mut world = World::new();
    world.cluster.status_reason = "as it goes".to_owned();
    assert_eq!(world.update(), LEAST);
    world.cluster.name = "renamed".to_owned();
    assert_eq!(world.update(), LEAST + 1);
    let groups = u64::try_from(world.cluster.groups.len()).unwrap();
    world.cluster.groups[0].desired += 1;
    assert_eq!(world.update(), LEAST + groups);
    world.cluster.deleted_at = Some(Timestamp::from_micros(5));
    assert_eq!(world.update(), LEAST + 1);
}

#[test]
fn what_every_change_of_a_cluster_writes_is_in_no_index() {
    let world = World::new();
    let columns = |sql: &str| -> Vec<String> {
        let mut select = world.database.prepare(sql).unwrap();
        let rows = select.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    };
    let keys =
        columns("SELECT DISTINCT i.name FROM pragma_index_list('clusters') l, pragma_index_info(l.name) i");
    let conditions = columns(
        "SELECT DISTINCT substr(sql, instr(sql, ' WHERE ')) FROM sqlite_master \
         WHERE type = 'index' AND tbl_name = 'clusters' AND sql LIKE '% WHERE %'",
    );
    assert!(!keys.is_empty() && !conditions.is_empty());
    let names = |text: &str| -> Vec<String> {
        text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').map(str::to_owned).collect()
    };
    for column in columns::written(&TABLE, &[ColumnWrites::Always]) {
        assert!(!keys.iter().any(|key| *key == column), "{column} is a part of an index");
        let named = conditions.iter().any(|text| names(text).iter().any(|name| *name == column));
        assert!(!named, "{column} is a condition of an index");
    }
}
