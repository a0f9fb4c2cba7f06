//! Where something new goes, and whether its maker may have it run there.

use muster_core::cluster::Framework;
use muster_core::ids::InstanceId;
use muster_core::principal::Principal;
use muster_core::profile::ProfileType;
use muster_engine::Engine;
use serde_json::{Map, Value};

use crate::auth::LOCAL_SCHEME;
use crate::core_api::ServerInfo;
use crate::error::ApiError;

/// The provider whose nodes are processes of the server's user.
const LOCAL_PROVIDER: &str = "local";

/// The provider whose nodes are pods.
const KUBERNETES_PROVIDER: &str = "kubernetes";

/// The instance that knows a type, of the provider that was asked for if one was.
pub(crate) fn instance_for(
    engine: &Engine,
    provider: &str,
    kind: &ProfileType,
) -> Result<InstanceId, ApiError> {
    let mut instances = engine.instances();
    instances.sort_by_key(|id| (preference(id.provider()), id.clone()));
    let knows = |id: &&InstanceId| {
        let fits = provider.is_empty() || is_of(id, provider);
        fits && engine.provider(id).is_some_and(|served| served.capabilities(kind, None).is_some())
    };
    if let Some(found) = instances.iter().find(knows) {
        return Ok(found.clone());
    }
    let mut there: Vec<&str> = instances.iter().map(InstanceId::provider).collect();
    there.sort_unstable();
    let there = there.join(", ");
    let sentence = if instances.is_empty() {
        format!("no provider here makes nodes of type {kind}: none is configured")
    } else if provider.is_empty() {
        format!("no provider here makes nodes of type {kind}: choose another profile; there are: {there}")
    } else if instances.iter().any(|id| is_of(id, provider)) {
        format!("provider '{provider}' makes no nodes of type {kind}: choose another profile or provider")
    } else {
        format!("there is no provider '{provider}' here: use one of {there}, or leave it out")
    };
    Err(ApiError::invalid(sentence).word("NoProvider"))
}

/// Where something goes that may go to several: to Kubernetes if there is one.
fn preference(provider: &str) -> u8 {
    match provider {
        KUBERNETES_PROVIDER => 0,
        LOCAL_PROVIDER => 1,
        _ => 2,
    }
}

/// Whether an instance is meant by this: its whole id, or its provider's name.
pub(crate) fn is_of(id: &InstanceId, provider: &str) -> bool {
    id.as_str() == provider || id.provider() == provider
}

/// The framework whose clusters are of this type, if any are.
pub(crate) fn framework_of(kind: &ProfileType) -> Option<Framework> {
    let is_its = |framework: &&Framework| cluster_type(**framework).name == kind.name;
    Framework::ALL.iter().find(is_its).copied()
}

/// The type of a framework's clusters.
pub(crate) fn cluster_type(framework: Framework) -> ProfileType {
    ProfileType::new(&format!("{framework}.cluster"), "1.0")
}

/// Where what a project makes goes to, if nothing else is said.
pub(crate) fn namespace_of<'a>(engine: &'a Engine, project: &'a str) -> Result<&'a str, ApiError> {
    engine.config().projects.namespace_of(project).ok_or_else(|| {
        let sentence = format!(
            "project '{project}' is nowhere at home, since the namespace of its name is another project's: \
             name its namespace in [project_namespaces]"
        );
        ApiError::impossible(sentence).word("NoNamespace")
    })
}

/// Whose what is made in a namespace is.
pub(crate) fn project_of<'a>(engine: &'a Engine, namespace: &'a str) -> Result<&'a str, ApiError> {
    engine.config().projects.project_of(namespace).ok_or_else(|| {
        let home = engine.config().projects.namespace_of(namespace).unwrap_or_default();
        ApiError::not_found(format!(
            "namespace '{namespace}' is no project's: the project of that name is at home in '{home}'"
        ))
    })
}

/// Whether somebody may have something in a namespace: in those of its own project, an admin in all.
pub(crate) fn may_be_in(engine: &Engine, principal: &Principal, namespace: &str) -> Result<(), ApiError> {
    let owner = engine.config().projects.project_of(namespace);
    if principal.is_admin() || owner == Some(&principal.project) {
        return Ok(());
    }
    let project = &principal.project;
    let sentence =
        format!("namespace '{namespace}' is not of project '{project}': name one that is, or leave it out");
    Err(ApiError::forbidden(sentence).word("NamespaceNotYours"))
}

/// The same of the namespace that a recipe names, if it names one.
pub(crate) fn may_be_made(
    engine: &Engine,
    principal: &Principal,
    properties: &Map<String, Value>,
) -> Result<(), ApiError> {
    let named = properties.get("namespace").and_then(Value::as_str);
    named.map_or(Ok(()), |namespace| may_be_in(engine, principal, namespace))
}

/// The same of the namespace of something that is there, where that is within one.
pub(crate) fn may_be_adopted(
    engine: &Engine,
    principal: &Principal,
    instance: &InstanceId,
    identity: &str,
) -> Result<(), ApiError> {
    let place = identity.split_once('/').filter(|_| instance.provider() == KUBERNETES_PROVIDER);
    place.map_or(Ok(()), |(namespace, _)| may_be_in(engine, principal, namespace))
}

/// Whether somebody may have nodes run there.
pub(crate) fn may_run_code(
    info: &ServerInfo,
    principal: &Principal,
    instance: &InstanceId,
) -> Result<(), ApiError> {
    if instance.provider() != LOCAL_PROVIDER || may_run_as_server(info, principal) {
        return Ok(());
    }
    let sentence = "local processes run as the server's own user: only admins may make them here; \
                    ask one, or use another provider";
    Err(ApiError::forbidden(sentence).word("LocalProcessesNeedAdmin"))
}

/// Local processes run as the server's user. Where others than that user come in, only admins may say what runs.
pub(crate) fn may_run_as_server(info: &ServerInfo, principal: &Principal) -> bool {
    let own_user_only = info.auth_schemes.iter().all(|scheme| scheme == LOCAL_SCHEME);
    info.dev || own_user_only || principal.is_admin()
}
