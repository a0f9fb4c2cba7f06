//! Who is in a cluster, and which policies it follows: what requests check before actions check it again.

use std::collections::{BTreeSet, HashMap};

use muster_core::change::{AddNodes, Change, PolicyChange, RemoveNodes, ReplaceNodes};
use muster_core::ids::{ActionId, NodeId, ProfileId};
use muster_core::membership::{self, Found, HEAD_STAYS};
use muster_core::node::{Node, NodeRole};
use muster_core::profile::ProfileType;
use muster_store::reads::Thing;
use serde_json::{Map, Value};

use super::call::Call;
use super::field_reader::FieldReader;
use super::senlin_error::{MALFORMED, SenlinError};
use super::version::Version;

/// Since when members can be exchanged.
const REPLACE: Version = Version(3);

/// Since when members can end with their membership.
const DESTROY: Version = Version(4);

/// Since when somebody says that a node may go.
const LIFECYCLE: Version = Version(9);

/// Nodes by the names that a request gives them.
struct Named {
    given: Vec<String>,
    nodes: Vec<Option<(Node, ProfileType)>>,
}

impl Named {
    fn found(&self) -> Vec<Found<'_>> {
        self.given
            .iter()
            .zip(&self.nodes)
            .map(|(given, node)| Found { given, node: node.as_ref().map(|(node, kind)| (node, kind)) })
            .collect()
    }

    fn ids(&self) -> Vec<NodeId> {
        self.nodes.iter().flatten().map(|(node, _)| node.id).collect()
    }

    /// Those that others depend on, by the names that the request gives them.
    fn needed(&self) -> Vec<&str> {
        let found = self.found().into_iter();
        let needed = found.filter(|found| found.node.is_some_and(|(node, _)| !node.dependents.is_empty()));
        needed.map(|found| found.given).collect()
    }

    fn heads(&self) -> bool {
        self.nodes.iter().flatten().any(|(node, _)| node.role == NodeRole::Head)
    }
}

impl Call {
    async fn named_nodes(&self, given: Vec<String>) -> Result<Named, SenlinError> {
        let ids = self.identify_all(Thing::Node, &given).await?;
        let ids: Vec<Option<NodeId>> = ids.into_iter().map(|id| id.map(NodeId::from_uuid)).collect();
        let store = self.service().store();
        let there: Vec<NodeId> = ids.iter().flatten().copied().collect();
        let nodes: HashMap<NodeId, Node> =
            store.nodes_of(&there).await?.into_iter().map(|node| (node.id, node)).collect();
        let profiles: BTreeSet<ProfileId> = nodes.values().map(|node| node.profile_id).collect();
        let profiles = store.profiles_of(&profiles.into_iter().collect::<Vec<_>>()).await?;
        let kinds: HashMap<ProfileId, ProfileType> =
            profiles.into_iter().map(|profile| (profile.id, profile.kind)).collect();
        let found = |id: Option<NodeId>| {
            let node = nodes.get(&id?)?;
            Some((node.clone(), kinds.get(&node.profile_id)?.clone()))
        };
        Ok(Named { nodes: ids.into_iter().map(found).collect(), given })
    }
}

