//! Reads of compute templates.

use muster_core::compute_template::ComputeTemplate;
use muster_core::ids::InstanceId;

use crate::error::StoreError;
use crate::keyset::{Cursor, Direction, Filter, Page, sort_keys};
use crate::paging::{Selection, listed};
use crate::rows::compute_templates;
use crate::store::Store;
use crate::value::args;

sort_keys! {
    /// The keys by which templates can be sorted.
    ComputeTemplateSort {
        /// By name.
        Name = text("name"),
        /// By namespace.
        Namespace = text("namespace"),
        /// By the time of creation.
        CreatedAt = number("created_at"),
    }
}

/// The query for a list of templates.
#[derive(Debug, Clone, Default)]
pub struct ComputeTemplateQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// In this namespace only.
    pub namespace: Option<String>,
    /// Only those whose record is a ConfigMap of this instance.
    pub instance: Option<InstanceId>,
    /// Only those whose name has this prefix.
    pub name_prefix: Option<String>,
    /// The order; ids break ties.
    pub sort: Vec<(ComputeTemplateSort, Direction)>,
    /// Only rows after this cursor.
    pub after: Option<Cursor>,
    /// The largest number of rows; `None` means all.
    pub limit: Option<u32>,
    /// True to count the rows of all pages.
    pub with_total: bool,
}

listed!(ComputeTemplate, ComputeTemplateSort, "compute_templates", "id", compute_templates);

impl Store {
    /// The template of this name in a namespace.
    pub async fn compute_template(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ComputeTemplate>, StoreError> {
        let columns = compute_templates::COLUMNS.join(", ");
        let sql = format!("SELECT {columns} FROM compute_templates WHERE id = $1");
        let id = compute_templates::id(namespace, name);
        let row = self.read(async |tx| tx.row(sql, args![id]).await).await?;
        row.as_ref().map(compute_templates::read).transpose()
    }

    /// The names of the clusters whose head or workers have the shape of a template, without clusters that are being
    /// deleted.
    pub async fn clusters_with_template(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Vec<String>, StoreError> {
        const USERS: &str = "SELECT c.name FROM clusters c WHERE c.namespace = $1 AND c.deleted_at IS NULL \
                             AND c.status <> 'DELETING' AND (c.spec LIKE $2 OR EXISTS \
                             (SELECT 1 FROM worker_groups g WHERE g.cluster_id = c.id AND g.spec LIKE $2) OR EXISTS \
                             (SELECT 1 FROM cluster_objects o WHERE o.cluster_id = c.id AND o.body LIKE $3)) \
                             ORDER BY c.name";
        // Names have no characters that are special in patterns or in JSON.
        let mention = format!("%\"computeTemplate\":\"{name}\"%");
        let annotated = format!("%\"ray.io/compute-template\":\"{name}\"%");
        let rows = self.read(async |tx| tx.rows(USERS, args![namespace, mention, annotated]).await).await?;
        rows.iter().map(|row| row.text(0)).collect()
    }

    /// A page of templates.
    pub async fn compute_templates(
        &self,
        query: &ComputeTemplateQuery,
    ) -> Result<Page<ComputeTemplate>, StoreError> {
        let mut filter = Filter::default();
        filter.any_of("project", query.project.iter());
        filter.any_of("namespace", query.namespace.iter());
        filter.any_of("instance", query.instance.iter().map(ToString::to_string));
        if let Some(prefix) = &query.name_prefix {
            filter.prefix("name", prefix);
        }
        let selection = Selection {
            after: query.after.as_ref(),
            with_total: query.with_total,
            ..Selection::new(&query.sort, None::<&str>, query.limit)
        };
        self.list(filter, selection).await
    }
}
