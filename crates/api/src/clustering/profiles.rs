//! Profiles: the specifications that nodes are created from.

use http::StatusCode;
use muster_core::profile::Profile;
use muster_service::lists::{ProfileQuery, ProfileSort};
use muster_service::profiles::ProfileError;
use serde_json::Value;

use super::call::ClusteringCall;
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

pub(super) async fn list(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let query = &call.query;
    query.only(&keys(&["name", "type"]), false)?;
    let wanted = ProfileQuery {
        limit: Some(query.limit()?),
        marker: query.marker()?,
        sort: query.sort(&SORTS, ProfileSort::CreatedAt)?,
        project: None,
        names: query.texts("name"),
        kinds: query.texts("type"),
    };
    let profiles = call.list(wanted).await?;
    Ok(Reply::of("profiles", profiles.iter().map(show::profile).collect::<Vec<_>>()))
}

pub(super) async fn show(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    Ok(Reply::of("profile", show::profile(&call.profile(call.path(0)).await?)))
}

pub(super) async fn create(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.new_object("profile")?);
    let name = form.name("name")?.unwrap_or_default();
    let spec = form.map("spec")?;
    let metadata = form.map("metadata")?.unwrap_or_default();
    form.require("name").require("spec").done()?;
    let spec = Value::Object(spec.unwrap_or_default());
    let built = call.service().build_profile(call.principal()?, name, &spec).await;
    let built =
        built.map_err(|error| refused(error, |why| format!("Failed in creating profile {name}: {why}")))?;
    let profile = Profile { metadata, ..built };
    call.service().create_profile(&call.writer()?, profile.clone()).await?;
    Ok(Reply::of("profile", show::profile(&profile)).status(StatusCode::CREATED))
}

pub(super) async fn validate(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.new_object("profile")?);
    let spec = form.map("spec")?;
    form.require("spec").done()?;
    let spec = Value::Object(spec.unwrap_or_default());
    let built = call.service().build_profile(call.principal()?, "validated_profile", &spec).await;
    let mut shown = show::profile(&built.map_err(|error| refused(error, str::to_owned))?);
    shown["id"] = Value::Null;
    Ok(Reply::of("profile", shown))
}

/// Returns the error for an invalid specification; `describe` completes the message about its properties.
fn refused(error: ProfileError, describe: impl Fn(&str) -> String) -> SenlinError {
    match error {
        ProfileError::Envelope(error) => SenlinError::spec(error.to_string()),
        ProfileError::UnknownType(kind) => SenlinError::missing("profile_type", &kind),
        ProfileError::Properties(why) => SenlinError::spec(describe(&why)),
        ProfileError::Service(error) => error.into(),
    }
}

pub(super) async fn update(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.changed_object("profile")?);
    let name = form.name("name")?;
    let metadata = form.map("metadata")?;
    form.done()?;
    let profile = call.profile(call.path(0)).await?;
    if name.is_none() && metadata.is_none() {
        return Err(SenlinError::bad("No property needs an update"));
    }
    let updated =
        call.service().update_profile(&call.writer()?, profile, name.map(str::to_owned), metadata).await?;
    Ok(Reply::of("profile", show::profile(&updated)))
}

pub(super) async fn delete(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let profile = call.profile(call.path(0)).await?;
    if call.service().delete_profile(&call.writer()?, &profile).await? {
        return Ok(Reply::empty(StatusCode::NO_CONTENT));
    }
    Err(SenlinError::conflict(
        "ResourceInUse",
        format!(
            "The profile '{}' cannot be deleted: still referenced by some clusters and/or nodes.",
            profile.id
        ),
    ))
}