/// The list of nodes that a request names.
fn nodes(form: &mut FieldReader<'_>) -> Result<Vec<String>, SenlinError> {
    let given = match form.any("nodes") {
        None => Vec::new(),
        // As the service reads it: a text is a list of characters.
        Some(Value::String(text)) => text.chars().map(String::from).collect(),
        Some(Value::Array(items)) => {
            let text =
                |item: &Value| item.as_str().map(str::to_owned).ok_or_else(|| SenlinError::form(MALFORMED));
            items.iter().map(text).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(SenlinError::form(MALFORMED)),
    };
    if given.is_empty() {
        return Err(SenlinError::form("Value for 'nodes' must have at least 1 item(s)."));
    }
    let mut unique = std::collections::HashSet::new();
    if given.iter().all(|node| unique.insert(node)) {
        Ok(given)
    } else {
        Err(SenlinError::form("Items for 'nodes' must be unique"))
    }
}

pub(super) async fn add(call: &Call, data: &Map<String, Value>) -> Result<ActionId, SenlinError> {
    let mut form = FieldReader::new(data);
    let given = nodes(&mut form)?;
    form.done()?;
    let cluster = call.cluster(call.path(0)).await?;
    if !call.service().allows_orphans(&cluster) {
        let kind = &cluster.profile_type;
        return Err(SenlinError::bad(format!(
            "nodes cannot join clusters of type {kind}: resize the cluster instead"
        )));
    }
    let named = call.named_nodes(given).await?;
    if let Some(why) = membership::cannot_add(&cluster.profile_type, &named.found()) {
        return Err(SenlinError::bad(why));
    }
    let add = Change::AddNodes(AddNodes { nodes: named.ids(), group: None });
    call.service().check_sizes(&cluster, &add).await?;
    Ok(call.service().change_cluster(&call.caller()?, &cluster, add).await?.id)
}

pub(super) async fn remove(call: &Call, data: &Map<String, Value>) -> Result<ActionId, SenlinError> {
    let mut form = FieldReader::new(data);
    let given = nodes(&mut form)?;
    let destroy = form.truth("destroy_after_deletion")?;
    form.done()?;
    if destroy.is_some() && call.version < DESTROY {
        return Err(SenlinError::form(
            "Additional properties are not allowed ('destroy_after_deletion' was unexpected)",
        ));
    }
    let cluster = call.cluster(call.path(0)).await?;
    let named = call.named_nodes(given).await?;
    if let Some(why) = membership::cannot_remove(cluster.id, &named.found()) {
        return Err(SenlinError::bad(why));
    }
    if named.heads() {
        return Err(SenlinError::bad(HEAD_STAYS));
    }
    if destroy != Some(true) && !call.service().allows_orphans(&cluster) {
        return Err(SenlinError::bad(membership::cannot_leave(&cluster.profile_type)));
    }
    let needed = named.needed();
    if !needed.is_empty() {
        let nodes = muster_core::spec::listed(needed);
        return Err(SenlinError::conflict(
            "ResourceInUse",
            format!("nodes {nodes} are depended by other nodes, so can't be deleted or become orphan nodes"),
        ));
    }
    let remove = Change::RemoveNodes(RemoveNodes { nodes: named.ids(), destroy_after_deletion: destroy });
    call.service().check_sizes(&cluster, &remove).await?;
    Ok(call.service().change_cluster(&call.caller()?, &cluster, remove).await?.id)
}

pub(super) async fn replace(call: &Call, data: &Map<String, Value>) -> Result<ActionId, SenlinError> {
    if call.version < REPLACE {
        return Err(SenlinError::too_old(call.version));
    }
    let mut form = FieldReader::new(data);
    let not_a_map = || SenlinError::form("The data provided is not a map");
    let pairs = form.any("nodes").and_then(Value::as_object).filter(|pairs| !pairs.is_empty());
    let pairs = pairs.ok_or_else(not_a_map)?;
    form.done()?;
    let mut old = Vec::new();
    let mut new = Vec::new();
    for (from, to) in pairs {
        match to {
            Value::String(to) => new.push(to.clone()),
            Value::Null => return Err(SenlinError::form(format!("Field `nodes[{from}]' cannot be None"))),
            _ => return Err(SenlinError::form(MALFORMED)),
        }
        old.push(from.clone());
    }
    let mut unique = std::collections::HashSet::new();
    if !new.iter().all(|node| unique.insert(node)) {
        return Err(SenlinError::form("Map contains duplicated values"));
    }
    let cluster = call.cluster(call.path(0)).await?;
    if !call.service().allows_orphans(&cluster) {
        let kind = &cluster.profile_type;
        return Err(SenlinError::bad(format!(
            "nodes of clusters of type {kind} cannot be replaced: recover them instead"
        )));
    }
    let (old, new) = (call.named_nodes(old).await?, call.named_nodes(new).await?);
    let about = (cluster.id, cluster.name.as_str(), &cluster.profile_type);
    if let Some(why) = membership::cannot_replace(about, &old.found(), &new.found()) {
        return Err(SenlinError::bad(why));
    }
    if old.heads() {
        return Err(SenlinError::bad(HEAD_STAYS));
    }
    let replace = ReplaceNodes { nodes: old.ids().into_iter().zip(new.ids()).collect() };
    Ok(call.service().change_cluster(&call.caller()?, &cluster, Change::ReplaceNodes(replace)).await?.id)
}

/// What a request changes about a policy's binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeOfPolicy {
    Attach,
    Detach,
    Update,
}

/// Attaches or detaches a policy, or enables or disables an attached one.
pub(super) async fn policy(
    call: &Call,
    kind: ChangeOfPolicy,
    data: &Map<String, Value>,
) -> Result<ActionId, SenlinError> {
    let mut form = FieldReader::new(data);
    let given = form.text("policy_id")?;
    let enabled = match kind {
        ChangeOfPolicy::Detach => None,
        _ => form.truth("enabled")?,
    };
    form.require("policy_id").done()?;
    let given = given.unwrap_or_default();
    let named = call.path(0);
    let cluster = call.cluster(named).await?;
    let policy = call.named_policy(given).await?;
    if kind != ChangeOfPolicy::Attach
        && call.service().store().binding(cluster.id, policy.id).await?.is_none()
    {
        return Err(SenlinError::bad(format!(
            "The policy '{given}' is not attached to the specified cluster '{named}'"
        )));
    }
    let change = PolicyChange { policy_id: policy.id, enabled };
    let change = match kind {
        ChangeOfPolicy::Attach => Change::AttachPolicy(change),
        ChangeOfPolicy::Detach => Change::DetachPolicy(change),
        ChangeOfPolicy::Update => Change::UpdatePolicy(change),
    };
    Ok(call.service().change_cluster(&call.caller()?, &cluster, change).await?.id)
}

/// Says that a node may go; the action that waits for it goes on.
pub(super) fn lifecycle_token<'d>(call: &Call, data: &'d Map<String, Value>) -> Result<&'d str, SenlinError> {
    if call.version < LIFECYCLE {
        return Err(SenlinError::too_old(call.version));
    }
    let mut form = FieldReader::new(data);
    let token = form.text("lifecycle_action_token")?;
    form.require("lifecycle_action_token").done()?;
    Ok(token.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use muster_core::sample;
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_that_others_need_are_named_as_they_were_asked_for() {
        let kind = sample::profile().kind;
        let needed =
            Node { dependents: Map::from_iter([("nodes".to_owned(), json!(["x"]))]), ..sample::node(2) };
        let named = Named {
            given: vec!["one".to_owned(), "gone".to_owned(), "two".to_owned()],
            nodes: vec![Some((sample::node(1), kind.clone())), None, Some((needed, kind))],
        };
        assert_eq!(named.needed(), ["two"]);
    }
}
