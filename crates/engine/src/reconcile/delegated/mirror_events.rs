//! Events that follow from an observation of a delegated cluster.

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_core::event::{Event, ExternalRecord, Level};
use muster_core::ids::EventId;
use muster_core::node::Node;
use muster_core::time::Timestamp;
use serde_json::Map;

use crate::events::{self, reason};
use crate::ports::provider::{ExternalEvent, ObjectState, Observed};
use crate::reconcile::delegated::mirror::ObservationEvent;

/// Treats an object with another identity as absent: another object of the same name is another cluster.
pub(crate) fn ignore_other_objects(cluster: &Cluster, mut observed: Observed) -> Observed {
    if let (Some(known), ObjectState::Present(spec)) = (&cluster.observed.object, &observed.object)
        && *known != spec.identity
    {
        observed.object = ObjectState::Absent;
        observed.members.clear();
    }
    observed
}

/// Converts the findings of an observation into events of a cluster.
pub(crate) fn to_events(
    action: Option<&Action>,
    cluster: &Cluster,
    events: Vec<ObservationEvent>,
    now: Timestamp,
) -> Vec<Event> {
    let event = |events| match events {
        ObservationEvent::ChangedElsewhere(what) => {
            events::of_cluster(action, cluster, Level::Info, reason::CHANGED_ELSEWHERE, &what, now)
        }
        ObservationEvent::Lost(node) => {
            events::of_node(action, &node, Level::Warn, reason::NODE_LOST, &node.status_reason, now)
        }
        ObservationEvent::External(external, node) => external_event(cluster, &external, node.as_deref()),
    };
    events.into_iter().map(event).collect()
}

/// Converts an external event; it keeps its id, so that it is recorded once.
fn external_event(cluster: &Cluster, external: &ExternalEvent, node: Option<&Node>) -> Event {
    let level = if external.is_warning { Level::Warn } else { Level::Info };
    let (reason, message) = (&external.reason, &external.message);
    let event = match node {
        Some(node) => events::of_node(None, node, level, reason, message, external.at),
        None => events::of_cluster(None, cluster, level, reason, message, external.at),
    };
    let record = serde_json::to_value(&external.record).unwrap_or_default();
    let data = Map::from_iter([
        ("object".to_owned(), format!("{}/{}", external.kind, external.object).into()),
        (ExternalRecord::KEY.to_owned(), record),
    ]);
    Event { id: EventId::from_uuid(external.id), data, ..event }
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use rstest::rstest;

    use super::*;
    use crate::ports::provider::ObjectSpec;

    #[rstest]
    #[case::never_seen(None, true)]
    #[case::the_same(Some("one"), true)]
    #[case::another_of_the_same_name(Some("two"), false)]
    fn only_the_object_that_the_row_knows_counts(#[case] known: Option<&str>, #[case] present: bool) {
        let mut cluster = sample::cluster(1, 0, None);
        cluster.observed.object = known.map(str::to_owned);
        let object = ObjectState::Present(ObjectSpec { identity: "one".to_owned(), ..ObjectSpec::default() });
        let observed = ignore_other_objects(&cluster, Observed { object, ..Observed::default() });
        assert_eq!(matches!(observed.object, ObjectState::Present(_)), present, "{observed:?}");
    }
}
