//! Builds a new cluster from a request.

use muster_core::cluster::{Cluster, DEFAULT_GROUP, DEFAULT_TIMEOUT, LONGEST_TIMEOUT, WorkerGroup};
use muster_core::ids::ClusterId;
use muster_core::limits::LimitsChange;
use muster_core::profile::Profile;
use muster_core::recipe::ClusterRecipe;
use muster_core::resize::Sizes;
use muster_core::shape::Shape;
use muster_core::time::TimeSpan;
use muster_service::placement::framework_of;
use muster_service::{Recipe, new_id};
use serde_json::{Map, Value};

use super::super::call::ClusteringCall;
use super::super::field_reader::FieldReader;
use super::super::reply::Reply;
use super::super::senlin_error::SenlinError;
use super::super::sizes::RequestedSizes;

/// The longest part of an object name that is taken from the cluster's name: operators append suffixes to it.
const LONGEST_OBJECT_NAME: usize = 44;

/// The validated fields of a request.
struct CreationFields<'b> {
    name: &'b str,
    sizes: Sizes,
    timeout: TimeSpan,
    metadata: Map<String, Value>,
    config: Map<String, Value>,
    dependents: Map<String, Value>,
}

/// Reads the timeout of the actions of a cluster in seconds; 0 means the default.
pub(super) fn timeout(form: &mut FieldReader<'_>) -> Result<Option<u32>, SenlinError> {
    let Some(given) = form.count("timeout")? else { return Ok(None) };
    let longest = LONGEST_TIMEOUT.secs();
    if i64::from(given) > longest {
        return Err(SenlinError::form(format!("Value must be <= {longest} for field 'timeout'.")));
    }
    let default = u32::try_from(DEFAULT_TIMEOUT.secs()).unwrap_or(u32::MAX);
    Ok(Some(if given == 0 { default } else { given }))
}

pub(in super::super) async fn create(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let limit = call.service().max_nodes();
    let mut form = FieldReader::new(call.new_object("cluster")?);
    let name = form.name("name")?;
    let profile = form.profile()?;
    let asked = RequestedSizes::read(&mut form, limit)?;
    let metadata = form.map("metadata")?.unwrap_or_default();
    let timeout = timeout(&mut form)?;
    let config = form.map("config")?.unwrap_or_default();
    let dependents = form.map("dependents")?.unwrap_or_default();
    form.require("name");
    if profile.is_none() {
        form.require("profile_id");
    }
    form.done()?;
    let sizes = call.service().new_sizes(&asked.for_new_cluster());
    let sizes = sizes.map_err(|refused| SenlinError::bad(refused.to_string()))?;
    let profile = call.named_profile(profile.unwrap_or_default()).await?;
    let wanted = CreationFields {
        name: name.unwrap_or_default(),
        sizes,
        timeout: timeout.map_or(DEFAULT_TIMEOUT, TimeSpan::from_secs),
        metadata,
        config,
        dependents,
    };
    let cluster = new(call, wanted, &profile)?;
    let (caller, recipe) = (call.caller()?, Recipe::Kept(profile));
    let action = call.service().create_cluster(&caller, cluster.clone(), recipe, false).await?;
    let shown = call.shown_cluster(&cluster).await?;
    Ok(Reply::of("cluster", shown).accepted(call, action.id))
}

/// Builds the cluster that is stored.
fn new(call: &ClusteringCall, wanted: CreationFields<'_>, profile: &Profile) -> Result<Cluster, SenlinError> {
    let principal = call.principal()?;
    let framework = framework_of(&profile.kind);
    let recipe = match framework {
        Some(_) => ClusterRecipe::from_stored(&profile.properties).map_err(SenlinError::bad)?,
        None => ClusterRecipe::default(),
    };
    let provider = recipe.provider.as_deref().unwrap_or_default();
    let instance = call.service().instance_for(provider, &profile.kind)?;
    let limits = recipe.limits();
    let namespace = match recipe.namespace {
        Some(namespace) => namespace,
        None => call.service().namespace_of(&principal.project)?.to_owned(),
    };
    let id = ClusterId::from_uuid(new_id());
    let CreationFields { name, sizes, timeout, metadata, config, dependents } = wanted;
    let (project, now) = (&principal.project, call.service().now());
    let new = Cluster::new(id, name, project, instance, profile, now);
    Ok(Cluster {
        object_name: object_name(name, id),
        namespace,
        owner: principal.as_owner(),
        user: principal.id.clone(),
        framework,
        flavor: recipe.flavor,
        groups: vec![WorkerGroup {
            name: DEFAULT_GROUP.to_owned(),
            desired: sizes.size,
            min: sizes.min,
            max: sizes.max,
            shape: Shape::default(),
            spec: Map::new(),
        }],
        timeout,
        limits,
        metadata,
        config,
        dependents,
        ..new
    })
}

/// Returns the limits that differ between two profiles of a framework.
pub(super) fn changed_limits(before: &Profile, after: &Profile) -> Result<LimitsChange, SenlinError> {
    let read = |profile: &Profile| ClusterRecipe::from_stored(&profile.properties).map_err(SenlinError::bad);
    let (before, after) = (read(before)?.limits(), read(after)?.limits());
    let changed = |before: Option<TimeSpan>, after: Option<TimeSpan>| (before != after).then_some(after);
    Ok(LimitsChange {
        idle_timeout: changed(before.idle_timeout, after.idle_timeout),
        max_lifetime: changed(before.max_lifetime, after.max_lifetime),
    })
}

/// Returns a valid name for Kubernetes objects. It contains the id, because cluster names are not unique in this API.
fn object_name(name: &str, id: ClusterId) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(plain).take(LONGEST_OBJECT_NAME).collect();
    let name = name.trim_matches('-');
    let first = if name.starts_with(|first: char| first.is_ascii_lowercase()) { "" } else { "c-" };
    format!("{first}{name}{}{}", if name.is_empty() { "" } else { "-" }, id.short())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("My_Cluster", "my-cluster-")]
    #[case("1st", "c-1st-")]
    #[case("集群", "c-")]
    fn objects_have_names_that_they_can_have(#[case] name: &str, #[case] begins: &str) {
        let id = ClusterId::from_uuid(uuid::Uuid::from_u128(0xabcd_1234 << 96));
        assert_eq!(object_name(name, id), format!("{begins}abcd1234"));
    }
}
