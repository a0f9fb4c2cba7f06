//! Finding what a request is about, as far as its caller may see it.

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_core::event::Event;
use muster_core::ids::{ActionId, ClusterId, EventId, NodeId, ProfileId, ReceiverId};
use muster_core::node::Node;
use muster_core::profile::Profile;
use muster_core::receiver::Receiver;
use muster_store::reads::{Found, Thing};
use uuid::Uuid;

use super::call::Call;
use super::senlin_error::SenlinError;

/// What kinds of things are called in messages.
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

fn at_most_one(given: &str, found: Found) -> Result<Option<Uuid>, SenlinError> {
    match found {
        Found::Nothing => Ok(None),
        Found::One(id) => Ok(Some(id)),
        Found::Several => Err(SenlinError::ambiguous(given)),
    }
}

impl Call {
    /// The id of what is meant; nothing if there is no such thing.
    pub(super) async fn identify(&self, thing: Thing, given: &str) -> Result<Option<Uuid>, SenlinError> {
        let found = self.service().store().identify(thing, self.scope()?, given).await?;
        at_most_one(given, found)
    }

    /// The same for many, in their order.
    pub(super) async fn identify_all(
        &self,
        thing: Thing,
        given: &[String],
    ) -> Result<Vec<Option<Uuid>>, SenlinError> {
        let texts: Vec<&str> = given.iter().map(String::as_str).collect();
        let found = self.service().store().identify_all(thing, self.scope()?, &texts).await?;
        texts.into_iter().zip(found).map(|(given, found)| at_most_one(given, found)).collect()
    }

    /// The id of what a path names.
    async fn id(&self, thing: Thing, given: &str) -> Result<Uuid, SenlinError> {
        self.identify(thing, given).await?.ok_or_else(|| SenlinError::missing(noun(thing), given))
    }

    /// The cluster that a path names.
    pub(super) async fn cluster(&self, given: &str) -> Result<Cluster, SenlinError> {
        let id = ClusterId::from_uuid(self.id(Thing::Cluster, given).await?);
        let cluster =
            self.service().store().cluster(id).await?.filter(|cluster| cluster.deleted_at.is_none());
        cluster.ok_or_else(|| SenlinError::missing("cluster", given))
    }

    /// The node that a path names.
    pub(super) async fn node(&self, given: &str) -> Result<Node, SenlinError> {
        let id = NodeId::from_uuid(self.id(Thing::Node, given).await?);
        self.service().store().node(id).await?.ok_or_else(|| SenlinError::missing("node", given))
    }

    /// The profile that a path names.
    pub(super) async fn profile(&self, given: &str) -> Result<Profile, SenlinError> {
        let id = ProfileId::from_uuid(self.id(Thing::Profile, given).await?);
        self.service().store().profile(id).await?.ok_or_else(|| SenlinError::missing("profile", given))
    }

    /// The profile that a body names.
    pub(super) async fn named_profile(&self, given: &str) -> Result<Profile, SenlinError> {
        let unknown = || SenlinError::unknown("profile", given);
        let id = self.identify(Thing::Profile, given).await?.ok_or_else(unknown)?;
        self.service().store().profile(ProfileId::from_uuid(id)).await?.ok_or_else(unknown)
    }

    /// The receiver that a path names.
    pub(super) async fn receiver(&self, given: &str) -> Result<Receiver, SenlinError> {
        let id = ReceiverId::from_uuid(self.id(Thing::Receiver, given).await?);
        self.service().store().receiver(id).await?.ok_or_else(|| SenlinError::missing("receiver", given))
    }

    /// The action that a path names.
    pub(super) async fn action(&self, given: &str) -> Result<Action, SenlinError> {
        let id = ActionId::from_uuid(self.id(Thing::Action, given).await?);
        self.service().store().action(id).await?.ok_or_else(|| SenlinError::missing("action", given))
    }

    /// The event that a path names.
    pub(super) async fn event(&self, given: &str) -> Result<Event, SenlinError> {
        let id = EventId::from_uuid(self.id(Thing::Event, given).await?);
        self.service().store().event(id).await?.ok_or_else(|| SenlinError::missing("event", given))
    }

    /// The clusters that a list is about: by id, also of one that is gone, by name, or by the beginning of an id.
    pub(super) async fn listed_clusters(&self) -> Result<Vec<String>, SenlinError> {
        let given = self.query.texts("cluster_id");
        let found = self.identify_all(Thing::Cluster, &given).await?;
        // What nobody knows belongs to nothing on the list.
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
