//! Recognises clusters that were deleted together with their app before the app's driver deletes them.

use muster_proto::v1alpha2::{Cluster, Event, ListEventsRequest};

use super::{PAGE, find_by_id};
use crate::connect::Client;
use crate::failure::{Exit, Failure};

/// Reason of the event that a cluster was deleted together with its app.
const DELETED_WITH_APP: &str = "DeletedWithApp";

/// Returns true if the last cluster of this name was deleted together with the app that `--app` names.
pub(super) async fn was_deleted_with(
    client: &mut Client,
    namespace: &str,
    name: &str,
    app: &str,
) -> Result<bool, Failure> {
    let request = ListEventsRequest {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        sort_by: "-at".to_owned(),
        page_size: PAGE,
        ..ListEventsRequest::default()
    };
    let listed = client.retry(async |client| client.clusters().list_events(request.clone()).await).await;
    let events = match listed {
        Ok(listed) => listed.into_inner().events,
        Err(failure) if failure.exit == Exit::NotFound => return Ok(false),
        Err(failure) => return Err(failure),
    };
    let Some(id) = ended_with_app(&events) else { return Ok(false) };
    let Cluster { app: own, .. } = find_by_id(client, id).await?;
    Ok(refers_to(app, &own))
}

/// Returns the id of the latest cluster that was deleted with its app.
fn ended_with_app(events: &[Event]) -> Option<&str> {
    events.iter().find(|event| event.reason == DELETED_WITH_APP).map(|event| event.cluster_id.as_str())
}

/// Returns true if a given name refers to an app: its name, one of its pods, or the Deployment of its ReplicaSet.
fn refers_to(given: &str, app: &str) -> bool {
    let given = given.rsplit('/').next().unwrap_or(given);
    let rest = |name: &str, of: &str| Some(name.strip_prefix(of)?.strip_prefix('-')?.to_owned());
    let is_set_of_deployment = rest(app, given).is_some_and(|hash| !hash.is_empty() && !hash.contains('-'));
    !app.is_empty() && (given == app || rest(given, app).is_some() || is_set_of_deployment)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::itself("bob", "bob", true)]
    #[case::with_its_kind("StatefulSet/bob", "bob", true)]
    #[case::a_pod("bob-7f-x2z", "bob-7f", true)]
    #[case::the_deployment("deploy/bob", "bob-7f", true)]
    #[case::another("ann", "bob", false)]
    #[case::longer("bobby", "bob", false)]
    #[case::of_a_longer_deployment("bob", "bob-the-7f", false)]
    #[case::no_app("bob", "", false)]
    fn an_app_is_recognised_by_its_name_and_by_names_of_its_pods(
        #[case] given: &str,
        #[case] app: &str,
        #[case] expected: bool,
    ) {
        assert_eq!(refers_to(given, app), expected);
    }
}
