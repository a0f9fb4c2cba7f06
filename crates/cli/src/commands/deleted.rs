//! Explains why a cluster no longer exists.

use muster_core::time::Timestamp;
use muster_engine::ports::clock::{Clock as _, SystemClock};
use muster_proto::v1alpha2::{Event, ListEventsRequest};

use super::{AmongFlags, find_by_id};
use crate::connect::Client;
use crate::failure::{Exit, Failure};
use crate::output::message;
use crate::table;

/// Number of latest events among which the deletion is looked for.
const LATEST: i32 = 50;

/// The kind of object of the events about a cluster itself.
const CLUSTER: &str = "CLUSTER";

/// The reason of a deletion by another program.
const ELSEWHERE: &str = "DeletedElsewhere";

/// The suffix that the engine adds to its reasons for a deletion.
const DELETED: &str = ": it is deleted";

/// Returns true for the last event of a cluster.
pub(super) fn is_deletion(event: &Event) -> bool {
    let is_end = event.reason == "CLUSTER_DELETE" && event.phase == "end";
    event.object_kind == CLUSTER && (is_end || event.reason == ELSEWHERE)
}

/// Reports the deletion of a cluster that a command followed.
pub(super) fn report(name: &str) {
    message!("cluster '{name}' was deleted");
}

/// Returns the failure; if a cluster of this name was deleted, with when and why.
pub(super) async fn explain(
    client: &mut Client,
    namespace: &str,
    name: &str,
    among: &AmongFlags,
    missing: Failure,
) -> Failure {
    let (framework, provider) = among.request_fields();
    let request = ListEventsRequest {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        framework,
        provider,
        sort_by: "-at".to_owned(),
        page_size: LATEST,
        ..ListEventsRequest::default()
    };
    let call = async |client: &Client| client.clusters().list_events(request.clone()).await;
    let Ok(answer) = client.retry(call).await else { return missing };
    let mut events = answer.into_inner().events;
    let cluster = events.first().map(|event| event.cluster_id.clone()).unwrap_or_default();
    if let Ok(cluster) = find_by_id(client, &cluster).await
        && let Some(owner) = cluster.owner
    {
        // Events have ids of users, which are numbers for local users: show the owner's name instead.
        for event in events.iter_mut().filter(|event| event.user == owner.id) {
            event.user.clone_from(&owner.name);
        }
    }
    match deletion(&events, SystemClock.now()) {
        Some(what) => Failure::new(Exit::NotFound, format!("no such cluster '{name}': it {what}"))
            .hint(format!("`muster events {name}` shows what happened; `muster logs {name}` has its logs")),
        None => missing,
    }
}

/// Describes the deletion by a cluster's events, newest first: when, and why or by whom.
fn deletion(events: &[Event], now: Timestamp) -> Option<String> {
    let of_cluster = |event: &&Event| event.object_kind == CLUSTER;
    let end = events.iter().find(|event| is_deletion(event))?;
    let ago = table::age(end.at, now);
    let limit = events.iter().filter(of_cluster).find(|event| {
        matches!(event.reason.as_str(), "IdleTimeout" | "LifetimeOver") && !event.message.is_empty()
    });
    Some(match limit {
        Some(limit) => {
            let why = limit.message.strip_suffix(DELETED).unwrap_or(&limit.message);
            format!("was deleted {ago} ago: {why}")
        }
        None if end.reason == ELSEWHERE => format!("was deleted {ago} ago by another program"),
        None => format!("was deleted {ago} ago by {}", end.user),
    })
}

#[cfg(test)]
mod tests {
    use muster_proto::wkt;
    use rstest::rstest;

    use super::*;

    fn event(reason: &str, phase: &str, message: &str) -> Event {
        Event {
            at: Some(wkt::Timestamp { seconds: 95, nanos: 0 }),
            object_kind: "CLUSTER".to_owned(),
            reason: reason.to_owned(),
            phase: phase.to_owned(),
            message: message.to_owned(),
            user: "bob".to_owned(),
            ..Event::default()
        }
    }

    #[rstest]
    #[case(&[], None)]
    #[case(&[("CLUSTER_DELETE", "start", "")], None)]
    #[case(&[("CLUSTER_DELETE", "end", "")], Some("was deleted 5s ago by bob"))]
    #[case(&[("DeletedElsewhere", "", "")], Some("was deleted 5s ago by another program"))]
    #[case(
        &[("CLUSTER_DELETE", "end", ""), ("IdleTimeout", "", "it was idle for 8s: it is deleted")],
        Some("was deleted 5s ago: it was idle for 8s")
    )]
    fn a_deletion_has_its_time_and_its_reason(
        #[case] events: &[(&str, &str, &str)],
        #[case] expected: Option<&str>,
    ) {
        let events: Vec<Event> =
            events.iter().map(|(reason, phase, message)| event(reason, phase, message)).collect();
        assert_eq!(deletion(&events, Timestamp::from_micros(100_000_000)).as_deref(), expected);
    }
}
