//! Finds the objects that requests name, with the errors for missing ones.

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::ids::ClusterId;
use muster_core::node::Node;
use muster_core::policy::Policy;
use muster_core::profile::Profile;
use muster_core::receiver::Receiver;
use muster_service::lists::ListQuery;

use super::call::ClusteringCall;
use super::senlin_error::SenlinError;

/// Returns the object, or the error for an object that a path names and that does not exist.
fn present<T>(noun: &str, given: &str, found: Option<T>) -> Result<T, SenlinError> {
    found.ok_or_else(|| SenlinError::missing(noun, given))
}

impl ClusteringCall {
    /// The cluster that a body or a filter names, even if it is deleted; none if none has that name or id.
    pub(super) async fn named_cluster(&self, given: &str) -> Result<Option<Cluster>, SenlinError> {
        Ok(self.service().identify_cluster(self.access()?, given).await?)
    }

    /// The cluster that a path names.
    pub(super) async fn cluster(&self, given: &str) -> Result<Cluster, SenlinError> {
        let found = self.service().identify_cluster(self.access()?, given).await?;
        present("cluster", given, found.filter(|cluster| cluster.deleted_at.is_none()))
    }

    /// The node that a path names.
    pub(super) async fn node(&self, given: &str) -> Result<Node, SenlinError> {
        present("node", given, self.service().identify_node(self.access()?, given).await?)
    }

    /// The profile that a path names.
    pub(super) async fn profile(&self, given: &str) -> Result<Profile, SenlinError> {
        present("profile", given, self.service().identify_profile(self.access()?, given).await?)
    }

    /// The profile that a body names.
    pub(super) async fn named_profile(&self, given: &str) -> Result<Profile, SenlinError> {
        let found = self.service().identify_profile(self.access()?, given).await?;
        found.ok_or_else(|| SenlinError::unknown("profile", given))
    }

    /// The policy that a path names.
    pub(super) async fn policy(&self, given: &str) -> Result<Policy, SenlinError> {
        present("policy", given, self.service().identify_policy(self.access()?, given).await?)
    }

    /// The policy that a body names.
    pub(super) async fn named_policy(&self, given: &str) -> Result<Policy, SenlinError> {
        let found = self.service().identify_policy(self.access()?, given).await?;
        found.ok_or_else(|| SenlinError::unknown("policy", given))
    }

    /// The receiver that a path names.
    pub(super) async fn receiver(&self, given: &str) -> Result<Receiver, SenlinError> {
        present("receiver", given, self.service().identify_receiver(self.access()?, given).await?)
    }

    /// The action that a path names.
    pub(super) async fn action(&self, given: &str) -> Result<Action, SenlinError> {
        present("action", given, self.service().identify_action(self.access()?, given).await?)
    }

    /// The event that a path names.
    pub(super) async fn event(&self, given: &str) -> Result<Event, SenlinError> {
        present("event", given, self.service().identify_event(self.access()?, given).await?)
    }

    /// The ids of the clusters that a list is limited to. The query may give an id, also of a deleted cluster, a name,
    /// or a prefix of an id.
    pub(super) async fn listed_clusters(&self) -> Result<Vec<String>, SenlinError> {
        let given = self.query.texts("cluster_id");
        let found = self.service().identify_clusters(self.access()?, &given).await?;
        // A text that identifies no cluster is used unchanged; it matches no object, so the list is empty.
        let id = |(given, found): (String, Option<ClusterId>)| found.map_or(given, |id| id.to_string());
        Ok(given.into_iter().zip(found).map(id).collect())
    }

    /// Lists the objects that a query selects in the caller's own project, or in all projects if an admin requests it.
    pub(super) async fn list<Q: ListQuery>(&self, query: Q) -> Result<Vec<Q::Item>, SenlinError> {
        let all_projects = self.query.boolean("global_project")? == Some(true);
        let query = self.access()?.in_project(query, all_projects).map_err(|_| SenlinError::forbidden())?;
        Ok(self.service().list(&query).await?)
    }
}
