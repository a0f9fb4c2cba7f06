//! Reads of apps, the clusters that they use, and ephemeral clusters.

use muster_core::app::{App, AppUse, EphemeralMark};
use muster_core::cluster::Cluster;
use muster_core::ids::{AppId, ClusterId, InstanceId};
use muster_core::time::Timestamp;

use crate::error::StoreError;
use crate::keyset::{Cursor, Direction, Filter, Page, sort_keys};
use crate::paging::{Selection, listed};
use crate::rows::{apps, clusters};
use crate::store::Store;
use crate::value::args;

sort_keys! {
    /// The keys by which apps can be sorted.
    AppSort {
        /// By name.
        Name = text("name"),
        /// By the time of registration.
        CreatedAt = number("created_at"),
    }
}

/// The query for a list of apps.
#[derive(Debug, Clone, Default)]
pub struct AppQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// In this namespace only.
    pub namespace: Option<String>,
    /// Of this provider instance only.
    pub instance: Option<InstanceId>,
    /// Only these; an empty list is all.
    pub ids: Vec<AppId>,
    /// Those that use this cluster.
    pub cluster: Option<ClusterId>,
    /// Only those that use a cluster.
    pub with_uses: bool,
    /// Only those that have not ended.
    pub open: bool,
    /// The order; ids break ties.
    pub sort: Vec<(AppSort, Direction)>,
    /// Only rows after this cursor.
    pub after: Option<Cursor>,
    /// The largest number of rows; `None` means all.
    pub limit: Option<u32>,
    /// True to count the rows of all pages.
    pub with_total: bool,
}

listed!(App, AppSort, "apps", "id", apps);

/// The condition of the partial index, word for word: otherwise SQLite does not use the index.
const EPHEMERAL: &str =
    "c.deleted_at IS NULL AND c.ephemeral IS NOT NULL AND c.instance = $1 AND c.status <> 'DELETING'";

/// An app whose marks are not written to its object yet.
#[derive(Debug, Clone)]
pub struct UnmarkedApp {
    /// The app.
    pub app: App,
    /// The clusters that it uses.
    pub uses: Vec<AppUse>,
    /// The version of the wanted marks.
    pub version: i64,
}

impl Store {
    /// The app of this id.
    pub async fn app(&self, id: AppId) -> Result<Option<App>, StoreError> {
        self.read(async |tx| apps::find(tx, "id = $1", args![id.to_string()]).await).await
    }

    /// The app with this object or command.
    pub async fn app_by_uid(&self, instance: &InstanceId, uid: &str) -> Result<Option<App>, StoreError> {
        let known = args![instance.as_str(), uid];
        self.read(async |tx| apps::find(tx, "instance = $1 AND uid = $2", known).await).await
    }

    /// The apps of this name in a namespace, the latest first.
    pub async fn apps_named(&self, namespace: &str, name: &str) -> Result<Vec<App>, StoreError> {
        let columns = apps::COLUMNS.join(", ");
        let sql = format!(
            "SELECT {columns} FROM apps WHERE namespace = $1 AND name = $2 ORDER BY created_at DESC, id DESC"
        );
        let rows = self.read(async |tx| tx.rows(sql, args![namespace, name]).await).await?;
        rows.iter().map(apps::read).collect()
    }

    /// A page of apps.
    pub async fn apps(&self, query: &AppQuery) -> Result<Page<App>, StoreError> {
        let mut filter = Filter::default();
        filter.any_of("project", query.project.iter());
        filter.any_of("namespace", query.namespace.iter());
        filter.equal("instance", query.instance.as_ref().map(InstanceId::as_str));
        filter.any_of_ids(self.dialect(), "id", &query.ids);
        if let Some(cluster) = &query.cluster {
            let place = filter.place(cluster.to_string());
            filter.add(format!(
                "EXISTS (SELECT 1 FROM app_uses u WHERE u.app_id = apps.id AND u.cluster_id = {place})"
            ));
        }
        if query.with_uses {
            filter.add("EXISTS (SELECT 1 FROM app_uses u WHERE u.app_id = apps.id)");
        }
        if query.open {
            filter.add("ended_at IS NULL");
        }
        let selection = Selection {
            after: query.after.as_ref(),
            with_total: query.with_total,
            ..Selection::new(&query.sort, None::<&str>, query.limit)
        };
        self.list(filter, selection).await
    }

