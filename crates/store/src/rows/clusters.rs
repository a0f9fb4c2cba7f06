//! Clusters and their groups as rows.

use std::collections::HashMap;
use std::sync::LazyLock;

use muster_core::cluster::{Cluster, WorkerGroup};
use muster_core::ids::{ClusterId, ProfileId};
use muster_core::limits::{ExpiryState, Limits};
use muster_core::principal::Owner;
use muster_core::time::TimeSpan;

use crate::bulk;
use crate::error::StoreError;
use crate::reads::ClusterWithProfile;
use crate::rows::columns::{self, ColumnWrites};
use crate::rows::profiles;
use crate::transaction::{Touched, Transaction};
use crate::value::{Row, Value, args, json, opt_json};

/// The columns in the order of [`values`] and [`read`].
const TABLE: [(&str, ColumnWrites); 40] = [
    ("id", ColumnWrites::Once),
    ("name", ColumnWrites::Seldom),
    ("object_name", ColumnWrites::Once),
    ("namespace", ColumnWrites::Once),
    ("project", ColumnWrites::Once),
    ("instance", ColumnWrites::Once),
    ("owner_scheme", ColumnWrites::Seldom),
    ("owner_id", ColumnWrites::Seldom),
    ("owner_name", ColumnWrites::Seldom),
    ("user_id", ColumnWrites::Seldom),
    ("profile_id", ColumnWrites::Seldom),
    ("profile_type", ColumnWrites::Once),
    ("framework", ColumnWrites::Once),
    ("flavor", ColumnWrites::Once),
    ("has_head", ColumnWrites::Once),
    ("desired", ColumnWrites::Always),
    ("status", ColumnWrites::Always),
    ("status_reason", ColumnWrites::Always),
    ("timeout", ColumnWrites::Always),
    ("metadata", ColumnWrites::Always),
    ("config", ColumnWrites::Always),
    ("data", ColumnWrites::Always),
    ("dependents", ColumnWrites::Always),
    ("labels", ColumnWrites::Always),
    ("annotations", ColumnWrites::Always),
    ("spec", ColumnWrites::Always),
    ("generation", ColumnWrites::Always),
    ("incarnation", ColumnWrites::Always),
    ("next_index", ColumnWrites::Always),
    ("observed", ColumnWrites::Always),
    ("init_at", ColumnWrites::Once),
    ("created_at", ColumnWrites::Always),
    ("updated_at", ColumnWrites::Always),
    ("deleted_at", ColumnWrites::Seldom),
    ("idle_timeout", ColumnWrites::Seldom),
    ("max_lifetime", ColumnWrites::Seldom),
    ("idle_since", ColumnWrites::Once),
    ("idle_warned_at", ColumnWrites::Once),
    ("lifetime_warned_at", ColumnWrites::Once),
    ("ephemeral", ColumnWrites::Seldom),
];

/// The names of the columns.
pub(crate) const COLUMNS: &[&str] = &columns::names(&TABLE);

const GROUP_COLUMNS: &[&str] =
    &["cluster_id", "name", "position", "desired", "min_size", "max_size", "shape", "spec"];

/// The columns that a change of a group writes.
const GROUP_CHANGING: &[&str] = &["position", "desired", "min_size", "max_size", "shape", "spec"];

fn values(cluster: &Cluster) -> Vec<Value> {
    args![
        cluster.id.to_string(),
        &cluster.name,
        &cluster.object_name,
        &cluster.namespace,
        &cluster.project,
        cluster.instance.as_str(),
        &cluster.owner.scheme,
        &cluster.owner.id,
        &cluster.owner.name,
        &cluster.user,
        cluster.profile_id.to_string(),
        cluster.profile_type.to_string(),
        cluster.framework.map(|framework| framework.as_str().to_owned()),
        cluster.flavor.clone(),
        cluster.has_head,
        cluster.desired(),
        cluster.status.as_str(),
        &cluster.status_reason,
        cluster.timeout.micros(),
        json(&cluster.metadata),
        json(&cluster.config),
        json(&cluster.data),
        json(&cluster.dependents),
        json(&cluster.labels),
        json(&cluster.annotations),
        json(&cluster.spec),
        cluster.generation,
        cluster.incarnation,
        cluster.next_index,
        json(&cluster.observed),
        cluster.init_at,
        cluster.created_at,
        cluster.updated_at,
        cluster.deleted_at,
        cluster.limits.idle_timeout.map(TimeSpan::micros),
        cluster.limits.max_lifetime.map(TimeSpan::micros),
        cluster.expiry_state.idle_since,
        cluster.expiry_state.idle_warned_at,
        cluster.expiry_state.lifetime_warned_at,
        opt_json(cluster.ephemeral.as_ref()),
    ]
}

