//! Compute templates that are stored as `ConfigMap`s.

mod config_map;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, Error};
use muster_core::compute_template::ComputeTemplate;
use muster_core::ids::InstanceId;
use muster_engine::ports::provider::{NAME_TAKEN, NO_NAMESPACE, ProviderError, TemplateProvider};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::cluster_identity::IdentityGate;
use crate::connect::KubernetesConnection;
use crate::errors;
use crate::installed_flavors::watch_scopes;
use crate::namespaces::{NOT_SERVED, Namespaces};
use crate::stale_watches::StaleWatches;
use crate::watches::{self, WatchSink, typed_api};
use crate::writer::with_deadline;

/// The provider of compute templates.
pub(crate) struct Templates {
    instance: InstanceId,
    client: Client,
    identity_gate: IdentityGate,
    namespaces: Arc<Namespaces>,
    observed: Arc<ObservedTemplates>,
}

/// The templates that the watches report.
struct ObservedTemplates {
    instance: InstanceId,
    state: Mutex<TemplateState>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct TemplateState {
    /// The templates by namespace and name, each with the epoch of its last report.
    templates: HashMap<(String, String), (ComputeTemplate, u64)>,
    stale: StaleWatches,
    epoch: u64,
}

impl Templates {
    /// Starts the watches, which end when `stop` is cancelled.
    pub(crate) fn start(
        connection: &KubernetesConnection,
        served: &[String],
        namespaces: Arc<Namespaces>,
        stop: &CancellationToken,
    ) -> Self {
        let KubernetesConnection { client, watch_client, instance, identity_gate, .. } = connection;
        let scopes = watch_scopes(served);
        let stale = StaleWatches::new(scopes.iter().cloned().enumerate());
        let observed = Arc::new(ObservedTemplates {
            instance: instance.clone(),
            state: Mutex::new(TemplateState { stale, ..TemplateState::default() }),
            changes: watch::Sender::new(0),
        });
        for (index, namespace) in scopes.into_iter().enumerate() {
            let api = typed_api(watch_client.clone(), namespace.as_deref());
            let sink = TemplateSink { observed: Arc::clone(&observed), index, namespace };
            let watch = watches::run_watch(api, config_map::SELECTOR, sink, stop.clone());
            tokio::spawn(identity_gate.clone().run_once_confirmed(watch, stop.clone()));
        }
        Self {
            instance: instance.clone(),
            client: client.clone(),
            identity_gate: identity_gate.clone(),
            namespaces,
            observed,
        }
    }

    fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Reads the `ConfigMap` of a template; none if the one of this name is not a template.
    async fn read_map(&self, namespace: &str, name: &str) -> Result<Option<ConfigMap>, ProviderError> {
        let what = format!("read compute template '{namespace}/{name}'");
        let maps = self.maps(namespace);
        let found = errors::found(&what, with_deadline(&what, maps.get(name)).await?)?;
        Ok(found.filter(config_map::is_template))
    }
}

#[async_trait]
impl TemplateProvider for Templates {
    async fn keeps(&self, namespace: &str) -> Result<bool, ProviderError> {
        self.identity_gate.check()?;
        match self.namespaces.check(namespace).await {
            Ok(()) => Ok(true),
            Err(error) if [NO_NAMESPACE, NOT_SERVED].contains(&error.reason.as_ref()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, template: &ComputeTemplate) -> Result<ComputeTemplate, ProviderError> {
        let ComputeTemplate { namespace, name, .. } = template;
        let what = format!("create compute template '{namespace}/{name}'");
        let maps = self.maps(namespace);
        let new = config_map::write_template(template);
        match with_deadline(&what, maps.create(&PostParams::default(), &new)).await? {
            Ok(created) => Ok(config_map::read_template(created, &self.instance)),
            Err(Error::Api(status)) if status.code == 409 => {
                let message = format!("ConfigMap '{namespace}/{name}' already exists");
                Err(ProviderError::permanent(NAME_TAKEN, message))
            }
            Err(error) => Err(errors::request_error(&what, error)),
        }
    }

    async fn delete(&self, template: &ComputeTemplate) -> Result<(), ProviderError> {
        let ComputeTemplate { namespace, name, uid, .. } = template;
        // Without the label of templates, which may have been removed since the observation, it must not be deleted.
        let Some(map) = self.read_map(namespace, name).await? else { return Ok(()) };
        let what = format!("delete compute template '{namespace}/{name}'");
        let preconditions =
            Preconditions { uid: Some(uid.clone()), resource_version: map.metadata.resource_version };
        let parameters = DeleteParams::default().preconditions(preconditions);
        match with_deadline(&what, self.maps(namespace).delete(name, &parameters)).await? {
            Ok(_) => Ok(()),
            Err(error) if errors::is_not_found(&error) => Ok(()),
            Err(error) => Err(errors::request_error(&what, error)),
        }
    }

    async fn read(&self, namespace: &str, name: &str) -> Result<Option<ComputeTemplate>, ProviderError> {
        Ok(self.read_map(namespace, name).await?.map(|map| config_map::read_template(map, &self.instance)))
    }

    fn observed(&self) -> Vec<ComputeTemplate> {
        let state = self.observed.state.lock();
        let templates = state.templates.values().map(|(template, _)| template);
        templates.filter(|template| state.stale.check(&template.namespace).is_ok()).cloned().collect()
    }

    fn knows(&self, namespace: &str) -> bool {
        self.identity_gate.check().is_ok() && self.observed.state.lock().stale.check(namespace).is_ok()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.observed.changes.subscribe()
    }
}

/// Receives the templates of a watch.
struct TemplateSink {
    observed: Arc<ObservedTemplates>,
    index: usize,
    namespace: Option<String>,
}

impl TemplateSink {
    fn change<T>(&self, change: impl FnOnce(&mut TemplateState) -> T) -> T {
        let changed = change(&mut self.observed.state.lock());
        self.observed.changes.send_modify(|count| *count += 1);
        changed
    }
}

impl WatchSink<ConfigMap> for TemplateSink {
    fn begin(&self) -> u64 {
        let mut state = self.observed.state.lock();
        state.epoch += 1;
        state.epoch
    }

    fn apply(&self, map: ConfigMap, _: Option<u64>) {
        let template = config_map::read_template(map, &self.observed.instance);
        self.change(|state| {
            state.epoch += 1;
            let key = (template.namespace.clone(), template.name.clone());
            state.templates.insert(key, (template, state.epoch));
        });
    }

    fn delete(&self, map: ConfigMap) {
        let template = config_map::read_template(map, &self.observed.instance);
        self.change(|state| state.templates.remove(&(template.namespace, template.name)));
    }

    fn synced(&self, begun: u64) {
        self.change(|state| {
            let is_within = |namespace: &str| self.namespace.as_deref().is_none_or(|own| own == namespace);
            state.templates.retain(|(namespace, _), (_, at)| !is_within(namespace) || *at >= begun);
            state.stale.mark_in_sync(self.index);
        });
    }

    fn lost(&self, reason: String) {
        self.observed.state.lock().stale.mark_stale(self.index, self.namespace.clone(), reason);
    }
}
