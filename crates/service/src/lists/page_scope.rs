//! The scope of a page token: a text that identifies the list that the token belongs to.
//!
//! Fields are written out one by one, so that tokens survive changes of Muster's types, and a new field of a query
//! does not compile before this module decides if it makes another list.

use std::fmt::Display;

use super::{
    ActionQuery, AppQuery, ClusterQuery, ComputeTemplateQuery, Deleted, EventQuery, ImageTemplateQuery,
    JobQuery, NodeQuery,
};

/// The version of the format; it has to change when the same text would mean another list.
const VERSION: &str = "1";

/// The text that identifies a list.
pub(crate) struct PageScope(String);

impl PageScope {
    fn new(list: &str, sort_by: &str) -> Self {
        Self(format!("{VERSION} {list}")).with("sort_by", [sort_by])
    }

    /// Appends values of a field. Each value is prefixed with its length, so that no value can be mistaken for
    /// another field.
    fn with(mut self, name: &str, values: impl IntoIterator<Item = impl Display>) -> Self {
        for value in values {
            let value = value.to_string();
            self.0.extend([" ", name, "=", &value.len().to_string(), ":", &value]);
        }
        self
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }

    pub(crate) fn clusters(query: &ClusterQuery, sort_by: &str) -> Self {
        let ClusterQuery {
            project,
            instance,
            namespace,
            names,
            name_prefix,
            statuses,
            framework,
            owner,
            user,
            labels,
            managed_by,
            unless_stored_as,
            deleted,
            sort: _,
            after: _,
            marker: _,
            limit: _,
            with_total: _,
        } = query;
        let deleted = match deleted {
            Deleted::Exclude => "exclude",
            Deleted::Only => "only",
            Deleted::Include => "include",
        };
        Self::new("clusters", sort_by)
            .with("project", project)
            .with("instance", instance)
            .with("namespace", namespace)
            .with("name", names)
            .with("name_prefix", name_prefix)
            .with("state", statuses)
            .with("framework", framework)
            .with("owner", owner.iter().map(|(scheme, id)| format!("{scheme}:{id}")))
            .with("user", user)
            .with("label", labels.iter().map(|(key, value)| format!("{key}={value}")))
            .with("managed_by", managed_by)
            .with("unless_stored_as", unless_stored_as)
            .with("deleted", [deleted])
    }

    pub(crate) fn nodes(query: &NodeQuery, sort_by: &str) -> Self {
        let NodeQuery {
            project,
            cluster,
            group,
            role,
            names,
            statuses,
            sort: _,
            after: _,
            marker: _,
            limit: _,
            with_total: _,
        } = query;
        Self::new("nodes", sort_by)
            .with("project", project)
            .with("cluster", cluster)
            .with("group", group)
            .with("role", role)
            .with("name", names)
            .with("state", statuses)
    }

    pub(crate) fn events(query: &EventQuery, sort_by: &str) -> Self {
        let EventQuery {
            project,
            cluster,
            action,
            clusters,
            objects,
            object_kinds,
            object_names,
            levels,
            reasons,
            sort: _,
            after: _,
            marker: _,
            limit: _,
            with_total: _,
        } = query;
        Self::new("events", sort_by)
            .with("project", project)
            .with("cluster", cluster)
            .with("action", action)
            .with("any_cluster", clusters)
            .with("object", objects)
            .with("object_kind", object_kinds)
            .with("object_name", object_names)
            .with("level", levels)
            .with("reason", reasons)
    }

    pub(crate) fn compute_templates(query: &ComputeTemplateQuery, sort_by: &str) -> Self {
        let ComputeTemplateQuery {
            project,
            namespace,
            instance,
            name_prefix,
            sort: _,
            after: _,
            limit: _,
            with_total: _,
        } = query;
        Self::new("compute_templates", sort_by)
            .with("project", project)
            .with("namespace", namespace)
            .with("instance", instance)
            .with("name_prefix", name_prefix)
    }

    pub(crate) fn apps(query: &AppQuery, sort_by: &str) -> Self {
        let AppQuery {
            project,
            namespace,
            instance,
            ids,
            cluster,
            with_uses,
            open,
            sort: _,
            after: _,
            limit: _,
            with_total: _,
        } = query;
        Self::new("apps", sort_by)
            .with("project", project)
            .with("namespace", namespace)
            .with("instance", instance)
            .with("ids", ids)
            .with("cluster", cluster)
            .with("with_uses", [with_uses])
            .with("open", [open])
    }

    pub(crate) fn image_templates(query: &ImageTemplateQuery, sort_by: &str) -> Self {
        let ImageTemplateQuery {
            project,
            namespace,
            name_prefix,
            sort: _,
            after: _,
            limit: _,
            with_total: _,
        } = query;
        Self::new("image_templates", sort_by)
            .with("project", project)
            .with("namespace", namespace)
            .with("name_prefix", name_prefix)
    }

    pub(crate) fn jobs(query: &JobQuery, sort_by: &str) -> Self {
        let JobQuery {
            project,
            namespace,
            cluster,
            name_prefix,
            open,
            sort: _,
            after: _,
            limit: _,
            with_total: _,
        } = query;
        Self::new("jobs", sort_by)
            .with("project", project)
            .with("namespace", namespace)
            .with("cluster", cluster)
            .with("name_prefix", name_prefix)
            .with("open", [open])
    }

    pub(crate) fn actions(query: &ActionQuery, sort_by: &str) -> Self {
        let ActionQuery {
            project,
            namespace,
            cluster,
            clusters,
            targets,
            names,
            node,
            parent,
            user,
            top_level,
            kinds,
            statuses,
            // Only the clustering API sets this field, and it has no page tokens.
            parents_wait: _,
            sort: _,
            after: _,
            marker: _,
            limit: _,
            with_total: _,
        } = query;
        Self::new("actions", sort_by)
            .with("project", project)
            .with("namespace", namespace)
            .with("cluster", cluster)
            .with("any_cluster", clusters)
            .with("target", targets)
            .with("name", names)
            .with("node", node)
            .with("parent", parent)
            .with("user", user)
            .with("top_level", [top_level])
            .with("action", kinds)
            .with("state", statuses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scope_of_a_list_stays_as_it_is() {
        let query = ClusterQuery {
            project: Some("p".to_owned()),
            name_prefix: Some("a".to_owned()),
            labels: vec![("k".to_owned(), "v".to_owned())],
            limit: Some(5),
            with_total: true,
            ..ClusterQuery::default()
        };
        let scope = "1 clusters sort_by=5:-name project=1:p name_prefix=1:a label=3:k=v deleted=7:exclude";
        assert_eq!(PageScope::clusters(&query, "-name").0, scope);
    }

    #[test]
    fn no_value_passes_for_another_field() {
        let user = |user: &str| {
            PageScope::actions(&ActionQuery { user: Some(user.to_owned()), ..ActionQuery::default() }, "").0
        };
        let honest = ActionQuery {
            user: Some("a".to_owned()),
            node: None,
            namespace: Some("b".to_owned()),
            ..ActionQuery::default()
        };
        assert_ne!(user("a namespace=1:b"), PageScope::actions(&honest, "").0);
    }
}