/// Reads a cluster without its groups.
pub(crate) fn read(row: &Row) -> Result<Cluster, StoreError> {
    Ok(Cluster {
        id: row.parse(0)?,
        name: row.text(1)?,
        object_name: row.text(2)?,
        namespace: row.text(3)?,
        project: row.text(4)?,
        instance: row.parse(5)?,
        owner: Owner { scheme: row.text(6)?, id: row.text(7)?, name: row.text(8)? },
        user: row.text(9)?,
        profile_id: row.parse(10)?,
        profile_type: row.parse(11)?,
        framework: row.opt_word(12)?,
        flavor: row.opt_text(13)?,
        has_head: row.bool(14)?,
        groups: Vec::new(),
        status: row.word(16)?,
        status_reason: row.text(17)?,
        timeout: TimeSpan::from_micros(row.int(18)?),
        limits: Limits {
            idle_timeout: row.opt_int(34)?.map(TimeSpan::from_micros),
            max_lifetime: row.opt_int(35)?.map(TimeSpan::from_micros),
        },
        expiry_state: ExpiryState {
            idle_since: row.opt_time(36)?,
            idle_warned_at: row.opt_time(37)?,
            lifetime_warned_at: row.opt_time(38)?,
        },
        ephemeral: row.opt_json(39)?,
        metadata: row.map(19)?,
        config: row.map(20)?,
        data: row.map(21)?,
        dependents: row.map(22)?,
        labels: row.map(23)?,
        annotations: row.map(24)?,
        spec: row.map(25)?,
        generation: row.int(26)?,
        incarnation: row.int(27)?,
        next_index: row.number(28)?,
        observed: row.json(29)?,
        init_at: row.time(30)?,
        created_at: row.opt_time(31)?,
        updated_at: row.opt_time(32)?,
        deleted_at: row.opt_time(33)?,
    })
}

/// Inserts a new cluster with its groups; a `claim` forbids another cluster with the same claim.
pub(crate) async fn insert(
    tx: &mut Transaction<'_>,
    cluster: &Cluster,
    claim: Option<String>,
) -> Result<(), StoreError> {
    static INSERT: LazyLock<String> = LazyLock::new(|| {
        let columns: Vec<&str> =
            COLUMNS.iter().copied().chain(["fence", "change", "born", "name_claim"]).collect();
        let places: Vec<String> = (1..=columns.len()).map(|place| format!("${place}")).collect();
        format!("INSERT INTO clusters ({}) VALUES ({})", columns.join(", "), places.join(", "))
    });
    let change = tx.change().await?;
    let mut row = values(cluster);
    row.extend(args![0_i64, change, change, claim]);
    tx.execute(INSERT.as_str(), row).await?;
    tx.touch(Touched::Cluster(cluster.id));
    insert_groups(tx, cluster).await
}

/// Updates a cluster and its groups.
pub(crate) async fn update(tx: &mut Transaction<'_>, cluster: &Cluster) -> Result<(), StoreError> {
    static UPDATE: LazyLock<String> = LazyLock::new(|| {
        let set = assignments(&columns::written(&TABLE, &[ColumnWrites::Always]));
        format!("UPDATE clusters SET {set}, change = $2 WHERE id = $1")
    });
    // SQLite rewrites an index whenever a statement assigns one of its columns, even if the value does not change.
    static UPDATE_SELDOM: LazyLock<String> = LazyLock::new(|| {
        let columns = columns::written(&TABLE, &[ColumnWrites::Seldom]);
        let places: Vec<String> = (0..columns.len()).map(|at| format!("${}", at + 3)).collect();
        let (set, columns, places) = (assignments(&columns), columns.join(", "), places.join(", "));
        format!(
            "UPDATE clusters SET {set}, change = $2 WHERE id = $1 AND ({columns}) IS DISTINCT FROM ({places})"
        )
    });
    let change = tx.change().await?;
    let (mut row, mut seldom) =
        (args![cluster.id.to_string(), change], args![cluster.id.to_string(), change]);
    for ((_, written), value) in TABLE.iter().zip(values(cluster)) {
        match written {
            ColumnWrites::Always => row.push(value),
            ColumnWrites::Seldom => seldom.push(value),
            ColumnWrites::Once => {}
        }
    }
    tx.execute(UPDATE.as_str(), row).await?;
    tx.execute(UPDATE_SELDOM.as_str(), seldom).await?;
    tx.touch(Touched::Cluster(cluster.id));
    let present = groups(tx, &[cluster.id]).await?.remove(&cluster.id).unwrap_or_default();
    write_groups(tx, cluster, &present).await
}

/// `a = $3, b = $4, …`; the first two arguments are the id and the change.
fn assignments(columns: &[&str]) -> String {
    let set: Vec<String> =
        columns.iter().enumerate().map(|(at, column)| format!("{column} = ${}", at + 3)).collect();
    set.join(", ")
}

