//! Creates, changes and deletes profiles: plain writes without an action. Lists the profile types that this server
//! serves.

use muster_core::event::Event;
use muster_core::ids::ProfileId;
use muster_core::principal::Principal;
use muster_core::profile::{Profile, ProfileType};
use muster_core::profile_types::{self, TypeInfo};
use muster_core::spec::{Envelope, SpecError};
use muster_engine::new_id;
use muster_store::commands::{DeleteProfile, InsertProfile, UpdateProfile};
use serde_json::{Map, Value};

use crate::access::Access;
use crate::error::ServiceError;
use crate::find::IdentifyError;
use crate::lists::ProfileQuery;
use crate::service::Service;
use crate::write_event::{Object, Writer, Written};

/// The reason why a profile is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The specification does not name a type and a version.
    #[error(transparent)]
    Envelope(SpecError),
    /// No provider of this server creates nodes of this type.
    #[error("profile type {0} not found")]
    UnknownType(String),
    /// The properties do not fit the type, or the provider cannot use them.
    #[error("{0}")]
    Properties(String),
    /// The caller may not use this specification.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<SpecError> for ProfileError {
    fn from(error: SpecError) -> Self {
        Self::Properties(error.to_string())
    }
}

impl Service {
    /// The profile types that a provider of this server creates nodes of.
    pub fn profile_types(&self) -> impl Iterator<Item = &'static TypeInfo> {
        profile_types::TYPES.iter().filter(|info| self.serves_type(info))
    }

    fn profile_type(&self, name: &str, version: &str) -> Option<&'static TypeInfo> {
        profile_types::find(name, version).filter(|info| self.serves_type(info))
    }

    fn serves_type(&self, info: &TypeInfo) -> bool {
        let kind = ProfileType::new(info.name, info.version);
        let provider = |id| self.engine.provider(id);
        self.engine
            .instances()
            .iter()
            .filter_map(provider)
            .any(|provider| provider.capabilities(&kind, None).is_some())
    }

    /// The stored profile with this id or, if there is none, with this name; none if neither exists. Profiles of single
    /// clusters have no name of their own.
    pub async fn stored_profile(
        &self,
        access: &Access,
        given: &str,
    ) -> Result<Option<Profile>, ServiceError> {
        if given.parse::<ProfileId>().is_ok() {
            return match self.identify_profile(access, given).await {
                Ok(found) => Ok(found),
                Err(IdentifyError::Service(error)) => Err(error),
                Err(error @ IdentifyError::Ambiguous(_)) => Err(ServiceError::invalid(error.to_string())),
            };
        }
        let named = ProfileQuery { names: vec![given.to_owned()], ..ProfileQuery::default() };
        let mut found = self.list(&access.visible(named)).await?;
        found.retain(|profile| !profile.implicit);
        if found.len() > 1 {
            let ids: Vec<String> = found.iter().map(|profile| profile.id.to_string()).collect();
            return Err(ServiceError::invalid(format!(
                "{} profiles are named '{given}': use one of the ids {}",
                ids.len(),
                ids.join(", ")
            )));
        }
        Ok(found.pop())
    }

    /// Builds a profile from a specification. Nothing is stored.
    pub async fn build_profile(
        &self,
        principal: &Principal,
        name: &str,
        spec: &Value,
    ) -> Result<Profile, ProfileError> {
        let envelope = Envelope::read(spec).map_err(ProfileError::Envelope)?;
        let info = self
            .profile_type(&envelope.name, &envelope.version)
            .ok_or_else(|| ProfileError::UnknownType(envelope.kind()))?;
        let mut properties = envelope.properties()?.clone();
        info.schema.validate(&properties)?;
        self.check_recipe_namespace(principal, &properties)?;
        let kind = ProfileType::new(info.name, info.version);
        let namespace = self.recipe_namespace(&principal.project, &properties)?;
        self.resolve_names(&kind, &namespace, &mut properties).await?;
        let mut envelope = envelope.whole().clone();
        envelope.retain(|key, _| key != "properties");
        let profile = Profile {
            id: ProfileId::from_uuid(new_id()),
            name: name.to_owned(),
            kind,
            project: principal.project.clone(),
            user: principal.id.clone(),
            properties,
            envelope,
            metadata: Map::new(),
            implicit: false,
            created_at: self.now(),
            updated_at: None,
        };
        self.check_profile(&profile).map_err(ProfileError::Properties)?;
        Ok(profile)
    }

    /// Refuses a profile that the first provider of its type cannot create nodes from.
    fn check_profile(&self, profile: &Profile) -> Result<(), String> {
        let instances = self.engine.instances();
        let checked = instances.iter().filter_map(|id| self.engine.provider(id)).find_map(|provider| {
            provider.capabilities(&profile.kind, None).map(|_| provider.check_profile(profile))
        });
        checked.unwrap_or(Ok(()))
    }

    /// Stores a new profile.
    pub async fn create_profile(&self, writer: &Writer, profile: Profile) -> Result<(), ServiceError> {
        let events = vec![self.profile_event(writer, Written::Created, &profile)];
        Ok(self.store().insert_profile(InsertProfile { profile, events }).await?)
    }

    /// Changes the name or the metadata of a profile; its specification cannot be changed.
    pub async fn update_profile(
        &self,
        writer: &Writer,
        profile: Profile,
        name: Option<String>,
        metadata: Option<Map<String, Value>>,
    ) -> Result<Profile, ServiceError> {
        let now = self.now();
        let name = name.unwrap_or(profile.name);
        let metadata = metadata.unwrap_or(profile.metadata);
        let updated = Profile { name, metadata, updated_at: Some(now), ..profile };
        let Profile { id, name, metadata, .. } = updated.clone();
        let events = vec![self.profile_event(writer, Written::Updated, &updated)];
        self.store().update_profile(UpdateProfile { id, name, metadata, now, events }).await?;
        Ok(updated)
    }

    /// Deletes a profile; returns false if a cluster or node uses it.
    pub async fn delete_profile(&self, writer: &Writer, profile: &Profile) -> Result<bool, ServiceError> {
        let events = vec![self.profile_event(writer, Written::Deleted, profile)];
        Ok(self.store().delete_profile(DeleteProfile { id: profile.id, events }).await?)
    }

    fn profile_event(&self, writer: &Writer, written: Written, profile: &Profile) -> Event {
        let Profile { id, name, project, .. } = profile;
        self.write_event(writer, written, &Object { kind: "Profile", id: id.to_string(), name, project })
    }
}
