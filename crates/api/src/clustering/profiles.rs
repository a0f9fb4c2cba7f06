//! Profiles: the recipes that nodes are made from.

use http::StatusCode;
use muster_core::ids::ProfileId;
use muster_core::profile::{Profile, ProfileType};
use muster_core::spec::{Envelope, SpecError};
use muster_service::new_id;
use muster_store::commands::{DeleteProfile, InsertProfile, UpdateProfile};
use muster_store::reads::{ProfileQuery, ProfileSort};
use serde_json::{Map, Value};

use super::call::Call;
use super::field_reader::FieldReader;
use super::query::keys;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::show;

const SORTS: [(&str, ProfileSort); 4] = [
    ("type", ProfileSort::Kind),
    ("name", ProfileSort::Name),
    ("created_at", ProfileSort::CreatedAt),
    ("updated_at", ProfileSort::UpdatedAt),
];

pub(super) async fn list(call: &Call) -> Result<Reply, SenlinError> {
    let query = &call.query;
    query.only(&keys(&["name", "type"]), false)?;
    let wanted = ProfileQuery {
        limit: query.limit()?,
        marker: query.marker()?,
        sort: query.sort(&SORTS, ProfileSort::CreatedAt)?,
        project: call.listed_project()?,
        names: query.texts("name"),
        kinds: query.texts("type"),
    };
    let page = call.service().store().profiles(&wanted).await?;
    Ok(Reply::of("profiles", page.items.iter().map(show::profile).collect::<Vec<_>>()))
}

pub(super) async fn show(call: &Call) -> Result<Reply, SenlinError> {
    Ok(Reply::of("profile", show::profile(&call.profile(call.path(0)).await?)))
}

pub(super) async fn create(call: &Call) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.new_object("profile")?);
    let name = form.name("name")?.unwrap_or_default();
    let spec = form.map("spec")?;
    let metadata = form.map("metadata")?.unwrap_or_default();
    form.require("name").require("spec").done()?;
    let spec = Value::Object(spec.unwrap_or_default());
    let profile = new(call, name, &spec)
        .map_err(|wrong| wrong.error(|text| format!("Failed in creating profile {name}: {text}")))?;
    let profile = Profile { metadata, ..profile };
    call.service().store().insert_profile(InsertProfile { profile: profile.clone() }).await?;
    Ok(Reply::of("profile", show::profile(&profile)).status(StatusCode::CREATED))
}

pub(super) fn validate(call: &Call) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.new_object("profile")?);
    let spec = form.map("spec")?;
    form.require("spec").done()?;
    let spec = Value::Object(spec.unwrap_or_default());
    let profile = new(call, "validated_profile", &spec).map_err(|wrong| wrong.error(str::to_owned))?;
    let mut shown = show::profile(&profile);
    shown["id"] = Value::Null;
    Ok(Reply::of("profile", shown))
}

/// What is wrong with a specification.
enum Wrong {
    /// What it says of its type, or the type itself.
    Envelope(SenlinError),
    /// Its properties.
    Properties(String),
}

impl Wrong {
    fn error(self, text: impl Fn(&str) -> String) -> SenlinError {
        match self {
            Self::Envelope(error) => error,
            Self::Properties(why) => SenlinError::spec(text(&why)),
        }
    }
}

impl From<SpecError> for Wrong {
    fn from(error: SpecError) -> Self {
        Self::Properties(error.to_string())
    }
}

/// Makes a profile from a specification; stores nothing.
fn new(call: &Call, name: &str, spec: &Value) -> Result<Profile, Wrong> {
    let envelope =
        Envelope::read(spec).map_err(|error| Wrong::Envelope(SenlinError::spec(error.to_string())))?;
    let info = call
        .find_type(&envelope.name, &envelope.version)
        .ok_or_else(|| Wrong::Envelope(SenlinError::missing("profile_type", &envelope.kind())))?;
    let properties = envelope.properties()?;
    info.schema.validate(properties)?;
    let principal = call.principal().map_err(Wrong::Envelope)?;
    call.service()
        .check_recipe_namespace(principal, properties)
        .map_err(|error| Wrong::Envelope(error.into()))?;
    let profile = Profile {
        id: ProfileId::from_uuid(new_id()),
        name: name.to_owned(),
        kind: ProfileType::new(info.name, info.version),
        project: principal.project.clone(),
        user: principal.id.clone(),
        properties: properties.clone(),
        envelope: envelope.whole().iter().filter(|(key, _)| *key != "properties").map(pair).collect(),
        metadata: Map::new(),
        implicit: false,
        created_at: call.service().now(),
        updated_at: None,
    };
    call.service().check_profile(&profile).map_err(Wrong::Properties)?;
    Ok(profile)
}

fn pair((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}

pub(super) async fn update(call: &Call) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.changed_object("profile")?);
    let name = form.name("name")?;
    let metadata = form.map("metadata")?;
    form.done()?;
    let mut profile = call.profile(call.path(0)).await?;
    if name.is_none() && metadata.is_none() {
        return Err(SenlinError::bad("No property needs an update"));
    }
    let now = call.service().now();
    profile.name = name.map_or(profile.name, str::to_owned);
    profile.metadata = metadata.unwrap_or(profile.metadata);
    profile.updated_at = Some(now);
    let (id, name, metadata) = (profile.id, profile.name.clone(), profile.metadata.clone());
    call.service().store().update_profile(UpdateProfile { id, name, metadata, now }).await?;
    Ok(Reply::of("profile", show::profile(&profile)))
}

pub(super) async fn delete(call: &Call) -> Result<Reply, SenlinError> {
    let id = call.profile(call.path(0)).await?.id;
    if call.service().store().delete_profile(DeleteProfile { id }).await? {
        return Ok(Reply::empty(StatusCode::NO_CONTENT));
    }
    Err(SenlinError::conflict(
        "ResourceInUse",
        format!("The profile '{id}' cannot be deleted: still referenced by some clusters and/or nodes."),
    ))
}
