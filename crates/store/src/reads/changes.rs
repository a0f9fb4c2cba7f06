//! Reads of the change feed: clusters in the order of the commits that changed them.

use muster_core::cluster::Cluster;
use muster_core::ids::ClusterId;

use crate::change_order::{self, Drawn};
use crate::error::StoreError;
use crate::keyset::Filter;
use crate::rows::clusters;
use crate::store::Store;
use crate::transaction::Transaction;
use crate::value::args;

/// The counter of the newest change whose history has been purged.
pub(crate) const FORGOTTEN: &str = "forgotten";

/// The position of a watch in the change feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The change up to which everything has been reported.
    pub change: i64,
    /// The cluster up to which clusters of this change itself have been reported; `None` if all were.
    pub cluster: Option<ClusterId>,
    /// The change up to which new clusters are known to the watch.
    pub known_until: i64,
}

impl Position {
    /// The position after everything up to this change.
    pub const fn at(change: i64) -> Self {
        Self { change, cluster: None, known_until: change }
    }
}

/// The range of changes that can be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeBounds {
    /// The oldest position from which history is complete.
    pub oldest: i64,
    /// The newest position: a watch that continues from there misses nothing.
    pub newest: i64,
    /// The highest number that was drawn. A watch at a higher position followed the database before it was restored
    /// from an older copy.
    pub last: i64,
}

/// The query for changes.
#[derive(Debug, Clone, Copy)]
pub struct ChangesQuery<'q> {
    /// The position of the watch.
    pub after: Position,
    /// Of this project only.
    pub project: Option<&'q str>,
    /// In this namespace only.
    pub namespace: Option<&'q str>,
    /// The largest number of rows.
    pub limit: u32,
}

/// A cluster that changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The present state of the cluster, which may be deleted.
    pub cluster: Cluster,
    /// The change that inserted the cluster.
    pub born: i64,
    /// The position after this change and all before it.
    pub position: Position,
}

/// Clusters that changed, in the order of commits.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// The clusters, each once in its present state.
    pub clusters: Vec<Changed>,
    /// The position to continue from.
    pub position: Position,
    /// True if there are more changes already.
    pub more: bool,
}

impl Store {
    /// The oldest and the newest position from which changes can be followed.
    pub async fn change_bounds(&self) -> Result<ChangeBounds, StoreError> {
        let drawn = self.drawn_changes().await?;
        self.read(async |tx| bounds(tx, drawn).await).await
    }

    /// The clusters that changed after a position.
    pub async fn clusters_changed(&self, query: ChangesQuery<'_>) -> Result<Changes, StoreError> {
        let drawn = self.drawn_changes().await?;
        self.read_many(async |tx| changes(tx, drawn, query).await).await
    }
}

async fn changes(
    tx: &mut Transaction<'_>,
    drawn: Option<Drawn>,
    query: ChangesQuery<'_>,
) -> Result<Changes, StoreError> {
    let ChangesQuery { after, project, namespace, limit } = query;
    let upto = bounds(tx, drawn).await?.newest.max(after.change);
    let mut filter = Filter::default();
    let (from, to, known_until) =
        (filter.place(after.change), filter.place(upto), filter.place(after.known_until));
    // A cluster that was inserted within the horizon is reported even if it has changed beyond the horizon since: later
    // it would count as known.
    filter.add(format!("(c.change <= {to} OR c.born > {known_until} AND c.born <= {to})"));
    match after.cluster {
        Some(id) => {
            let id = filter.place(id.to_string());
            filter.add(format!("c.change >= {from} AND (c.change > {from} OR c.id > {id})"));
        }
        None => filter.add(format!("c.change > {from}")),
    }
    for (column, value) in [("c.project", project), ("c.namespace", namespace)] {
        if let Some(value) = value {
            let place = filter.place(value);
            filter.add(format!("{column} = {place}"));
        }
    }
    // One row more than requested shows whether there is more.
    let order = format!("ORDER BY c.change, c.id LIMIT {}", u64::from(limit) + 1);
    let sql = format!(
        "SELECT {}, c.change, c.born FROM clusters c {} {order}",
        clusters::qualified(),
        filter.to_where()
    );
    let mut rows = tx.rows(sql, filter.arguments).await?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > limit;
    rows.truncate(limit);
    let mut found = rows.iter().map(clusters::read).collect::<Result<Vec<_>, _>>()?;
    clusters::attach_groups(tx, &mut found).await?;
    let mut changes = Vec::with_capacity(found.len());
    for (cluster, row) in found.into_iter().zip(&rows) {
        let (change, born) = (row.int(clusters::COLUMNS.len())?, row.int(clusters::COLUMNS.len() + 1)?);
        let cluster_of = (change <= upto).then_some(cluster.id);
        let position =
            Position { change: change.min(upto), cluster: cluster_of, known_until: after.known_until };
        changes.push(Changed { cluster, born, position });
    }
    // Changes beyond the horizon are left to the next read.
    let rest = changes.last().map(|changed| changed.position).filter(|last| more && last.cluster.is_some());
    if rest.is_none() {
        note_known(&mut changes, after.known_until, upto);
    }
    Ok(Changes { clusters: changes, position: rest.unwrap_or(Position::at(upto)), more: rest.is_some() })
}

/// Sets `known_until` of each position: a watch that stops there does not know new clusters of later positions.
fn note_known(changes: &mut [Changed], before: i64, upto: i64) {
    let mut known_until = upto;
    for changed in changes.iter_mut().rev() {
        changed.position.known_until = known_until;
        if changed.born > before {
            known_until = known_until.min(changed.born - 1);
        }
    }
}

async fn bounds(tx: &mut Transaction<'_>, drawn: Option<Drawn>) -> Result<ChangeBounds, StoreError> {
    let row = tx.row("SELECT value FROM counters WHERE name = $1", args![FORGOTTEN]).await?;
    let oldest = row.map_or(Ok(0), |row| row.int(0))?;
    // The cluster with the highest number may have been purged.
    let highest = change_order::highest(tx).await?.unwrap_or(0).max(oldest);
    Ok(match drawn {
        Some(Drawn { last, settled }) => ChangeBounds { oldest, newest: highest.min(settled), last },
        None => ChangeBounds { oldest, newest: highest, last: highest },
    })
}
