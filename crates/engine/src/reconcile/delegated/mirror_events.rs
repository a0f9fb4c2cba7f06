//! Events for what an observation of a delegated cluster shows beside its rows.

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_core::event::{Event, Level};
use muster_core::ids::EventId;
use muster_core::node::Node;
use muster_core::time::Timestamp;
use serde_json::Map;

use crate::events::{self, reason};
use crate::ports::provider::{ExternalEvent, Object, Observed};
use crate::reconcile::delegated::mirror::Told;

/// Treats an object with another identity as absent: another object of the same name is another cluster.
pub(crate) fn identified(cluster: &Cluster, mut seen: Observed) -> Observed {
    if let (Some(known), Object::Present(spec)) = (&cluster.observed.object, &seen.object)
        && *known != spec.identity
    {
        seen.object = Object::Absent;
        seen.members.clear();
    }
    seen
}

/// Events that follow from an observation.
pub(crate) fn tell(
    action: Option<&Action>,
    cluster: &Cluster,
    told: Vec<Told>,
    now: Timestamp,
) -> Vec<Event> {
    let event = |told| match told {
        Told::ChangedElsewhere(what) => {
            events::of_cluster(action, cluster, Level::Info, reason::CHANGED_ELSEWHERE, &what, now)
        }
        Told::Lost(node) => {
            events::of_node(action, &node, Level::Warn, reason::NODE_LOST, &node.status_reason, now)
        }
        Told::External(heard, node) => hearsay(cluster, &heard, node.as_deref()),
    };
    told.into_iter().map(event).collect()
}

/// An external event as a Muster event: under its own id, so that it is recorded once.
fn hearsay(cluster: &Cluster, heard: &ExternalEvent, node: Option<&Node>) -> Event {
    let level = if heard.is_warning { Level::Warn } else { Level::Info };
    let (reason, message) = (&heard.reason, &heard.message);
    let event = match node {
        Some(node) => events::of_node(None, node, level, reason, message, heard.at),
        None => events::of_cluster(None, cluster, level, reason, message, heard.at),
    };
    let data = Map::from_iter([("object".to_owned(), format!("{}/{}", heard.kind, heard.object).into())]);
    Event { id: EventId::from_uuid(heard.id), data, ..event }
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use rstest::rstest;

    use super::*;
    use crate::ports::provider::Spec;

    #[rstest]
    #[case::never_seen(None, true)]
    #[case::the_same(Some("one"), true)]
    #[case::another_of_the_same_name(Some("two"), false)]
    fn only_the_object_that_the_row_knows_counts(#[case] known: Option<&str>, #[case] present: bool) {
        let mut cluster = sample::cluster(1, 0, None);
        cluster.observed.object = known.map(str::to_owned);
        let object = Object::Present(Spec { identity: "one".to_owned(), ..Spec::default() });
        let seen = identified(&cluster, Observed { object, ..Observed::default() });
        assert_eq!(matches!(seen.object, Object::Present(_)), present, "{seen:?}");
    }
}
