//! Compute templates that are `ConfigMap`s.

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

use crate::connect::Connection;
use crate::follow::{self, Takes, api_in};
use crate::installed::places;
use crate::namespaces::{NOT_SERVED, Namespaces};
use crate::refusal;
use crate::stale::StaleWatches;
use crate::which::Certain;
use crate::write::within;

/// The compute templates of a Kubernetes.
pub(crate) struct Templates {
    instance: InstanceId,
    client: Client,
    certain: Certain,
    namespaces: Arc<Namespaces>,
    observed: Arc<ObservedTemplates>,
}

/// The templates that the watches report.
struct ObservedTemplates {
    instance: InstanceId,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// By namespace and name, with the moment at which each was reported last.
    templates: HashMap<(String, String), (ComputeTemplate, u64)>,
    stale: StaleWatches,
    moment: u64,
}

impl Templates {
    /// Follows the templates of the served namespaces until it is stopped.
    pub(crate) fn follow(
        connection: &Connection,
        served: &[String],
        namespaces: Arc<Namespaces>,
        stop: &CancellationToken,
    ) -> Self {
        let Connection { client, watch_client, instance, certain, .. } = connection;
        let places = places(served);
        let stale = StaleWatches::of(places.iter().cloned().enumerate());
        let observed = Arc::new(ObservedTemplates {
            instance: instance.clone(),
            state: Mutex::new(State { stale, ..State::default() }),
            changes: watch::Sender::new(0),
        });
        for (index, namespace) in places.into_iter().enumerate() {
            let api = api_in(watch_client.clone(), namespace.as_deref());
            let watch = TemplateWatch { observed: Arc::clone(&observed), index, namespace };
            let follow = follow::run(api, config_map::SELECTOR, watch, stop.clone());
            tokio::spawn(certain.clone().then(follow, stop.clone()));
        }
        Self {
            instance: instance.clone(),
            client: client.clone(),
            certain: certain.clone(),
            namespaces,
            observed,
        }
    }

    fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The `ConfigMap` of a template; others are none of ours.
    async fn map(&self, namespace: &str, name: &str) -> Result<Option<ConfigMap>, ProviderError> {
        let what = format!("read compute template '{namespace}/{name}'");
        let maps = self.maps(namespace);
        let found = within(&what, maps.get_opt(name)).await?.map_err(|error| refusal::of(&what, error))?;
        Ok(found.filter(config_map::is_template))
    }
}

#[async_trait]
impl TemplateProvider for Templates {
    async fn keeps(&self, namespace: &str) -> Result<bool, ProviderError> {
        self.certain.check()?;
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
        let new = config_map::write(template);
        match within(&what, maps.create(&PostParams::default(), &new)).await? {
            Ok(created) => Ok(config_map::read(created, &self.instance)),
            Err(Error::Api(status)) if status.code == 409 => {
                let message = format!("ConfigMap '{namespace}/{name}' is there already");
                Err(ProviderError::permanent(NAME_TAKEN, message))
            }
            Err(error) => Err(refusal::of(&what, error)),
        }
    }

    async fn delete(&self, template: &ComputeTemplate) -> Result<(), ProviderError> {
        let ComputeTemplate { namespace, name, uid, .. } = template;
        // Its label may be gone since it was observed.
        let Some(map) = self.map(namespace, name).await? else { return Ok(()) };
        let what = format!("delete compute template '{namespace}/{name}'");
        let preconditions =
            Preconditions { uid: Some(uid.clone()), resource_version: map.metadata.resource_version };
        let parameters = DeleteParams::default().preconditions(preconditions);
        match within(&what, self.maps(namespace).delete(name, &parameters)).await? {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(refusal::of(&what, error)),
        }
    }

    async fn read(&self, namespace: &str, name: &str) -> Result<Option<ComputeTemplate>, ProviderError> {
        Ok(self.map(namespace, name).await?.map(|map| config_map::read(map, &self.instance)))
    }

    fn observed(&self) -> Vec<ComputeTemplate> {
        let state = self.observed.state.lock();
        let templates = state.templates.values().map(|(template, _)| template);
        templates.filter(|template| state.stale.check(&template.namespace).is_ok()).cloned().collect()
    }

    fn knows(&self, namespace: &str) -> bool {
        self.certain.check().is_ok() && self.observed.state.lock().stale.check(namespace).is_ok()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.observed.changes.subscribe()
    }
}

/// What one watch reports.
struct TemplateWatch {
    observed: Arc<ObservedTemplates>,
    index: usize,
    namespace: Option<String>,
}

impl TemplateWatch {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.observed.state.lock());
        self.observed.changes.send_modify(|count| *count += 1);
        changed
    }
}

impl Takes<ConfigMap> for TemplateWatch {
    fn begin(&self) -> u64 {
        let mut state = self.observed.state.lock();
        state.moment += 1;
        state.moment
    }

    fn take(&self, map: ConfigMap, _: Option<u64>) {
        let template = config_map::read(map, &self.observed.instance);
        self.change(|state| {
            state.moment += 1;
            let key = (template.namespace.clone(), template.name.clone());
            state.templates.insert(key, (template, state.moment));
        });
    }

    fn drop(&self, map: ConfigMap) {
        let template = config_map::read(map, &self.observed.instance);
        self.change(|state| state.templates.remove(&(template.namespace, template.name)));
    }

    fn complete(&self, begun: u64) {
        self.change(|state| {
            let is_within = |namespace: &str| self.namespace.as_deref().is_none_or(|own| own == namespace);
            state.templates.retain(|(namespace, _), (_, at)| !is_within(namespace) || *at >= begun);
            state.stale.remove(self.index);
        });
    }

    fn lost(&self, why: String) {
        self.observed.state.lock().stale.add(self.index, self.namespace.clone(), why);
    }
}
