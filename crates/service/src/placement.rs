//! Chooses the instance and the namespace of new objects, and checks that their creator may use them.

use muster_core::cluster::Framework;
use muster_core::ids::{InstanceId, LOCAL_PROVIDER};
use muster_core::principal::Principal;
use muster_core::profile::ProfileType;
use muster_core::profile_types::{self, TypeInfo};
use serde_json::{Map, Value};

use crate::access::{Access, UNOWNED, Verb};
use crate::authorize::{AccessRule, Denied, Resource, authorize};
use crate::error::ServiceError;
use crate::service::Service;

/// The provider whose nodes are pods.
const KUBERNETES_PROVIDER: &str = "kubernetes";

/// Returns true if a text names an instance: by its whole id, or by the name of its provider.
pub fn is_of(id: &InstanceId, provider: &str) -> bool {
    id.as_str() == provider || id.provider() == provider
}

/// The framework of a profile type, if it has one.
pub fn framework_of(kind: &ProfileType) -> Option<Framework> {
    let is_its = |framework: &&Framework| cluster_type(**framework).name == kind.name;
    Framework::ALL.iter().find(is_its).copied()
}

/// The profile type of a framework's clusters.
pub fn cluster_type(framework: Framework) -> ProfileType {
    ProfileType::new(&format!("{framework}.cluster"), "1.0")
}

/// The rank among providers that know the same type: Kubernetes comes first.
fn preference(provider: &str) -> u8 {
    match provider {
        KUBERNETES_PROVIDER => 0,
        LOCAL_PROVIDER => 1,
        _ => 2,
    }
}

impl Service {
    /// The instance for new objects of a type: of the given provider, or of the preferred one if that is empty.
    pub fn instance_for(&self, provider: &str, kind: &ProfileType) -> Result<InstanceId, ServiceError> {
        let mut instances = self.engine.instances();
        instances.sort_by_key(|id| (preference(id.provider()), id.clone()));
        let knows = |id: &&InstanceId| {
            let fits = provider.is_empty() || is_of(id, provider);
            fits && self.engine.provider(id).is_some_and(|served| served.capabilities(kind, None).is_some())
        };
        if let Some(found) = instances.iter().find(knows) {
            return Ok(found.clone());
        }
        let mut providers: Vec<&str> = instances.iter().map(InstanceId::provider).collect();
        providers.sort_unstable();
        let message = if instances.is_empty() {
            format!("no provider supports type {kind}: this server has no provider; configure one")
        } else if provider.is_empty() {
            format!("no provider supports type {kind}: use one of {}", self.supported_types(""))
        } else if instances.iter().any(|id| is_of(id, provider)) {
            let types = self.supported_types(provider);
            format!(
                "provider '{provider}' does not support type {kind}: use another provider, or one of {types}"
            )
        } else {
            let providers = providers.join(", ");
            format!("provider '{provider}' not found: use one of {providers}, or leave it out")
        };
        Err(ServiceError::invalid(message).code("NoProvider"))
    }

    /// The profile types that the given provider supports, or any provider if that is empty; separated by commas.
    fn supported_types(&self, provider: &str) -> String {
        let instances = self.engine.instances();
        let fits = |id: &&InstanceId| provider.is_empty() || is_of(id, provider);
        let served: Vec<_> =
            instances.iter().filter(fits).filter_map(|id| self.engine.provider(id)).collect();
        let is_supported = |info: &&TypeInfo| {
            let kind = ProfileType::new(info.name, info.version);
            served.iter().any(|served| served.capabilities(&kind, None).is_some())
        };
        let types: Vec<String> =
            profile_types::TYPES.iter().filter(is_supported).map(ToString::to_string).collect();
        types.join(", ")
    }

    /// The instance at which apps are found: of the given provider, or of the preferred one if that is empty.
    pub fn instance_of_apps(&self, provider: &str) -> Result<InstanceId, ServiceError> {
        let mut instances = self.engine.instances();
        instances.sort_by_key(|id| (preference(id.provider()), id.clone()));
        let fits = |id: &&InstanceId| provider.is_empty() || is_of(id, provider);
        let found = instances.iter().find(fits).cloned();
        found.ok_or_else(|| {
            let message = format!("provider '{provider}' not found: leave it out");
            ServiceError::invalid(message).code("NoProvider")
        })
    }

