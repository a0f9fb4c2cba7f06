//! Where something new goes, and whether its maker may have it run there.

use muster_core::cluster::Framework;
use muster_core::ids::InstanceId;
use muster_core::principal::Principal;
use muster_core::profile::ProfileType;
use muster_engine::Engine;

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
