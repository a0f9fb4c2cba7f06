//! Reads of image templates and of the logs of their builds.

use muster_core::ids::TaskId;
use muster_core::image_template::ImageTemplate;
use muster_core::recipe::stored_images;
use serde_json::{Map, Value};

use crate::error::StoreError;
use crate::keyset::{Cursor, Direction, Filter, Page, sort_keys};
use crate::paging::{Selection, listed};
use crate::rows::image_templates;
use crate::store::Store;
use crate::value::args;

sort_keys! {
    /// The keys by which image templates can be sorted.
    ImageTemplateSort {
        /// By name.
        Name = text("i.name"),
        /// By the time of creation.
        CreatedAt = number("i.created_at"),
    }
}

/// The query for a list of image templates.
#[derive(Debug, Clone, Default)]
pub struct ImageTemplateQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// In this namespace only.
    pub namespace: Option<String>,
    /// Only those whose name has this prefix.
    pub name_prefix: Option<String>,
    /// The order; ids break ties.
    pub sort: Vec<(ImageTemplateSort, Direction)>,
    /// Only rows after this cursor.
    pub after: Option<Cursor>,
    /// The largest number of rows; `None` means all.
    pub limit: Option<u32>,
    /// True to count the rows of all pages.
    pub with_total: bool,
}

listed!(ImageTemplate, ImageTemplateSort, image_templates::TABLE, "i.id", image_templates);

impl Store {
    /// The image template of this name in a namespace.
    pub async fn image_template(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ImageTemplate>, StoreError> {
        let (columns, table) = (image_templates::COLUMNS.join(", "), image_templates::TABLE);
        let sql = format!("SELECT {columns} FROM {table} WHERE i.namespace = $1 AND i.name = $2");
        let row = self.read(async |tx| tx.row(sql, args![namespace, name]).await).await?;
        row.as_ref().map(image_templates::read).transpose()
    }

    /// The log of a task; empty if there is no such task.
    pub async fn task_log(&self, task: TaskId) -> Result<String, StoreError> {
        const LOG: &str = "SELECT log FROM tasks WHERE id = $1";
        let row = self.read(async |tx| tx.row(LOG, args![task.to_string()]).await).await?;
        row.map_or_else(|| Ok(String::new()), |row| row.text(0))
    }

    /// The names of the clusters whose nodes have the image of a template, without those that are being deleted.
    pub async fn clusters_with_image(&self, namespace: &str, name: &str) -> Result<Vec<String>, StoreError> {
        const USERS: &str = "SELECT c.name, c.spec FROM clusters c WHERE c.namespace = $1 AND c.deleted_at IS NULL \
                             AND c.status <> 'DELETING' AND c.spec LIKE $2 ORDER BY c.name";
        // Names have no characters that are special in patterns or in JSON.
        let mention = format!("%\"{name}\":%");
        let rows = self.read(async |tx| tx.rows(USERS, args![namespace, mention]).await).await?;
        let mut users = Vec::new();
        for row in &rows {
            let spec: Map<String, Value> = row.map(1)?;
            if stored_images(&spec).contains_key(name) {
                users.push(row.text(0)?);
            }
        }
        Ok(users)
    }

    /// Returns true if a template or a cluster has this image.
    pub async fn is_image_used(&self, image: &str) -> Result<bool, StoreError> {
        const TEMPLATE: &str = "SELECT 1 FROM image_templates WHERE image = $1 LIMIT 1";
        const CLUSTER: &str = "SELECT 1 FROM clusters WHERE deleted_at IS NULL AND spec LIKE $1 LIMIT 1";
        let escaped = serde_json::to_string(image).unwrap_or_default().replace(['%', '_'], "_");
        let of_cluster = format!("%{escaped}%");
        self.read(async |tx| {
            Ok(tx.row(TEMPLATE, args![image]).await?.is_some()
                || tx.row(CLUSTER, args![of_cluster]).await?.is_some())
        })
        .await
    }

    /// A page of image templates.
    pub async fn image_templates(
        &self,
        query: &ImageTemplateQuery,
    ) -> Result<Page<ImageTemplate>, StoreError> {
        let mut filter = Filter::default();
        filter.any_of("i.project", query.project.iter());
        filter.any_of("i.namespace", query.namespace.iter());
        if let Some(prefix) = &query.name_prefix {
            filter.prefix("i.name", prefix);
        }
        let selection = Selection {
            after: query.after.as_ref(),
            with_total: query.with_total,
            ..Selection::new(&query.sort, None::<&str>, query.limit)
        };
        self.list(filter, selection).await
    }
}
