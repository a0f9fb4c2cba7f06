//! Resolves the profile that a new cluster names.

use muster_core::profile::Profile;
use muster_proto::v1alpha2 as wire;
use serde_json::{Map, Value};

use super::create::profile_type;
use super::{CoreApi, find::optional};
use crate::access::Access;
use crate::error::ApiError;

/// Says if the names in the properties of a new cluster's profile have to be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProfileNames {
    /// The request gives the properties.
    Given,
    /// A stored profile gives the properties. Its names were resolved when it was created.
    Resolved,
}

impl CoreApi {
    /// Replaces the id or name of a stored profile by its type and properties. A text that is neither is a type.
    pub(super) async fn resolve_profile(
        &self,
        access: &Access,
        namespace: &str,
        given: &mut wire::Cluster,
    ) -> Result<ProfileNames, ApiError> {
        if given.profile.is_empty() {
            return Ok(ProfileNames::Given);
        }
        match self.service.stored_profile(access, &given.profile).await? {
            Some(profile) => apply(profile, namespace, given).map(|()| ProfileNames::Resolved),
            None => Ok(ProfileNames::Given),
        }
    }

    /// Replaces the names in the properties of a new cluster's profile by what they stand for.
    pub(super) async fn resolve_properties(
        &self,
        namespace: &str,
        given: &mut wire::Cluster,
    ) -> Result<(), ApiError> {
        let (kind, _) = profile_type(given)?;
        let Some(properties) = given.profile_properties.take() else { return Ok(()) };
        let mut properties = Map::from(properties);
        self.service.resolve_names(&kind, namespace, &mut properties).await?;
        given.profile_properties = Some(properties.into());
        Ok(())
    }
}

/// Fills a request with a stored profile.
fn apply(profile: Profile, namespace: &str, given: &mut wire::Cluster) -> Result<(), ApiError> {
    let named = &given.profile;
    if given.profile_properties.is_some() {
        return Err(ApiError::invalid(format!(
            "profile_properties is given with profile '{named}', which is stored: leave one of them out"
        )));
    }
    let property =
        |key: &str| profile.properties.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let of_profile = property("namespace");
    if !of_profile.is_empty() && of_profile != namespace {
        return Err(ApiError::invalid(format!(
            "namespace is '{namespace}', and profile '{named}' is for '{of_profile}': use another one of them"
        )));
    }
    for (field, key) in [(&mut given.provider, "provider"), (&mut given.flavor, "flavor")] {
        if let Some(value) = optional(&property(key)).filter(|_| field.is_empty()) {
            *field = value;
        }
    }
    given.profile = profile.kind.to_string();
    given.profile_properties = (!profile.properties.is_empty()).then(|| profile.properties.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn stored(properties: &Value) -> Profile {
        Profile {
            kind: "ray.cluster-1.0".parse().expect("a type"),
            properties: properties.as_object().cloned().expect("a map"),
            ..sample::profile()
        }
    }

    fn named() -> wire::Cluster {
        wire::Cluster { profile: "p".to_owned(), ..wire::Cluster::default() }
    }

    #[test]
    fn a_stored_profile_gives_its_type_properties_and_place() {
        let properties = json!({"provider": "local", "namespace": "demo", "worker": {"cpu": "2"}});
        let mut given = named();
        apply(stored(&properties), "demo", &mut given).expect("applied");
        let shown = (given.profile.as_str(), given.provider.as_str(), given.flavor.as_str());
        assert_eq!(shown, ("ray.cluster-1.0", "local", ""));
        assert_eq!(given.profile_properties.map(Map::from), properties.as_object().cloned());
        let mut given = wire::Cluster { provider: "kubernetes".to_owned(), ..named() };
        apply(stored(&properties), "demo", &mut given).expect("applied");
        assert_eq!(given.provider, "kubernetes");
    }

    #[rstest]
    #[case::properties("demo", true, "profile_properties is given with profile 'p', which is stored")]
    #[case::namespace("other", false, "namespace is 'other', and profile 'p' is for 'demo'")]
    fn what_contradicts_a_stored_profile_is_refused(
        #[case] namespace: &str,
        #[case] with_properties: bool,
        #[case] expected: &str,
    ) {
        let profile_properties = with_properties.then(|| Map::new().into());
        let mut given = wire::Cluster { profile_properties, ..named() };
        let refused = apply(stored(&json!({"namespace": "demo"})), namespace, &mut given).unwrap_err();
        assert!(refused.message.starts_with(expected), "{refused}");
    }
}