    /// The namespace of a project's objects if the request names none.
    pub fn namespace_of<'a>(&'a self, project: &'a str) -> Result<&'a str, ServiceError> {
        self.engine.config().projects.namespace_of(project).ok_or_else(|| {
            let message = format!(
                "project '{project}' has no namespace, because the namespace of its name belongs to another project: \
                 set one in [project_namespaces]"
            );
            ServiceError::impossible(message).code("NoNamespace")
        })
    }

    /// The project of the objects in a namespace.
    pub fn project_of<'a>(&'a self, namespace: &'a str) -> Result<&'a str, ServiceError> {
        self.engine.config().projects.project_of(namespace).ok_or_else(|| {
            let home = self.engine.config().projects.namespace_of(namespace).unwrap_or_default();
            ServiceError::not_found(format!(
                "namespace '{namespace}' belongs to no project: the project of that name has namespace '{home}'"
            ))
        })
    }

    /// Decides if the caller may create objects in a namespace, by the project that owns the namespace.
    pub fn authorize_namespace(&self, access: &Access, namespace: &str) -> Result<(), ServiceError> {
        let what = format!("namespace '{namespace}'");
        let own = || self.namespace_of(&access.principal().project);
        let unseen = |home: &str| {
            ServiceError::not_found(if home.is_empty() {
                format!("{what} could not be found: {} belongs to no project", access.principal().name)
            } else {
                format!("{what} could not be found: use your namespace '{home}'")
            })
        };
        let project = self.project_of(namespace);
        if access.scope().is_some() && project.is_err() {
            return Err(unseen(own()?));
        }
        match access.check(Resource { what: &what, project: project?, owner: &UNOWNED }) {
            Err(Denied::Unseen(_)) => Err(unseen(own()?)),
            Err(denied @ Denied::Forbidden(_)) => Err(denied.into()),
            Ok(()) => Ok(()),
        }
    }

    /// Refuses a namespace of another project, except for admins.
    fn check_namespace(&self, principal: &Principal, namespace: &str) -> Result<(), ServiceError> {
        let (what, owner) = (format!("namespace '{namespace}'"), &UNOWNED);
        let on = |project| Resource { what: &what, project, owner };
        let decided = match self.engine.config().projects.project_of(namespace) {
            Some(project) => authorize(principal, Verb::Change, on(project), AccessRule::Members),
            None => authorize(principal, Verb::Administer, on(""), AccessRule::Members),
        };
        decided.map_err(|_| {
            let project = &principal.project;
            ServiceError::forbidden(format!(
                "{what} does not belong to project '{project}': use a namespace of the project, or leave it out"
            ))
            .code("NamespaceNotYours")
        })
    }

    /// Refuses a recipe that names a namespace of another project.
    pub fn check_recipe_namespace(
        &self,
        principal: &Principal,
        properties: &Map<String, Value>,
    ) -> Result<(), ServiceError> {
        let named = properties.get("namespace").and_then(Value::as_str);
        named.map_or(Ok(()), |namespace| self.check_namespace(principal, namespace))
    }

    /// The namespace that a recipe names, otherwise that of the project.
    pub(crate) fn recipe_namespace(
        &self,
        project: &str,
        properties: &Map<String, Value>,
    ) -> Result<String, ServiceError> {
        match properties.get("namespace").and_then(Value::as_str) {
            Some(named) => Ok(named.to_owned()),
            None => self.namespace_of(project).map(str::to_owned),
        }
    }

    /// Refuses the adoption of a Kubernetes object in a namespace of another project.
    pub fn check_adoption(
        &self,
        principal: &Principal,
        instance: &InstanceId,
        identity: &str,
    ) -> Result<(), ServiceError> {
        let place = identity.split_once('/').filter(|_| instance.provider() == KUBERNETES_PROVIDER);
        place.map_or(Ok(()), |(namespace, _)| self.check_namespace(principal, namespace))
    }

    /// Returns true if a caller may run code as the server's user.
    pub fn may_run_as_server(&self, principal: &Principal) -> bool {
        self.engine.may_run_as_server(principal)
    }
}
