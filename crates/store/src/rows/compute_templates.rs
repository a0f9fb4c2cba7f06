//! Compute templates as rows.

use std::sync::LazyLock;

use muster_core::compute_template::ComputeTemplate;

use crate::bulk;
use crate::error::StoreError;
use crate::transaction::Transaction;
use crate::value::{Row, Value, args, json};

/// All columns, in the order of [`read`].
pub(crate) const COLUMNS: &[&str] =
    &["id", "namespace", "name", "project", "instance", "uid", "spec", "created_at"];

/// The columns that are replaced by a new template of the same name.
const CHANGING: &[&str] = &["project", "instance", "uid", "spec", "created_at"];

pub(crate) fn read(row: &Row) -> Result<ComputeTemplate, StoreError> {
    Ok(ComputeTemplate {
        namespace: row.text(1)?,
        name: row.text(2)?,
        project: row.text(3)?,
        instance: row.opt_parse(4)?,
        uid: row.text(5)?,
        spec: row.json(6)?,
        created_at: row.time(7)?,
    })
}

/// The id of a row.
pub(crate) fn id(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// Replaces only rows of templates whose records are `ConfigMap` objects.
static REPLACE: LazyLock<String> = LazyLock::new(|| {
    let update = bulk::update_on_conflict("id", CHANGING);
    format!("{update} WHERE compute_templates.instance IS NOT NULL")
});

/// Inserts a template; false if its name is taken.
pub(crate) async fn insert(tx: &mut Transaction<'_>, template: &ComputeTemplate) -> Result<bool, StoreError> {
    let conflict = if template.instance.is_some() { &REPLACE } else { "ON CONFLICT (id) DO NOTHING" };
    let sql = format!(
        "INSERT INTO compute_templates ({}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) {conflict}",
        COLUMNS.join(", ")
    );
    Ok(tx.execute(sql, values(template)).await? > 0)
}

/// Inserts or replaces templates whose records are `ConfigMap` objects.
pub(crate) async fn put(tx: &mut Transaction<'_>, templates: &[ComputeTemplate]) -> Result<(), StoreError> {
    let rows = templates.iter().map(values).collect();
    bulk::insert(tx, "compute_templates", COLUMNS, &REPLACE, rows).await
}

fn values(template: &ComputeTemplate) -> Vec<Value> {
    let ComputeTemplate { namespace, name, project, instance, uid, spec, created_at } = template;
    args![
        id(namespace, name),
        namespace,
        name,
        project,
        instance.as_ref().map(ToString::to_string),
        uid,
        json(spec),
        *created_at,
    ]
}
