//! Jobs as rows, read together with the tasks that run them.

use muster_core::job::Job;
use muster_core::principal::Owner;

use super::tasks;
use crate::bulk;
use crate::error::StoreError;
use crate::transaction::Transaction;
use crate::value::{Row, args, json};

/// The FROM clause for jobs and their tasks.
pub(crate) const TABLE: &str = "jobs j JOIN tasks t ON t.id = j.task_id";

/// The columns in the order of [`read`].
pub(crate) const COLUMNS: &[&str] = &[
    "j.id",
    "j.namespace",
    "j.name",
    "j.project",
    "j.owner_scheme",
    "j.owner_id",
    "j.owner_name",
    "j.instance",
    "j.cluster_id",
    "j.cluster_name",
    "j.owns_cluster",
    "j.spec",
    "j.stopped_by",
    "j.created_at",
    "t.id",
    "t.kind",
    "t.instance",
    "t.project",
    "t.inputs",
    "t.outputs",
    "t.status",
    "t.status_reason",
    "t.owner",
    "t.fence",
    "t.tries",
    "t.created_at",
    "t.started_at",
    "t.ended_at",
];

/// The columns of a job.
const WRITTEN: &[&str] = &[
    "id",
    "namespace",
    "name",
    "project",
    "owner_scheme",
    "owner_id",
    "owner_name",
    "instance",
    "cluster_id",
    "cluster_name",
    "owns_cluster",
    "spec",
    "stopped_by",
    "task_id",
    "created_at",
];

/// The number of columns before those of the task.
const OWN: usize = 14;

pub(crate) fn read(row: &Row) -> Result<Job, StoreError> {
    Ok(Job {
        id: row.parse(0)?,
        namespace: row.text(1)?,
        name: row.text(2)?,
        project: row.text(3)?,
        owner: Owner { scheme: row.text(4)?, id: row.text(5)?, name: row.text(6)? },
        instance: row.parse(7)?,
        cluster_id: row.parse(8)?,
        cluster_name: row.text(9)?,
        owns_cluster: row.bool(10)?,
        spec: row.json(11)?,
        stopped_by: row.opt_text(12)?,
        created_at: row.time(13)?,
        task: tasks::read_at(row, OWN)?,
    })
}

/// Inserts a job with its task.
pub(crate) async fn insert(tx: &mut Transaction<'_>, job: &Job) -> Result<(), StoreError> {
    const TAKEN: &str = "SELECT 1 FROM jobs WHERE namespace = $1 AND name = $2";
    let taken = || StoreError::JobNameTaken { name: job.name.clone(), namespace: job.namespace.clone() };
    if tx.row(TAKEN, args![&job.namespace, &job.name]).await?.is_some() {
        return Err(taken());
    }
    let row = args![
        job.id.to_string(),
        &job.namespace,
        &job.name,
        &job.project,
        &job.owner.scheme,
        &job.owner.id,
        &job.owner.name,
        job.instance.as_str(),
        job.cluster_id.to_string(),
        &job.cluster_name,
        job.owns_cluster,
        json(&job.spec),
        job.stopped_by.clone(),
        job.task.id.to_string(),
        job.created_at,
    ];
    match bulk::insert(tx, "jobs", WRITTEN, "", vec![row]).await {
        // Another replica took the name at the same moment; the unique index admits one.
        Err(StoreError::Duplicate(_)) => return Err(taken()),
        inserted => inserted.map(drop)?,
    }
    tasks::insert(tx, &job.task).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_the_task_stand_behind_those_of_the_job() {
        let of_task: Vec<String> = tasks::COLUMNS.iter().map(|column| format!("t.{column}")).collect();
        assert_eq!(COLUMNS[OWN..], of_task);
    }
}
