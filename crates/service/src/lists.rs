//! Lists of objects, limited to those that the caller may see.
//!
//! Every list of every API passes through [`Authorized`], so that a query that was not limited to a project or a
//! cluster cannot be run.

mod page_scope;
mod pages;

use muster_core::action::Action;
use muster_core::app::App;
use muster_core::cluster::Cluster;
use muster_core::compute_template::ComputeTemplate;
use muster_core::event::Event;
use muster_core::ids::ClusterId;
use muster_core::image_template::ImageTemplate;
use muster_core::job::Job;
use muster_core::node::Node;
use muster_core::policy::{Binding, Policy};
use muster_core::profile::Profile;
use muster_core::receiver::Receiver;
use muster_store::{Store, StoreError};

pub use muster_store::reads::{
    ActionQuery, ActionSort, AppQuery, AppSort, BindingQuery, ClusterQuery, ClusterSort,
    ComputeTemplateQuery, ComputeTemplateSort, Deleted, EventQuery, EventSort, ImageTemplateQuery,
    ImageTemplateSort, JobQuery, JobSort, NodeQuery, NodeSort, PolicyQuery, PolicySort, ProfileQuery,
    ProfileSort, ReceiverQuery, ReceiverSort, StoredObject,
};
pub use muster_store::{Direction, Page};
pub(crate) use page_scope::PageScope;
pub use pages::{PageRequest, PageWithToken, PagedQuery};

use crate::access::Access;
use crate::authorize::Denied;
use crate::error::ServiceError;
use crate::service::Service;

/// The largest number of objects on one page, which is also the largest number of rows that one query reads.
pub const LONGEST_PAGE: u32 = 1_000;

/// The size of a page: the requested one, limited to the largest, which is the default of APIs without lists of all
/// objects.
pub fn page_length(asked: Option<u32>) -> u32 {
    asked.map_or(LONGEST_PAGE, |asked| asked.min(LONGEST_PAGE))
}

/// A query for a list of one kind of object.
pub trait ListQuery: Send + Sync {
    /// The kind of object.
    type Item: Send;

    /// Limits the list to a project; none removes the limit.
    fn limit_to_project(&mut self, project: Option<&str>);

    /// Runs the query.
    fn read(&self, store: &Store) -> impl Future<Output = Result<Page<Self::Item>, StoreError>> + Send;
}

/// A query for objects that belong to clusters.
pub trait ClusterObjectQuery: ListQuery {
    /// Limits the list to the objects of one cluster.
    fn limit_to_cluster(&mut self, cluster: ClusterId);
}

macro_rules! list_queries {
    ($($query:ident, $read:ident -> $item:ident;)+) => {
        $(
            impl ListQuery for $query {
                type Item = $item;

                fn limit_to_project(&mut self, project: Option<&str>) {
                    self.project = project.map(str::to_owned);
                }

                async fn read(&self, store: &Store) -> Result<Page<$item>, StoreError> {
                    store.$read(self).await
                }
            }
        )+
    };
}

list_queries! {
    AppQuery, apps -> App;
    ClusterQuery, clusters -> Cluster;
    NodeQuery, nodes -> Node;
    ActionQuery, actions -> Action;
    EventQuery, events -> Event;
    ProfileQuery, profiles -> Profile;
    ReceiverQuery, receivers -> Receiver;
    ComputeTemplateQuery, compute_templates -> ComputeTemplate;
    ImageTemplateQuery, image_templates -> ImageTemplate;
    JobQuery, jobs -> Job;
}

impl ListQuery for PolicyQuery {
    type Item = Policy;

    fn limit_to_project(&mut self, project: Option<&str>) {
        self.project = project.map(str::to_owned);
    }

    async fn read(&self, store: &Store) -> Result<Page<Policy>, StoreError> {
        let items = store.policies(self).await?;
        Ok(Page { items, next: None, total: None })
    }
}

macro_rules! cluster_object_queries {
    ($($query:ident),+) => {
        $(
            impl ClusterObjectQuery for $query {
                fn limit_to_cluster(&mut self, cluster: ClusterId) {
                    self.cluster = Some(cluster);
                }
            }
        )+
    };
}

cluster_object_queries!(NodeQuery, ActionQuery, EventQuery);

/// A query that is limited to objects that its caller may see.
#[derive(Debug, Clone)]
pub struct Authorized<Q>(Q);

impl<Q: ClusterObjectQuery> Authorized<Q> {
    /// A query for the objects of a cluster. Finding the cluster has authorized the caller, whatever project the
    /// objects have.
    pub fn of_cluster(cluster: &Cluster, mut query: Q) -> Self {
        query.limit_to_cluster(cluster.id);
        Self(query)
    }
}

impl<Q> Authorized<Q> {
    pub(crate) fn into_query(self) -> Q {
        self.0
    }
}

impl Access {
    /// Limits a query to the projects that the caller may see.
    pub fn visible<Q: ListQuery>(&self, mut query: Q) -> Authorized<Q> {
        query.limit_to_project(self.scope());
        Authorized(query)
    }

    /// Limits a query to the caller's own project, or to all projects, which only admins may list.
    pub fn in_project<Q: ListQuery>(
        &self,
        mut query: Q,
        all_projects: bool,
    ) -> Result<Authorized<Q>, Denied> {
        query.limit_to_project(self.list_scope(all_projects)?);
        Ok(Authorized(query))
    }
}

impl Access {
    /// Limits a query to the clusters that the caller owns; admins get all clusters.
    pub fn owned(&self, query: ClusterQuery) -> Authorized<ClusterQuery> {
        let principal = self.principal();
        let owner = (!principal.is_admin()).then(|| (principal.scheme.clone(), principal.id.clone()));
        Authorized(ClusterQuery { project: None, owner, ..query })
    }
}

impl Service {
    /// The objects that a query selects, up to the limit of the query.
    pub async fn list<Q: ListQuery>(&self, query: &Authorized<Q>) -> Result<Vec<Q::Item>, ServiceError> {
        Ok(self.read_page(query).await?.items)
    }

    async fn read_page<Q: ListQuery>(&self, query: &Authorized<Q>) -> Result<Page<Q::Item>, ServiceError> {
        Ok(query.0.read(self.store()).await?)
    }

    /// The stored objects of those clusters of a flavor that a query selects.
    pub async fn stored_objects(
        &self,
        query: &Authorized<ClusterQuery>,
        flavor: &str,
    ) -> Result<Vec<StoredObject>, ServiceError> {
        Ok(self.store().stored_objects(&query.0, flavor).await?)
    }

    /// The policies that are bound to a cluster.
    pub async fn list_bindings(
        &self,
        cluster: &Cluster,
        query: &BindingQuery,
    ) -> Result<Vec<Binding>, ServiceError> {
        Ok(self.store().list_bindings(cluster.id, query).await?)
    }
}
