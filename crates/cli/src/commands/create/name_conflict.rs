//! Explains why a name is in use already.

use muster_proto::v1alpha2::{Cluster, CreateClusterRequest};

use crate::commands::{AmongFlags, find, is_incomplete};
use crate::connect::Client;
use crate::failure::{Exit, Failure};

/// Returns true if a creation failed because its name is in use already.
pub(super) fn is_taken(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Failure>().is_some_and(|failure| failure.is_taken)
}

/// Returns the error of a creation; if an incomplete cluster has the name, an error with its state.
pub(super) async fn explain(
    client: &mut Client,
    request: &CreateClusterRequest,
    error: anyhow::Error,
) -> anyhow::Error {
    if !is_taken(&error) {
        return error;
    }
    let name = request.cluster.as_ref().map(|cluster| cluster.name.as_str()).unwrap_or_default();
    // If the cluster cannot be read, the original error is as good as it gets.
    match find(client, &request.namespace, name, &AmongFlags::default()).await {
        Ok(present) => incomplete_error(&present).map_or(error, Into::into),
        Err(_) => error,
    }
}

/// Builds the error for a name that an incomplete cluster has.
fn incomplete_error(present: &Cluster) -> Option<Failure> {
    let Cluster { name, state, status_reason, .. } = present;
    if !is_incomplete(state) {
        return None;
    }
    let why = if status_reason.is_empty() { String::new() } else { format!(": {status_reason}") };
    let failure = Failure::new(Exit::Refused, format!("cluster '{name}' already exists (incomplete)"));
    let remedy = if state == "DELETING" {
        format!("wait with `muster wait {name} --for deleted`, or choose another name")
    } else {
        "choose another name, or delete it first".to_owned()
    };
    Some(failure.hint(format!("it is {state}{why}; {remedy}")))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("CREATING", true)]
    #[case("ERROR", true)]
    #[case("ACTIVE", false)]
    #[case("SUSPENDED", false)]
    fn a_name_that_an_incomplete_cluster_has_is_refused_with_its_state(
        #[case] state: &str,
        #[case] expected: bool,
    ) {
        let present = Cluster { name: "fred".to_owned(), state: state.to_owned(), ..Cluster::default() };
        let refused = incomplete_error(&present).map(|failure| (failure.exit, failure.to_string()));
        let text = format!(
            "cluster 'fred' already exists (incomplete)\nhint: it is {state}; choose another name, or delete it first"
        );
        assert_eq!(refused, expected.then_some((Exit::Refused, text)));
    }
}
