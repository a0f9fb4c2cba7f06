//! Image templates as rows, read together with the tasks that build them.

use muster_core::image_template::ImageTemplate;

use super::tasks;
use crate::bulk;
use crate::error::StoreError;
use crate::transaction::Transaction;
use crate::value::{Row, args, json};

/// The FROM clause for templates and their tasks.
pub(crate) const TABLE: &str = "image_templates i JOIN tasks t ON t.id = i.task_id";

/// The columns in the order of [`read`].
pub(crate) const COLUMNS: &[&str] = &[
    "i.id",
    "i.namespace",
    "i.name",
    "i.project",
    "i.user_id",
    "i.instance",
    "i.spec",
    "i.image",
    "i.created_at",
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

/// The columns of a template.
const WRITTEN: &[&str] =
    &["id", "namespace", "name", "project", "user_id", "instance", "spec", "image", "task_id", "created_at"];

/// The number of columns before those of the task.
const OWN: usize = 9;

pub(crate) fn read(row: &Row) -> Result<ImageTemplate, StoreError> {
    Ok(ImageTemplate {
        id: row.parse(0)?,
        namespace: row.text(1)?,
        name: row.text(2)?,
        project: row.text(3)?,
        user: row.text(4)?,
        instance: row.parse(5)?,
        spec: row.json(6)?,
        image: row.text(7)?,
        created_at: row.time(8)?,
        task: tasks::read_at(row, OWN)?,
    })
}

/// Inserts a template; false if its name is taken.
pub(crate) async fn insert(tx: &mut Transaction<'_>, template: &ImageTemplate) -> Result<bool, StoreError> {
    const TAKEN: &str = "SELECT 1 FROM image_templates WHERE namespace = $1 AND name = $2";
    if tx.row(TAKEN, args![&template.namespace, &template.name]).await?.is_some() {
        return Ok(false);
    }
    let row = args![
        template.id.to_string(),
        &template.namespace,
        &template.name,
        &template.project,
        &template.user,
        template.instance.as_str(),
        json(&template.spec),
        &template.image,
        template.task.id.to_string(),
        template.created_at,
    ];
    match bulk::insert(tx, "image_templates", WRITTEN, "", vec![row]).await {
        // Another replica took the name meanwhile: retry, and find it taken.
        Err(StoreError::Duplicate(why)) => Err(StoreError::Contended(why)),
        inserted => inserted.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_the_task_stand_behind_those_of_the_template() {
        let of_task: Vec<String> = tasks::COLUMNS.iter().map(|column| format!("t.{column}")).collect();
        assert_eq!(COLUMNS[OWN..], of_task);
    }
}
