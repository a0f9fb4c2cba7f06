//! How requests name objects, and the errors for those that are not found.

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::node::Node;
use muster_core::policy::Policy;
use muster_core::profile::Profile;
use muster_core::receiver::Receiver;
use muster_store::reads::Thing;
use uuid::Uuid;

use super::call::Call;
use super::senlin_error::SenlinError;

/// The noun for a kind of object in messages.
const fn noun(thing: Thing) -> &'static str {
    match thing {
        Thing::Cluster => "cluster",
        Thing::Node => "node",
        Thing::Profile => "profile",
        Thing::Policy => "policy",
        Thing::Receiver => "receiver",
        Thing::Action => "action",
        Thing::Event => "event",
    }
}

/// The object, or the error for one that a path names and that does not exist.
fn present<T>(thing: Thing, given: &str, found: Option<T>) -> Result<T, SenlinError> {
    found.ok_or_else(|| SenlinError::missing(noun(thing), given))
}

impl Call {
    /// The id of the object that a text means; none if there is none.
    pub(super) async fn identify(&self, thing: Thing, given: &str) -> Result<Option<Uuid>, SenlinError> {
        Ok(self.service().identify(self.access()?, thing, given).await?)
    }

    /// The same for many, in their order.
    pub(super) async fn identify_all(
        &self,
        thing: Thing,
        given: &[String],
    ) -> Result<Vec<Option<Uuid>>, SenlinError> {
        Ok(self.service().identify_all(self.access()?, thing, given).await?)
    }

    /// The cluster that a path names.
    pub(super) async fn cluster(&self, given: &str) -> Result<Cluster, SenlinError> {
        let found = self.service().identify_cluster(self.access()?, given).await?;
        present(Thing::Cluster, given, found.filter(|cluster| cluster.deleted_at.is_none()))
    }

    /// The node that a path names.
    pub(super) async fn node(&self, given: &str) -> Result<Node, SenlinError> {
        present(Thing::Node, given, self.service().identify_node(self.access()?, given).await?)
    }

    /// The profile that a path names.
    pub(super) async fn profile(&self, given: &str) -> Result<Profile, SenlinError> {
        present(Thing::Profile, given, self.service().identify_profile(self.access()?, given).await?)
    }

    /// The profile that a body names.
    pub(super) async fn named_profile(&self, given: &str) -> Result<Profile, SenlinError> {
        let found = self.service().identify_profile(self.access()?, given).await?;
        found.ok_or_else(|| SenlinError::unknown("profile", given))
    }

    /// The policy that a path names.
    pub(super) async fn policy(&self, given: &str) -> Result<Policy, SenlinError> {
        present(Thing::Policy, given, self.service().identify_policy(self.access()?, given).await?)
    }

    /// The policy that a body names.
    pub(super) async fn named_policy(&self, given: &str) -> Result<Policy, SenlinError> {
        let found = self.service().identify_policy(self.access()?, given).await?;
        found.ok_or_else(|| SenlinError::unknown("policy", given))
    }

    /// The receiver that a path names.
    pub(super) async fn receiver(&self, given: &str) -> Result<Receiver, SenlinError> {
        present(Thing::Receiver, given, self.service().identify_receiver(self.access()?, given).await?)
    }

    /// The action that a path names.
    pub(super) async fn action(&self, given: &str) -> Result<Action, SenlinError> {
        present(Thing::Action, given, self.service().identify_action(self.access()?, given).await?)
    }

    /// The event that a path names.
    pub(super) async fn event(&self, given: &str) -> Result<Event, SenlinError> {
        present(Thing::Event, given, self.service().identify_event(self.access()?, given).await?)
    }

    /// The clusters that a list is about: by id, also of one that is gone, by name, or by the beginning of an id.
    pub(super) async fn listed_clusters(&self) -> Result<Vec<String>, SenlinError> {
        let given = self.query.texts("cluster_id");
        let found = self.identify_all(Thing::Cluster, &given).await?;
        // A text that means no cluster stays as it is: nothing on the list belongs to it.
        let id = |(given, found): (String, Option<Uuid>)| found.map_or(given, |id| id.to_string());
        Ok(given.into_iter().zip(found).map(id).collect())
    }

    /// The project that a list is about; none is all. Only admins see beyond their own, and only if they ask.
    pub(super) fn listed_project(&self) -> Result<Option<String>, SenlinError> {
        let all = self.query.truth("global_project")? == Some(true);
        let project = self.access()?.list_scope(all).map_err(|_| SenlinError::forbidden())?;
        Ok(project.map(str::to_owned))
    }
}
