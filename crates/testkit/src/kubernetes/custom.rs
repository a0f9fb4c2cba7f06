//! Clean-up of custom resources of any kind.

use anyhow::Result;
use futures::future::try_join_all;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt as _};

/// Deletes all custom resources in a namespace and waits until they are gone: finalizers of their operators may hold
/// them.
pub(super) async fn delete(client: &Client, namespace: &str) -> Result<()> {
    let mut objects = Vec::new();
    for kind in kinds(client).await? {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
        for object in api.list_metadata(&ListParams::default()).await? {
            match api.delete(&object.name_any(), &DeleteParams::background()).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                deleted => {
                    deleted?;
                    objects.push((api.clone(), object));
                }
            }
        }
    }
    try_join_all(objects.iter().map(|(api, object)| {
        let uid = object.uid().unwrap_or_default();
        async move { await_condition(api.clone(), &object.name_any(), conditions::is_deleted(&uid)).await }
    }))
    .await?;
    Ok(())
}

/// The kinds of custom resources that live in namespaces.
async fn kinds(client: &Client) -> Result<Vec<ApiResource>> {
    let mut kinds = Vec::new();
    for group in client.list_api_groups().await?.groups.into_iter().filter(|group| is_custom(&group.name)) {
        let Some(version) = group.preferred_version.or_else(|| group.versions.into_iter().next()) else {
            continue;
        };
        for resource in client.list_api_group_resources(&version.group_version).await?.resources {
            let is_object = resource.namespaced && !resource.name.contains('/');
            if is_object && resource.verbs.iter().any(|verb| verb == "delete") {
                let kind = GroupVersionKind::gvk(&group.name, &version.version, &resource.kind);
                kinds.push(ApiResource::from_gvk_with_plural(&kind, &resource.name));
            }
        }
    }
    Ok(kinds)
}

/// Returns true for groups of custom resources: the names of Kubernetes' own groups have no dot, or end in `k8s.io`.
fn is_custom(group: &str) -> bool {
    group.contains('.') && !group.ends_with("k8s.io")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("ray.io", true)]
    #[case("apps", false)]
    #[case("rbac.authorization.k8s.io", false)]
    fn a_custom_group_is_known_by_its_name(#[case] group: &str, #[case] expected: bool) {
        assert_eq!(is_custom(group), expected);
    }
}