/// Writes the groups that differ from the stored ones. An existing row is updated, never replaced: it may have columns
/// of a newer version.
async fn write_groups(
    tx: &mut Transaction<'_>,
    cluster: &Cluster,
    present: &[WorkerGroup],
) -> Result<(), StoreError> {
    const DELETE: &str = "DELETE FROM worker_groups WHERE cluster_id = $1 AND name = $2";
    static CONFLICT: LazyLock<String> =
        LazyLock::new(|| bulk::update_on_conflict("cluster_id, name", GROUP_CHANGING));
    for group in present.iter().filter(|group| cluster.group(&group.name).is_none()) {
        tx.execute(DELETE, args![cluster.id.to_string(), &group.name]).await?;
    }
    let changed = cluster.groups.iter().enumerate().filter(|(at, group)| present.get(*at) != Some(group));
    let rows = changed.map(|(position, group)| group_values(cluster.id, position, group)).collect();
    bulk::insert(tx, "worker_groups", GROUP_COLUMNS, &CONFLICT, rows).await
}

async fn insert_groups(tx: &mut Transaction<'_>, cluster: &Cluster) -> Result<(), StoreError> {
    let groups = cluster.groups.iter().enumerate();
    let rows = groups.map(|(position, group)| group_values(cluster.id, position, group)).collect();
    bulk::insert(tx, "worker_groups", GROUP_COLUMNS, "", rows).await
}

fn group_values(cluster: ClusterId, position: usize, group: &WorkerGroup) -> Vec<Value> {
    args![
        cluster.to_string(),
        &group.name,
        i64::try_from(position).unwrap_or(i64::MAX),
        group.desired,
        group.min,
        group.max.map(i64::from),
        json(&group.shape),
        json(&group.spec),
    ]
}

/// Reads the clusters that `rest` selects, with their groups, in two queries whatever their number.
pub(crate) async fn fetch(
    tx: &mut Transaction<'_>,
    rest: &str,
    arguments: Vec<Value>,
) -> Result<Vec<Cluster>, StoreError> {
    let sql = format!("SELECT {} FROM clusters c {rest}", qualified());
    let rows = tx.rows(sql, arguments).await?;
    let mut clusters = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    attach_groups(tx, &mut clusters).await?;
    Ok(clusters)
}

/// Reads these clusters with their profiles, in three queries whatever their number.
pub(crate) async fn subjects(
    tx: &mut Transaction<'_>,
    ids: &[ClusterId],
) -> Result<HashMap<ClusterId, ClusterWithProfile>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let (these, ids) = tx.dialect().any_of("c.id", "$1", ids);
    let clusters = fetch(tx, &format!("WHERE {these}"), args![ids]).await?;
    let ids: Vec<ProfileId> = clusters.iter().map(|cluster| cluster.profile_id).collect();
    let profiles = profiles::fetch(tx, &ids).await?;
    let with_profile = |cluster: Cluster| {
        let profile = profiles.iter().find(|profile| profile.id == cluster.profile_id)?.clone();
        Some((cluster.id, ClusterWithProfile { cluster, profile }))
    };
    Ok(clusters.into_iter().filter_map(with_profile).collect())
}

/// All columns, of the table under the name `c`.
pub(crate) fn qualified() -> &'static str {
    static COLUMNS_OF_C: LazyLock<String> = LazyLock::new(|| {
        let names: Vec<String> = COLUMNS.iter().map(|column| format!("c.{column}")).collect();
        names.join(", ")
    });
    &COLUMNS_OF_C
}

/// Reads the groups of many clusters at once.
pub(crate) async fn attach_groups(
    tx: &mut Transaction<'_>,
    clusters: &mut [Cluster],
) -> Result<(), StoreError> {
    if clusters.is_empty() {
        return Ok(());
    }
    let ids: Vec<ClusterId> = clusters.iter().map(|cluster| cluster.id).collect();
    let mut groups = groups(tx, &ids).await?;
    for cluster in clusters {
        cluster.groups = groups.remove(&cluster.id).unwrap_or_default();
    }
    Ok(())
}

async fn groups(
    tx: &mut Transaction<'_>,
    ids: &[ClusterId],
) -> Result<HashMap<ClusterId, Vec<WorkerGroup>>, StoreError> {
    let (these, ids) = tx.dialect().any_of("cluster_id", "$1", ids);
    let sql = format!(
        "SELECT cluster_id, name, desired, min_size, max_size, shape, spec FROM worker_groups \
         WHERE {these} ORDER BY cluster_id, position"
    );
    let mut groups: HashMap<ClusterId, Vec<WorkerGroup>> = HashMap::new();
    for row in tx.rows(sql, args![ids]).await? {
        groups.entry(row.parse(0)?).or_default().push(read_group(&row)?);
    }
    Ok(groups)
}

fn read_group(row: &Row) -> Result<WorkerGroup, StoreError> {
    let max = row.opt_int(4)?.map(u32::try_from).transpose();
    Ok(WorkerGroup {
        name: row.text(1)?,
        desired: row.number(2)?,
        min: row.number(3)?,
        max: max.map_err(|_| StoreError::corrupt("a group's maximum"))?,
        shape: row.map(5)?,
        spec: row.map(6)?,
    })
}

#[cfg(test)]
mod tests;
