//! Reads of policies and their bindings.

use std::collections::HashMap;

use muster_core::ids::{ClusterId, InstanceId, PolicyId};
use muster_core::policy::{Binding, Policy};

use crate::error::StoreError;
use crate::keyset::{Direction, Filter, SortColumn, order_by, sort_keys};
use crate::paging::{Selection, listed};
use crate::rows::policies;
use crate::store::Store;
use crate::value::args;

sort_keys! {
    /// The keys by which policies can be sorted.
    PolicySort {
        /// By type and version.
        Type = text("p.type"),
        /// By name.
        Name = text("p.name"),
        /// By the time of creation.
        CreatedAt = number("p.created_at"),
        /// By the time of the last change.
        UpdatedAt = number("coalesce(p.updated_at, -1)"),
    }
}

/// The query for a list of policies.
#[derive(Debug, Clone, Default)]
pub struct PolicyQuery {
    /// Of this project only.
    pub project: Option<String>,
    /// With one of these names.
    pub names: Vec<String>,
    /// Of one of these types and versions.
    pub types: Vec<String>,
    /// The order; ids break ties.
    pub sort: Vec<(PolicySort, Direction)>,
    /// Only rows after the row of this id; ignored if no such row exists.
    pub marker: Option<PolicyId>,
    /// The largest number of rows; `None` means all.
    pub limit: Option<u32>,
}

/// The query for the bindings of a cluster.
#[derive(Debug, Clone, Default)]
pub struct BindingQuery {
    /// Only enabled bindings, or only disabled ones.
    pub enabled: Option<bool>,
    /// Of policies with one of these names.
    pub policy_names: Vec<String>,
    /// Of policies of one of these types and versions.
    pub policy_types: Vec<String>,
    /// The order by `enabled`, before the order by id.
    pub by_enabled: Option<Direction>,
}

listed!(Policy, PolicySort, "policies p", "p.id", policies);

impl Store {
    /// The policy of this id.
    pub async fn policy(&self, id: PolicyId) -> Result<Option<Policy>, StoreError> {
        let found =
            self.read(async |tx| policies::fetch(tx, "WHERE p.id = $1", args![id.to_string()]).await).await?;
        Ok(found.into_iter().next())
    }

    /// The policies that a query selects.
    pub async fn policies(&self, query: &PolicyQuery) -> Result<Vec<Policy>, StoreError> {
        let mut filter = Filter::default();
        filter.any_of("p.project", query.project.as_deref());
        filter.any_of("p.name", query.names.iter());
        filter.any_of("p.type", query.types.iter());
        let selection = Selection::new(&query.sort, query.marker.as_ref(), query.limit);
        Ok(self.list(filter, selection).await?.items)
    }

    /// The bindings of a cluster, in the order in which the policies are evaluated.
    pub async fn bindings(&self, cluster: ClusterId) -> Result<Vec<Binding>, StoreError> {
        const REST: &str = "WHERE b.cluster_id = $1 ORDER BY b.priority, b.id";
        self.read(async |tx| policies::fetch_bindings(tx, REST, args![cluster.to_string()]).await).await
    }

    /// The bindings of a cluster that a query selects.
    pub async fn list_bindings(
        &self,
        cluster: ClusterId,
        query: &BindingQuery,
    ) -> Result<Vec<Binding>, StoreError> {
        const ENABLED: SortColumn = SortColumn { expression: "b.enabled", is_text: false };
        let mut filter = Filter::default();
        filter.any_of("b.cluster_id", [cluster.to_string()]);
        filter.any_of("b.enabled", query.enabled);
        filter.any_of("p.name", query.policy_names.iter());
        filter.any_of("p.type", query.policy_types.iter());
        let sort: Vec<_> = query.by_enabled.map(|direction| (ENABLED, direction)).into_iter().collect();
        let rest = format!("{} {}", filter.to_where(), order_by(&sort, "b.id"));
        self.read(async |tx| policies::fetch_bindings(tx, &rest, filter.arguments).await).await
    }

    /// The enabled bindings of health policies by cluster, of an instance or among some clusters.
    pub async fn health_bindings(
        &self,
        instance: Option<&InstanceId>,
        among: Option<&[ClusterId]>,
    ) -> Result<HashMap<ClusterId, Binding>, StoreError> {
        let mut filter = Filter::default();
        filter
            .add("b.enabled = 1 AND p.type >= 'senlin.policy.health-' AND p.type < 'senlin.policy.health.'");
        if let Some(instance) = instance {
            let place = filter.place(instance.as_str());
            filter.add(format!("(SELECT c.instance FROM clusters c WHERE c.id = b.cluster_id) = {place}"));
        }
        filter.any_of_ids(self.dialect(), "b.cluster_id", among.unwrap_or_default());
        let rest = format!("{} ORDER BY b.id", filter.to_where());
        let found = self.read(async |tx| policies::fetch_bindings(tx, &rest, filter.arguments).await).await?;
        Ok(found.into_iter().map(|binding| (binding.cluster_id, binding)).collect())
    }

    /// The binding of a policy to a cluster, if any.
    pub async fn binding(&self, cluster: ClusterId, policy: PolicyId) -> Result<Option<Binding>, StoreError> {
        const REST: &str = "WHERE b.cluster_id = $1 AND b.policy_id = $2";
        let these = args![cluster.to_string(), policy.to_string()];
        Ok(self.read(async |tx| policies::fetch_bindings(tx, REST, these).await).await?.into_iter().next())
    }
}
