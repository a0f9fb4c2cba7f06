//! Adoption of nodes that were created outside Muster.

use muster_core::profile::ProfileType;
use muster_core::profile_types;
use muster_service::adoption::{Adopted, Adoptee, NewName};
use serde_json::{Map, Value, json};

use super::call::ClusteringCall;
use super::field_reader::FieldReader;
use super::reply::Reply;
use super::senlin_error::SenlinError;

/// The fields of an adoption request.
struct AdoptionFields<'b> {
    identity: &'b str,
    kind: &'b str,
    overrides: Map<String, Value>,
}

impl<'b> AdoptionFields<'b> {
    fn read(form: &mut FieldReader<'b>) -> Result<Self, SenlinError> {
        let identity = form.text("identity")?.unwrap_or_default();
        let kind = form.text("type")?.unwrap_or_default();
        let overrides = form.map("overrides")?.unwrap_or_default();
        let snapshot = form.boolean("snapshot")?.unwrap_or(false);
        form.require("identity").require("type").done()?;
        if identity.is_empty() {
            return Err(SenlinError::bad("The identity is empty: give the id of what to adopt"));
        }
        if snapshot {
            return Err(SenlinError::bad(format!(
                "snapshots of {kind} are not supported: leave out snapshot"
            )));
        }
        Ok(Self { identity, kind, overrides })
    }

    /// Finds the provider instance and the type of the node to adopt, and checks that the caller may adopt it.
    fn find(self, call: &ClusteringCall) -> Result<Adoptee, SenlinError> {
        let unknown = || SenlinError::bad(format!("The profile_type '{}' could not be found.", self.kind));
        let (name, version) = self.kind.rsplit_once('-').ok_or_else(unknown)?;
        let info = profile_types::find(name, version).ok_or_else(unknown)?;
        let kind = ProfileType::new(info.name, info.version);
        let instance = call.service().instance_for("", &kind)?;
        let (service, principal) = (call.service(), call.principal()?);
        service.check_adoption(principal, &instance, self.identity)?;
        service.check_recipe_namespace(principal, &self.overrides)?;
        Ok(Adoptee { instance, kind, identity: self.identity.to_owned(), overrides: self.overrides })
    }
}

/// Shows the profile that a node would have after its adoption.
pub(super) async fn preview(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.body()?);
    let adoptee = AdoptionFields::read(&mut form)?.find(call)?;
    let profile = call.service().adopt_preview(&call.caller()?, &adoptee).await?;
    let spec = json!({
        "type": profile.kind.name,
        "version": profile.kind.version,
        "properties": profile.properties,
    });
    Ok(Reply::of("node_profile", json!({"node_preview": spec})))
}

/// Adopts a node.
pub(super) async fn adopt(call: &ClusteringCall) -> Result<Reply, SenlinError> {
    let mut form = FieldReader::new(call.body()?);
    let name = form.name("name")?.map(str::to_owned);
    let role = form.short_text("role")?.unwrap_or_default().to_owned();
    let metadata = form.map("metadata")?.unwrap_or_default();
    let adoptee = AdoptionFields::read(&mut form)?.find(call)?;
    let named = NewName { name, role, metadata };
    match call.service().adopt(&call.caller()?, &adoptee, named).await? {
        Adopted::Now(node) => Ok(Reply::of("node", call.shown_node(&node).await?)),
        Adopted::Before(known) => Err(SenlinError::conflict(
            "ResourceInUse",
            format!("'{}' cannot be adopted: it is node {known} already.", adoptee.identity),
        )),
    }
}