    /// The clusters that apps use, in the order of their names.
    pub async fn app_uses(&self, ids: &[AppId]) -> Result<Vec<AppUse>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let (these, ids) = self.dialect().any_of("u.app_id", "$1", ids);
        let sql = format!(
            "SELECT u.app_id, u.cluster_id, c.name, u.ephemeral, u.since, a.uid, c.ephemeral, a.name FROM app_uses u \
             JOIN clusters c ON c.id = u.cluster_id JOIN apps a ON a.id = u.app_id WHERE {these} AND c.deleted_at IS NULL ORDER BY c.name, c.id"
        );
        let rows = self.read_many(async |tx| tx.rows(sql, args![ids]).await).await?;
        let read = |row: &crate::value::Row| {
            // The mark of the cluster may have changed since the use was recorded.
            let (uid, mark) = (row.text(5)?, row.opt_json::<EphemeralMark>(6)?);
            let name = row.text(7)?;
            // A mark that a user wrote may have a name only.
            let is_of = |mark: EphemeralMark| mark.uid == uid || (mark.uid.is_empty() && mark.app == name);
            let is_marked = mark.is_some_and(is_of);
            Ok(AppUse {
                app: row.parse(0)?,
                cluster: row.parse(1)?,
                cluster_name: row.text(2)?,
                ephemeral: row.bool(3)? && is_marked,
                since: row.time(4)?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// The ephemeral clusters of an instance, without those that are being deleted.
    pub async fn ephemeral(&self, instance: &InstanceId) -> Result<Vec<ClusterId>, StoreError> {
        let sql = format!("SELECT c.id FROM clusters c WHERE {EPHEMERAL} ORDER BY c.id");
        let rows = self.read_many(async |tx| tx.rows(sql, args![instance.as_str()]).await).await?;
        rows.iter().map(|row| row.parse(0)).collect()
    }

    /// The ephemeral clusters of an instance among these, without those that are being deleted.
    pub async fn ephemeral_among(
        &self,
        instance: &InstanceId,
        ids: &[ClusterId],
    ) -> Result<Vec<Cluster>, StoreError> {
        self.read_many(async |tx| {
            let (these, ids) = tx.dialect().any_of("c.id", "$2", ids);
            let rest = format!("WHERE {EPHEMERAL} AND {these}");
            clusters::fetch(tx, &rest, args![instance.as_str(), ids]).await
        })
        .await
    }

    /// The apps of an instance whose marks are not written to their objects yet.
    pub async fn unmarked_apps(&self, instance: &InstanceId) -> Result<Vec<UnmarkedApp>, StoreError> {
        let columns = apps::COLUMNS.join(", ");
        let sql = format!(
            "SELECT {columns}, marks_wanted FROM apps WHERE instance = $1 AND marks_wanted <> marks_written ORDER BY id"
        );
        let rows = self.read_many(async |tx| tx.rows(sql, args![instance.as_str()]).await).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            found.push((apps::read(row)?, row.int(apps::COLUMNS.len())?));
        }
        let ids: Vec<AppId> = found.iter().map(|(app, _)| app.id).collect();
        let uses = self.app_uses(&ids).await?;
        let of = |app: &App| uses.iter().filter(|used| used.app == app.id).cloned().collect();
        Ok(found.into_iter().map(|(app, version)| UnmarkedApp { uses: of(&app), app, version }).collect())
    }

    /// The time by the database's clock, which leases are measured with.
    pub async fn database_time(&self) -> Result<Timestamp, StoreError> {
        self.read(async |tx| tx.database_now().await.map(Timestamp::from_micros)).await
    }
}
