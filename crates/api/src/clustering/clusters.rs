//! Clusters: lists, details, updates, deletion.

mod create;

use http::StatusCode;
use muster_core::change::{Change, ClusterUpdate, ResizeGroup};
use muster_core::cluster::{Cluster, ClusterStatus};
use muster_service::lists::{ClusterQuery, ClusterSort};
use serde_json::{Value, json};

use super::call::ClusteringCall;
use super::field_reader::FieldReader;
use super::query::keys;
use super::reply::Reply;
use super::senlin_error::SenlinError;
use super::show;
use super::sizes::RequestedSizes;
use super::version::MicroVersion;

pub(super) use create::create;

const SORTS: [(&str, ClusterSort); 5] = [
    ("name", ClusterSort::Name),
    ("status", ClusterSort::Status),
    ("init_at", ClusterSort::InitAt),
    ("created_at", ClusterSort::CreatedAt),
    ("updated_at", ClusterSort::UpdatedAt),
];

/// The version that added updates of the profile alone.
const PROFILE_ONLY: MicroVersion = MicroVersion(6);

/// The version that added updates of the configuration.
const CONFIG: MicroVersion = MicroVersion(7);

/// The version that added forced deletions.
const FORCE: MicroVersion = MicroVersion(8);

impl ClusteringCall {
    /// Returns a cluster in the wire format.
    pub(super) async fn shown_cluster(&self, cluster: &Cluster) -> Result<Value, SenlinError> {
        let with = self.service().related_rows(std::slice::from_ref(cluster)).await?;
        Ok(json!(show::cluster(cluster, &with)))
    }
}

pub(super) async fn list(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let query = &call.query;
    query.only(&keys(&["name", "status"]), true)?;
    let wanted = ClusterQuery {
        limit: Some(query.limit()?),
        marker: query.marker()?,
        sort: query.sort(&SORTS, ClusterSort::InitAt)?,
        names: query.texts("name"),
        statuses: query.variants("status")?,
        ..ClusterQuery::default()
    };
    let unobserved = call.service().unobserved();
    let clusters = call.list(wanted).await?.into_iter().map(|cluster| unobserved.explain(cluster));
    let clusters: Vec<Cluster> = clusters.collect();
    let with = call.service().related_rows(&clusters).await?;
    let shown = clusters.iter().map(|cluster| show::cluster(cluster, &with));
    Ok(Reply::of("clusters", shown.collect::<Vec<_>>()))
}

pub(super) async fn show(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let cluster = call.service().unobserved().explain(call.cluster(call.path(0)).await?);
    let with = call.service().related_rows(std::slice::from_ref(&cluster)).await?;
    Ok(Reply::of("cluster", show::cluster(&cluster, &with)))
}

/// Changes the properties, sizes and profile that the request gives.
pub(super) async fn update(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let limit = call.service().max_nodes();
    let mut form = FieldReader::new(call.changed_object("cluster")?);
    let name = form.name("name")?;
    let profile = form.profile()?;
    let metadata = form.map("metadata")?;
    let timeout = create::timeout(&mut form)?;
    let profile_only = form.boolean("profile_only")?.filter(|_| call.version >= PROFILE_ONLY);
    let config = form.map("config")?.filter(|_| call.version >= CONFIG);
    let asked = RequestedSizes::read(&mut form, limit)?;
    form.done()?;
    let cluster = call.cluster(call.path(0)).await?;
    if cluster.status == ClusterStatus::Error {
        return Err(SenlinError::conflict(
            "FeatureNotSupported",
            "Updating a cluster in error state is not supported.",
        ));
    }
    let mut update = ClusterUpdate {
        name: name.filter(|name| *name != cluster.name).map(str::to_owned),
        timeout_seconds: timeout.filter(|timeout| i64::from(*timeout) != cluster.timeout.secs()),
        metadata,
        config,
        ..ClusterUpdate::default()
    };
    if let Some(profile) = profile {
        let profile = call.named_profile(profile).await?;
        if profile.kind.name != cluster.profile_type.name {
            return Err(SenlinError::bad(
                "Cannot update a cluster to a different profile type, operation aborted",
            ));
        }
        if profile.id != cluster.profile_id {
            update.profile_only = profile_only == Some(true);
            if cluster.framework.is_some()
                && let Some(present) = call.service().profile(cluster.profile_id).await?
            {
                update.limits = Some(create::changed_limits(&present, &profile)?);
            }
            update.profile_id = Some(profile.id);
        }
    }
    if !asked.is_empty() {
        let resize = asked.for_change();
        let sizes = Change::Resize(ResizeGroup { group: None, resize, candidates: None });
        call.service().check_sizes(&cluster, &sizes).await?;
        update.resize = Some(resize);
    }
    if update.is_empty() {
        return Err(SenlinError::bad("No property needs an update"));
    }
    let update = Change::UpdateCluster(Box::new(update));
    let action = call.service().change_cluster(&call.caller()?, &cluster, update).await?.id;
    let mut shown = call.shown_cluster(&cluster).await?;
    shown["action"] = action.to_string().into();
    Ok(Reply::of("cluster", shown).accepted(call, action))
}

/// The statuses in which a deletion has to be forced while an action is changing the cluster.
const BUSY: [ClusterStatus; 4] =
    [ClusterStatus::Creating, ClusterStatus::Updating, ClusterStatus::Deleting, ClusterStatus::Recovering];

pub(super) async fn delete(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let body = call.body_or_nothing();
    let mut form = FieldReader::new(&body);
    let force = form.boolean("force")?.or(call.query.boolean("force")?).unwrap_or(false);
    if force && call.version < FORCE {
        return Err(SenlinError::too_old(call.version));
    }
    let given = call.path(0);
    let cluster = call.cluster(given).await?;
    if !force && BUSY.contains(&cluster.status) && call.service().is_changing(Some(cluster.id), None).await? {
        return Err(SenlinError::conflict(
            "ActionInProgress",
            format!("The cluster '{given}' is in status {}.", cluster.status),
        ));
    }
    if let Some(profiles) = cluster.dependents.get("profiles").and_then(Value::as_array)
        && !profiles.is_empty()
    {
        let profiles: Vec<&str> = profiles.iter().filter_map(Value::as_str).collect();
        return Err(SenlinError::conflict(
            "ResourceInUse",
            format!(
                "The cluster '{given}' cannot be deleted: still referenced by profile(s): {}.",
                muster_core::spec::listed(profiles)
            ),
        ));
    }
    let action = call.service().delete_cluster(&call.caller()?, &cluster, force).await?;
    Ok(Reply::empty(StatusCode::ACCEPTED).accepted(call, action.id))
}
