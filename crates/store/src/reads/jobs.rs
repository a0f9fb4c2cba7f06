//! Reads of jobs.

use std::collections::HashMap;

use muster_core::ids::{ClusterId, JobId, TaskId};
use muster_core::job::Job;
use muster_core::time::Timestamp;

use crate::error::StoreError;
use crate::keyset::{Cursor, Direction, Filter, Page, sort_keys};
use crate::paging::{Selection, listed};
use crate::rows::jobs;
use crate::store::Store;
use crate::value::args;

sort_keys! {
    /// The keys by which jobs can be sorted.
    JobSort {
        /// By the time of submission.
        CreatedAt = number("j.created_at"),
        /// By name.
        Name = text("j.name"),
    }
}

/// The query for a list of jobs.
#[derive(Debug, Clone, Default)]
pub struct JobQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// In this namespace only.
    pub namespace: Option<String>,
    /// On a cluster of this name or id only.
    pub cluster: Option<String>,
    /// Only those whose name has this prefix.
    pub name_prefix: Option<String>,
    /// Only those that have not ended.
    pub open: bool,
    /// The order; ids break ties.
    pub sort: Vec<(JobSort, Direction)>,
    /// Only rows after this cursor.
    pub after: Option<Cursor>,
    /// The largest number of rows; `None` means all.
    pub limit: Option<u32>,
    /// True to count the rows of all pages.
    pub with_total: bool,
}

listed!(Job, JobSort, jobs::TABLE, "j.id", jobs);

/// The last use of a cluster by jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobUse {
    /// A job has not ended.
    Open,
    /// All jobs have ended, the last one at this time.
    Until(Timestamp),
}

/// A job that has not ended, as its cluster shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenJob {
    /// The name of the job.
    pub name: String,
    /// True if the cluster was created for the job, and is deleted with it.
    pub owns_cluster: bool,
}

impl Store {
    /// The job of this id.
    pub async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.one_job("j.id = $1", id.to_string()).await
    }

    /// The job that a task runs.
    pub async fn job_of_task(&self, task: TaskId) -> Result<Option<Job>, StoreError> {
        self.one_job("j.task_id = $1", task.to_string()).await
    }

    async fn one_job(&self, condition: &str, id: String) -> Result<Option<Job>, StoreError> {
        let (columns, table) = (jobs::COLUMNS.join(", "), jobs::TABLE);
        let sql = format!("SELECT {columns} FROM {table} WHERE {condition}");
        let row = self.read(async |tx| tx.row(sql, args![id]).await).await?;
        row.as_ref().map(jobs::read).transpose()
    }

    /// The jobs of a namespace with this name or id; if there are none, those whose id has this prefix.
    pub async fn find_jobs(&self, namespace: &str, given: &str) -> Result<Vec<Job>, StoreError> {
        let (columns, table) = (jobs::COLUMNS.join(", "), jobs::TABLE);
        let exact = format!(
            "SELECT {columns} FROM {table} WHERE j.namespace = $1 AND (j.name = $2 OR j.id = $2) ORDER BY j.id"
        );
        let begins = format!(
            "SELECT {columns} FROM {table} WHERE j.namespace = $1 AND j.id >= $2 AND j.id < $3 ORDER BY j.id LIMIT 2"
        );
        let rows = self
            .read(async |tx| {
                let found = tx.rows(exact, args![namespace, given]).await?;
                if !found.is_empty() || given.is_empty() {
                    return Ok(found);
                }
                tx.rows(begins, args![namespace, given, format!("{given}\u{10ffff}")]).await
            })
            .await?;
        rows.iter().map(jobs::read).collect()
    }

    /// The use of these clusters by jobs; clusters without a job are left out.
    pub async fn job_use(&self, clusters: &[ClusterId]) -> Result<HashMap<ClusterId, JobUse>, StoreError> {
        self.read_many(async |tx| {
            let mut filter = Filter::default();
            filter.any_of_ids(tx.dialect(), "j.cluster_id", clusters);
            let sql = format!(
                "SELECT j.cluster_id, sum(CASE WHEN t.ended_at IS NULL THEN 1 ELSE 0 END), max(t.ended_at) FROM {} {} \
                 GROUP BY j.cluster_id",
                jobs::TABLE,
                filter.to_where()
            );
            let mut all = HashMap::new();
            for row in tx.rows(sql, filter.arguments).await? {
                let last = row.opt_time(2)?.map(JobUse::Until);
                let used = if row.int(1)? > 0 { Some(JobUse::Open) } else { last };
                let cluster: ClusterId = row.parse(0)?;
                all.extend(used.map(|used| (cluster, used)));
            }
            Ok(all)
        })
        .await
    }

    /// The jobs on these clusters that have not ended, the oldest first; clusters without one are left out.
    pub async fn open_jobs(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Vec<OpenJob>>, StoreError> {
        if clusters.is_empty() {
            return Ok(HashMap::new());
        }
        self.read_many(async |tx| {
            let mut filter = Filter::default();
            filter.any_of_ids(tx.dialect(), "j.cluster_id", clusters);
            filter.add("t.ended_at IS NULL");
            let sql = format!(
                "SELECT j.cluster_id, j.name, j.owns_cluster FROM {} {} ORDER BY j.created_at, j.id",
                jobs::TABLE,
                filter.to_where()
            );
            let mut open: HashMap<ClusterId, Vec<OpenJob>> = HashMap::new();
            for row in tx.rows(sql, filter.arguments).await? {
                let job = OpenJob { name: row.text(1)?, owns_cluster: row.bool(2)? };
                open.entry(row.parse(0)?).or_default().push(job);
            }
            Ok(open)
        })
        .await
    }

    /// A page of jobs.
    pub async fn jobs(&self, query: &JobQuery) -> Result<Page<Job>, StoreError> {
        let mut filter = Filter::default();
        filter.any_of("j.project", query.project.iter());
        filter.any_of("j.namespace", query.namespace.iter());
        if let Some(cluster) = &query.cluster {
            let (name, id) = (filter.place(cluster), filter.place(cluster));
            filter.add(format!("(j.cluster_name = {name} OR j.cluster_id = {id})"));
        }
        if let Some(prefix) = &query.name_prefix {
            filter.prefix("j.name", prefix);
        }
        if query.open {
            filter.add("t.ended_at IS NULL");
        }
        let selection = Selection {
            after: query.after.as_ref(),
            with_total: query.with_total,
            ..Selection::new(&query.sort, None::<&str>, query.limit)
        };
        self.list(filter, selection).await
    }
}
