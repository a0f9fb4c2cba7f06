//! Finds the clusters and actions that requests name, with the errors for missing ones.

use std::str::FromStr;

use muster_core::action::Action;
use muster_core::cluster::Cluster;
use muster_core::ids::InvalidId;
use muster_core::string_enum::UnknownVariant;
use muster_service::find::{ClusterRef, FindError, IdentifyError};

use super::CoreApi;
use crate::access::Access;
use crate::error::ApiError;

/// Collects the fields by which a request names a cluster, whatever its message type.
macro_rules! named {
    ($request:expr) => {
        muster_service::find::ClusterRef {
            namespace: &$request.namespace,
            name: &$request.name,
            framework: &$request.framework,
            provider: &$request.provider,
            id: $crate::core_api::find::optional_id("id", &$request.id)?,
        }
    };
}

pub(super) use named;

/// Refuses a request that names no cluster; a gRPC message may be empty.
fn check_named(named: &ClusterRef<'_>) -> Result<(), ApiError> {
    let fields = [("name", named.name), ("namespace", named.namespace)];
    match fields.iter().find(|(_, given)| named.id.is_none() && given.is_empty()) {
        Some((field, _)) => Err(ApiError::invalid(format!(
            "{field} is empty: give the name and namespace of a cluster, or its id"
        ))),
        None => Ok(()),
    }
}

/// Converts the error of a search for a cluster.
fn not_found(named: &ClusterRef<'_>, error: FindError) -> ApiError {
    match error {
        FindError::Missing => {
            let message = match named.id {
                None => {
                    format!("no such cluster '{}' in namespace '{}'", named.name, named.namespace)
                }
                Some(id) => format!("no such cluster '{id}'"),
            };
            ApiError::not_found(message).code("ClusterNotFound")
        }
        FindError::Ambiguous(clusters) => {
            let which = |cluster: &Cluster| {
                let what =
                    cluster.framework.map_or_else(|| cluster.profile_type.to_string(), |f| f.to_string());
                format!("{what} on {}: {}", cluster.instance.provider(), cluster.id)
            };
            let ids: Vec<String> = clusters.iter().map(which).collect();
            ApiError::invalid(format!(
                "{} clusters are named '{}': choose one by framework, provider or id ({})",
                clusters.len(),
                named.name,
                ids.join(", ")
            ))
        }
        FindError::OtherCluster(cluster) => ApiError::invalid(format!(
            "id is that of '{}' in namespace '{}', and the request is about '{}' in '{}': say `-` there, or leave the id out",
            cluster.name, cluster.namespace, named.name, named.namespace
        )),
        FindError::Service(error) => error.into(),
    }
}

impl CoreApi {
    /// Finds the cluster that a request names, and checks that the caller has the permission of the method on it.
    pub(super) async fn find(&self, access: &Access, named: &ClusterRef<'_>) -> Result<Cluster, ApiError> {
        check_named(named)?;
        self.service.find_cluster(access, named).await.map_err(|error| not_found(named, error))
    }

    /// Finds a cluster like `find`; if no cluster has the name, the latest deleted cluster with that name.
    pub(super) async fn find_past(
        &self,
        access: &Access,
        named: &ClusterRef<'_>,
    ) -> Result<Cluster, ApiError> {
        check_named(named)?;
        self.service.find_past_cluster(access, named).await.map_err(|error| not_found(named, error))
    }

    /// Finds an action by its id or by a unique prefix of it, and checks the permission of the caller.
    pub(super) async fn find_action(&self, access: &Access, given: &str) -> Result<Action, ApiError> {
        let missing =
            || ApiError::not_found(format!("action '{given}' could not be found")).code("ActionNotFound");
        let found = self.service.identify_action(access, given).await.map_err(|error| match error {
            IdentifyError::Ambiguous(_) => ApiError::invalid(format!(
                "the ids of several actions begin with '{given}': give more characters of the id"
            )),
            IdentifyError::Service(error) => error.into(),
        })?;
        found.ok_or_else(missing)
    }
}

/// Parses the value of a field that is an enumeration.
pub(super) fn variant<T: FromStr<Err = UnknownVariant>>(field: &str, given: &str) -> Result<T, ApiError> {
    given.parse().map_err(|error: UnknownVariant| ApiError::invalid(format!("{field}: {error}")))
}

/// Reads an optional text; empty means none.
pub(super) fn optional(given: &str) -> Option<String> {
    (!given.is_empty()).then(|| given.to_owned())
}

/// Reads an optional value of an enumeration; empty means none.
pub(super) fn optional_variant<T: FromStr<Err = UnknownVariant>>(
    field: &str,
    given: &str,
) -> Result<Option<T>, ApiError> {
    (!given.is_empty()).then(|| variant(field, given)).transpose()
}

/// Reads an optional id; empty means none.
pub(super) fn optional_id<T: FromStr<Err = InvalidId>>(
    field: &str,
    given: &str,
) -> Result<Option<T>, ApiError> {
    let parse = || given.parse().map_err(|error| ApiError::invalid(format!("{field}: {error}")));
    (!given.is_empty()).then(parse).transpose()
}

#[cfg(test)]
mod tests {
    use muster_core::ids::ClusterId;
    use rstest::rstest;
    use uuid::Uuid;

    use super::*;

    #[rstest]
    #[case::named("fred", "demo", false, None)]
    #[case::by_id("", "", true, None)]
    #[case::empty("", "", false, Some("name is empty"))]
    #[case::no_name("", "demo", false, Some("name is empty"))]
    #[case::no_namespace("fred", "", false, Some("namespace is empty"))]
    fn a_request_has_to_name_a_cluster(
        #[case] name: &str,
        #[case] namespace: &str,
        #[case] has_id: bool,
        #[case] refusal: Option<&str>,
    ) {
        let id = has_id.then(|| ClusterId::from_uuid(Uuid::from_u128(7)));
        let checked = check_named(&ClusterRef { namespace, name, framework: "", provider: "", id });
        match (checked, refusal) {
            (Ok(()), None) => {}
            (Err(refused), Some(why)) => {
                assert!(refused.message.starts_with(why), "{refused}");
                assert_eq!(tonic::Status::from(refused).code(), tonic::Code::InvalidArgument);
            }
            (checked, _) => panic!("{checked:?}"),
        }
    }
}
